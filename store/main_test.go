package store_test

import (
	"flag"
	"os"
	"testing"

	"vigil/internal/leaktest"
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
	leaktest.MainExcept(m, damaged, "vigil/store", "go.etcd.io", "google.golang.org/grpc")
}

// damaged are functions of goroutines that etcd leaves behind when it gives up over damaged data in the middle of its start.
var damaged = []string{"storage.OpenBackend", "backend.(*backend).run", "wal.(*filePipeline).run", "logutil", "cmux", "lumberjack"}
