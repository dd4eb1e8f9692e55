package need

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Name() string                   { return "TestX" }
func (r *recorder) Skip(args ...any)               { r.end("skipped: " + fmt.Sprint(args...)) }
func (r *recorder) Fatalf(format string, a ...any) { r.end("failed: " + fmt.Sprintf(format, a...)) }
func (r *recorder) end(how string)                 { r.ended = how; runtime.Goexit() }

func TestProgram(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	for _, c := range []struct{ name, ci, without, program, want, reported string }{
		{"there is one", "true", "", "go", "", ""},
		{"there is none", "", "", "no-such-program", "skipped: NOT TESTED: needs the program no-such-program", "TestX: needs the program no-such-program\n"},
		{"there is none in CI", "true", "another", "no-such-program", "failed: needs the program no-such-program, and where CI is set no test is skipped", ""},
		{"CI knows that there is none", "true", "another no-such-program", "no-such-program", "skipped: NOT TESTED: needs the program no-such-program", "TestX: needs the program no-such-program\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			t.Setenv(WithoutVariable, c.without)
			t.Setenv(ReportVariable, report)
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() { defer close(done); Program(r, c.program) }()
			<-done
			if !strings.HasPrefix(r.ended, c.want) || (c.want == "") != (r.ended == "") {
				t.Errorf("the test %q, want %q", r.ended, c.want)
			}
			said, err := os.ReadFile(report)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if string(said) != c.reported {
				t.Errorf("reported %q, want %q", said, c.reported)
			}
			_ = os.Remove(report) // there need not be one
		})
	}
}
