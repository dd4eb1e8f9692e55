package test

import (
	"strconv"
	"testing"

	"vigil/internal/porttest"
	"vigil/test/harness"
)

// cluster is one whose nodes are simulated, with an API server on a port of its own.
type cluster struct {
	*harness.Cluster
	port int
}

// startCluster runs `vigil up` in a fresh directory and waits until it says ready.
func startCluster(t testing.TB, args ...string) *cluster {
	t.Helper()
	c := &cluster{harness.New(t), porttest.Free(t)}
	c.configure(args...)
	c.Up()
	return c
}

// configure sets the flags with which the cluster is started next.
func (c *cluster) configure(args ...string) {
	c.Args = append([]string{"--secure-port", strconv.Itoa(c.port), "--etcd-port", "0", "--controller-manager-port", "0", "--scheduler-port", "0", "--runtime", "simulated"}, args...)
}
