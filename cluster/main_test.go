package cluster_test

import (
	"os"
	"testing"
)

// TestMain lets the test binary be the process of BenchmarkNodes that has the nodes.
func TestMain(m *testing.M) {
	if dir := os.Getenv(nodesVariable); dir != "" {
		os.Exit(nodesMain(dir))
	}
	os.Exit(m.Run())
}
