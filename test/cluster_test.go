package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait; it is no measure of speed.
const patience = 5 * time.Minute

func binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("VIGIL")
	if path == "" {
		path = filepath.Join("..", "bin", "vigil")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no binary to test: %v (run make build)", err)
	}
	return path
}

// process is one running `vigil up` over a data directory.
type process struct {
	t       testing.TB
	dataDir string
	port    int
	args    []string
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error // of Wait; valid once exited is closed

	mu     sync.Mutex
	output bytes.Buffer
}

// startCluster runs `vigil up` in a fresh directory on a free port and waits until it says ready.
func startCluster(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{t: t, dataDir: t.TempDir(), port: freePort(t), args: args}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of vigil up:\n%s", p.text())
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	args := append([]string{"up", "--data-dir", p.dataDir, "--secure-port", strconv.Itoa(p.port), "--etcd-port", "0",
		"--controller-manager-port", "0", "--scheduler-port", "0", "--runtime", "simulated"}, p.args...)
	p.cmd = exec.Command(binary(p.t), args...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stderr = lockedWriter{p}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.exited = make(chan struct{})
	ready := make(chan struct{})
	go func() {
		said := false
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			fmt.Fprintln(lockedWriter{p}, scanner.Text())
			if strings.HasPrefix(scanner.Text(), "ready in ") && !said {
				said = true
				close(ready)
			}
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	select {
	case <-ready:
	case <-p.exited:
		p.t.Fatalf("vigil up ended (%v) before it was ready:\n%s", p.err, p.text())
	case <-time.After(patience):
		p.t.Fatalf("vigil up was not ready in %v:\n%s", patience, p.text())
	}
}

// kill ends the process as a power cut would, and waits for its end.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// stop asks the process to end, as Ctrl-C does, and requires a clean exit.
func (p *process) stop() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.exited:
		if p.err != nil {
			p.t.Errorf("vigil up after SIGINT: %v\n%s", p.err, p.text())
		}
	case <-time.After(patience):
		p.t.Fatal("vigil up did not stop after SIGINT")
	}
}

type lockedWriter struct{ p *process }

func (w lockedWriter) Write(data []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.output.Write(data)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func (p *process) kubeconfig() string { return filepath.Join(p.dataDir, "admin.conf") }

// config is the administrator's client configuration, without client-side rate limits.
func (p *process) config() *rest.Config {
	p.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
	if err != nil {
		p.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func (p *process) client() *kubernetes.Clientset {
	p.t.Helper()
	client, err := kubernetes.NewForConfig(p.config())
	if err != nil {
		p.t.Fatal(err)
	}
	return client
}

// kubectlResult runs the real kubectl and returns what it printed.
func (p *process) kubectlResult(stdin string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(p.t), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig(), "HOME="+p.dataDir)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// kubectl runs the real kubectl, which must succeed, and returns its standard output.
func (p *process) kubectl(args ...string) string {
	p.t.Helper()
	return p.kubectlIn("", args...)
}

func (p *process) kubectlIn(stdin string, args ...string) string {
	p.t.Helper()
	stdout, stderr, err := p.kubectlResult(stdin, args...)
	if err != nil {
		p.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
