// Package need lets a test say what it needs of the machine, instead of skipping.
//
//	need.Root(t, "mounts a file system")
//	node := need.Program(t, "node")
//
// Where the machine cannot give it, the test is skipped with a line that starts with NOT TESTED. Where the environment variable CI is set,
// a test that cannot run fails: nobody reads what was skipped there. The exception are programs that [WithoutVariable] names: what runs the
// tests has looked for them, could not have them, and says so.
//
// Each line goes to the end of the file that [ReportVariable] names, too, when it names one. .ci/run shows it at its end.
//
// A test that has another reason (testing.Short, the race detector) calls Skip directly: another run of the same tests does it.
package need

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	// WithoutVariable names the environment variable that lists programs, separated by spaces, that this machine does not have, or not as
	// tests need them.
	WithoutVariable = "VIGIL_WITHOUT"
	// ReportVariable names the environment variable that holds the path of a file for what was not tested.
	ReportVariable = "VIGIL_NOT_TESTED"
)

// Program returns the path of a program of somebody else.
func Program(t testing.TB, name string) string {
	t.Helper()
	reason := "needs the program " + name
	if slices.Contains(strings.Fields(os.Getenv(WithoutVariable)), name) {
		skip(t, reason)
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	Missing(t, reason)
	return ""
}

// Root goes on as root only; what says what the test does that only root may do.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "needs root: it "+what)
	}
}

// Missing ends the test, which this machine lacks something for.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s, and where CI is set no test is skipped", reason)
	}
	skip(t, reason)
}

func skip(t testing.TB, reason string) {
	t.Helper()
	if path := os.Getenv(ReportVariable); path != "" {
		if err := report(path, fmt.Sprintf("%s: %s\n", t.Name(), reason)); err != nil {
			t.Errorf("report what is not tested: %v", err)
		}
	}
	t.Skip("NOT TESTED: " + reason)
}

// report appends one line in one write, so that lines of several processes stay whole.
func report(path, line string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(line); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
