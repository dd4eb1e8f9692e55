// Package leaktest fails a package's tests when goroutines outlive them.
//
//	func TestMain(m *testing.M) { leaktest.Main(m, "vigil/scheduler") }
package leaktest

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long goroutines that were told to end may take. It is no measure of speed.
const patience = 5 * time.Minute

// Main runs the tests and exits. After passing tests it waits for the goroutines that are in code of the given packages
// (and those below them), and exits with 1 when some stay.
func Main(m *testing.M, packages ...string) { MainExcept(m, nil, packages...) }

// MainExcept is Main for tests that cannot but leave goroutines behind: those of which the stack contains an expected text.
func MainExcept(m *testing.M, expected []string, packages ...string) {
	code := m.Run()
	if code == 0 {
		if left := leaked(packages, expected); left != "" {
			fmt.Fprintln(os.Stderr, "goroutines left behind:\n"+left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits for goroutines to end, and returns the stacks of those that do not.
func leaked(packages, expected []string) string {
	if client, ok := http.DefaultTransport.(*http.Transport); ok {
		client.CloseIdleConnections()
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for {
		left := slices.DeleteFunc(stacks(packages), func(stack string) bool {
			return slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(stack, text) })
		})
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
		<-tick.C
	}
}

func stacks(packages []string) (ours []string) {
	buf := make([]byte, 8<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "leaktest.Main") {
			continue
		}
		for _, p := range packages {
			if strings.Contains(stack, "\n"+p+".") || strings.Contains(stack, "\n"+p+"/") {
				ours = append(ours, stack)
				break
			}
		}
	}
	return ours
}
