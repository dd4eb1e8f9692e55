package store_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"vigil/internal/nstest"
)

// TestMain runs the tests in namespaces of their own, or the child of the crash tests when the test binary is started as one, and
// fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	nstest.Enter() // for disks that are full
	flag.Parse()
	code := m.Run()
	if left := leaked(5 * time.Minute); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of the store's and etcd's goroutines that do not end in time.
func leaked(timeout time.Duration) string {
	for deadline := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for stack := range strings.SplitSeq(string(buf), "\n\n") {
			ours := strings.Contains(stack, "vigil/store.") || strings.Contains(stack, "go.etcd.io/") || strings.Contains(stack, "google.golang.org/grpc")
			if ours && !strings.Contains(stack, "store_test.TestMain") && !expectedLeak(stack) {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// expectedLeak knows what etcd leaves behind when it gives up over damaged data in the middle of its start.
func expectedLeak(stack string) bool {
	for _, f := range []string{"storage.OpenBackend", "backend.(*backend).run", "wal.(*filePipeline).run", "logutil", "cmux", "lumberjack"} {
		if strings.Contains(stack, f) {
			return true
		}
	}
	return false
}
