// Package harness runs whole clusters for tests: `vigil up` over a data directory, as a process, and kubectl beside it. The program is $VIGIL, else
// bin/vigil (`make build`).
//
//	c := harness.New(t, "--runtime", "simulated")
//	c.Up()
//	c.Kubectl("get", "nodes")
//
// It knows nothing of what runs in a cluster. What a test must know of its machine (namespaces, ports) is the test's business.
package harness

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/internal/built"
	"vigil/internal/eventually"
)

// Cluster is one `vigil up` over a data directory. Tests that share it have copies of it ([Cluster.For]).
type Cluster struct {
	T         testing.TB // the test that fails
	DataDir   string
	Args      []string // of vigil up, beside the data directory; what is changed holds from the next Up on
	Namespace string   // in which kubectl works; "" leaves that to kubectl

	process *process
}

// process is one run after another of vigil up.
type process struct {
	cmd    *exec.Cmd     // nil before the first
	exited chan struct{} // closed when the last run has ended
	err    error         // with which it ended; valid once exited is closed
	output Screen
}

// New makes a cluster in a fresh directory, which does not run yet. When the test ends it is killed, and its output shown if the test has failed.
func New(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{T: t, DataDir: t.TempDir(), Args: args, process: &process{}}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("output of vigil up:\n%s", c.Output())
		}
	})
	return c
}

// For returns the cluster for a test that fails in place of c's and works in a namespace.
func (c *Cluster) For(t testing.TB, namespace string) *Cluster {
	other := *c
	other.T, other.Namespace = t, namespace
	return &other
}

// Up starts the cluster, again after its end, and waits until it is ready.
func (c *Cluster) Up() {
	c.T.Helper()
	p := c.process
	cmd := exec.Command(built.Program(c.T), append([]string{"up", "--data-dir", c.DataDir}, c.Args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	cmd.Stderr = &p.output
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	ready, exited := make(chan struct{}), make(chan struct{})
	p.cmd, p.exited = cmd, exited
	go func() {
		said := false
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			fmt.Fprintln(&p.output, scanner.Text())
			if strings.HasPrefix(scanner.Text(), "ready in ") && !said {
				said = true
				close(ready)
			}
		}
		p.err = cmd.Wait()
		close(exited)
	}()
	select {
	case <-ready:
	case <-exited:
		c.T.Fatalf("vigil up ended (%v) before it was ready:\n%s", p.err, c.Output())
	case <-time.After(eventually.Limit):
		c.T.Fatalf("vigil up was not ready in %v:\n%s", eventually.Limit, c.Output())
	}
}

// Kill ends Vigil as kill -9 does, and waits for its end. Containers run on.
func (c *Cluster) Kill() {
	if c.process.cmd == nil {
		return
	}
	select {
	case <-c.process.exited:
	default:
		_ = c.process.cmd.Process.Kill() // it may have just ended
		<-c.process.exited
	}
}

// Stop ends Vigil as Ctrl-C does, which must be clean.
func (c *Cluster) Stop() {
	c.T.Helper()
	_ = c.process.cmd.Process.Signal(syscall.SIGINT) // whether it has ended is looked at next
	select {
	case <-c.process.exited:
		if err := c.process.err; err != nil {
			c.T.Errorf("vigil up after SIGINT: %v\n%s", err, c.Output())
		}
	case <-time.After(eventually.Limit):
		c.T.Fatal("vigil up did not stop after SIGINT")
	}
}

// Output returns what vigil up has printed so far, in all its runs.
func (c *Cluster) Output() string { return c.process.output.String() }

// PID returns the process ID of vigil up.
func (c *Cluster) PID() int { return c.process.cmd.Process.Pid }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.DataDir, "admin.conf") }

// Config returns the administrator's client configuration, without limits of its own.
func (c *Cluster) Config() *rest.Config {
	c.T.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		c.T.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Client returns a client of the administrator's.
func (c *Cluster) Client() *kubernetes.Clientset {
	c.T.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		c.T.Fatal(err)
	}
	return client
}
