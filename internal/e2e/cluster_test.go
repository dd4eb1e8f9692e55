package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/internal/nstest"
)

// TestMain lets eight tests wait at once, unless -parallel says otherwise: they wait for the cluster more than they work.
func TestMain(m *testing.M) {
	nstest.Enter()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// patience bounds every wait; it is no measure of speed.
const patience = 5 * time.Minute

// program is the vigil that is tested.
func program(t testing.TB) string {
	t.Helper()
	path := os.Getenv("VIGIL")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "vigil")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no program to test: %v (run make build)", err)
	}
	return path
}

// runtimeDir has the programs of the container runtime.
func runtimeDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("VIGIL_RUNTIME")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", "runtime")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "containerd")); err != nil {
		t.Fatalf("no container runtime to test with: %v (run make runtime)", err)
	}
	return dir
}

// cluster is one `vigil up` with real containers, over a data directory.
type cluster struct {
	t         testing.TB
	dataDir   string
	args      []string
	namespace string // in which kubectl and all that is below work

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; valid once exited is closed

	mu     sync.Mutex
	output bytes.Buffer
}

// start runs `vigil up` in a fresh directory and waits until it is ready. The machine is a namespace: its address is that of a
// link to a namespace beside it, through which its default route leads.
func start(t testing.TB, args ...string) *cluster {
	t.Helper()
	nstest.Need(t)
	outside(t)
	c := &cluster{t: t, dataDir: t.TempDir(), args: args, namespace: "default"}
	t.Cleanup(c.remove)
	c.up()
	return c
}

// within is the cluster for a test of its own, in a namespace of its own. The namespace goes when the cluster goes.
func (c *cluster) within(t *testing.T, namespace string) *cluster {
	t.Helper()
	w := &cluster{t: t, dataDir: c.dataDir, namespace: namespace}
	w.kubectl("create", "namespace", namespace)
	w.until("the account of pods", func() error {
		_, err := w.client().CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"get", "events"}, {"get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name}{\": \"}{.status}{\"\\n\"}{end}"}} {
				out, _, _ := w.tryKubectl("", args...) // what there is
				t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
			}
		}
	})
	return w
}

// up starts the cluster, again after its end.
func (c *cluster) up() {
	c.t.Helper()
	args := append([]string{"up", "--data-dir", c.dataDir, "--runtime", "containerd", "--runtime-dir", runtimeDir(c.t),
		"--eviction-hard", "memory.available<50Mi"}, c.args...)
	c.cmd = exec.Command(program(c.t), args...)
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Stderr = locked{c}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.exited = make(chan struct{})
	ready := make(chan struct{})
	cmd, exited := c.cmd, c.exited
	go func() {
		said := false
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			fmt.Fprintln(locked{c}, scanner.Text())
			if strings.HasPrefix(scanner.Text(), "ready in ") && !said {
				said = true
				close(ready)
			}
		}
		c.err = cmd.Wait()
		close(exited)
	}()
	select {
	case <-ready:
	case <-exited:
		c.t.Fatalf("vigil up ended (%v) before it was ready:\n%s", c.err, c.text())
	case <-time.After(patience):
		c.t.Fatalf("vigil up was not ready in %v:\n%s", patience, c.text())
	}
}

// kill ends Vigil as kill -9 does, and waits for its end. Containers run on.
func (c *cluster) kill() {
	if c.cmd == nil || c.cmd.Process == nil {
		return
	}
	select {
	case <-c.exited:
	default:
		_ = c.cmd.Process.Kill() // it may have just ended
		<-c.exited
	}
}

// stop ends Vigil as Ctrl-C does, which must be clean.
func (c *cluster) stop() {
	c.t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGINT) // whether it has ended is looked at next
	select {
	case <-c.exited:
		if c.err != nil {
			c.t.Errorf("vigil up after SIGINT: %v\n%s", c.err, c.text())
		}
	case <-time.After(patience):
		c.t.Fatal("vigil up did not stop after SIGINT")
	}
}

// remove ends the cluster and everything it has on this machine.
func (c *cluster) remove() {
	if c.t.Failed() {
		c.describe()
	}
	c.kill()
	if out, err := exec.Command(program(c.t), "down", "--data-dir", c.dataDir).CombinedOutput(); err != nil {
		c.t.Errorf("vigil down: %v\n%s", err, out)
	}
	// The next test is not to meet it.
	if mounts, state := c.mounts(), c.state(); len(mounts) > 0 || len(state) > 0 {
		c.t.Errorf("vigil down has left the mounts %v, and %v", mounts, state)
		c.boot()
	}
}

// describe prints what may explain a failure.
func (c *cluster) describe() {
	c.t.Logf("output of vigil up:\n%s", c.text())
	for _, args := range [][]string{{"get", "pods,nodes", "-A", "-o", "wide"}, {"get", "events", "-A"}} {
		if out, _, err := c.tryKubectl("", args...); err == nil {
			c.t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
		}
	}
}

type locked struct{ c *cluster }

func (w locked) Write(data []byte) (int, error) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.c.output.Write(data)
}

func (c *cluster) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dataDir, "admin.conf") }

// config is the administrator's, without limits of its own.
func (c *cluster) config() *rest.Config {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		c.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

func (c *cluster) client() *kubernetes.Clientset {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.config())
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// command is kubectl, not started.
func (c *cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program(c.t), append([]string{"kubectl", "--namespace", c.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(), "HOME="+c.dataDir)
	return cmd
}

// tryKubectl runs kubectl and returns what it printed.
func (c *cluster) tryKubectl(stdin string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := c.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// kubectl runs kubectl, which must succeed, and returns its standard output.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.kubectlIn("", args...)
}

func (c *cluster) kubectlIn(stdin string, args ...string) string {
	c.t.Helper()
	stdout, stderr, err := c.tryKubectl(stdin, args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// until waits until check returns nil.
func (c *cluster) until(what string, check func() error) {
	c.t.Helper()
	eventually(c.t, what, check)
}

// fails runs kubectl, which must fail, and returns what it said on standard error and its exit code.
func (c *cluster) fails(args ...string) (string, int) {
	c.t.Helper()
	stdout, stderr, err := c.tryKubectl("", args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		c.t.Fatalf("kubectl %s: %v, want a failure\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stderr, exit.ExitCode()
}

// demo runs a command of the demo image in the first container of a pod, and returns its output.
func (c *cluster) demo(pod string, args ...string) string {
	c.t.Helper()
	return c.kubectl(append([]string{"exec", pod, "--", "/demo"}, args...)...)
}

// manifest is a pod with a field "spec" in YAML's flow style, without the braces.
func manifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %[1]s, labels: {app: %[1]s}}\nspec: {terminationGracePeriodSeconds: 1, %[2]s}\n---\n", name, spec)
}

// container is the status of a container of any kind; an empty one when there is none.
func container(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return list[i]
			}
		}
	}
	return corev1.ContainerStatus{}
}

// waits waits until a container waits for a reason, and returns the pod.
func (c *cluster) waits(pod, containerName, reason string) *corev1.Pod {
	c.t.Helper()
	return c.untilPod(pod, containerName+" waits with "+reason, func(p *corev1.Pod) bool {
		waiting := container(p, containerName).State.Waiting
		return waiting != nil && waiting.Reason == reason
	})
}

// isReady says whether a pod's condition Ready is true.
func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// apply applies manifests.
func (c *cluster) apply(manifests string) {
	c.t.Helper()
	c.kubectlIn(manifests, "apply", "-f", "-")
}

// pod reads a pod.
func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod, err := c.client().CoreV1().Pods(c.namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// running waits until a pod is ready and returns it.
func (c *cluster) running(name string) *corev1.Pod {
	c.t.Helper()
	c.kubectl("wait", "--for=condition=Ready", "--timeout="+patience.String(), "pod/"+name)
	return c.pod(name)
}

// untilPod waits until a pod is as wanted, and returns it.
func (c *cluster) untilPod(name, what string, is func(pod *corev1.Pod) bool) *corev1.Pod {
	c.t.Helper()
	var pod *corev1.Pod
	eventually(c.t, what, func() error {
		if pod = c.pod(name); !is(pod) {
			return fmt.Errorf("pod %s has the status %+v", name, pod.Status)
		}
		return nil
	})
	return pod
}

// events are the reasons and messages of the events of a pod, "Reason: message".
func (c *cluster) events(pod string) []string {
	c.t.Helper()
	list, err := c.client().CoreV1().Events(c.namespace).List(c.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		c.t.Fatal(err)
	}
	texts := make([]string, len(list.Items))
	for i := range list.Items {
		texts[i] = list.Items[i].Reason + ": " + list.Items[i].Message
	}
	return texts
}

// hasEvent waits for an event of a pod that contains text.
func (c *cluster) hasEvent(pod, text string) {
	c.t.Helper()
	eventually(c.t, "event "+text, func() error {
		all := strings.Join(c.events(pod), "\n")
		if !strings.Contains(all, text) {
			return errors.New("events of " + pod + ":\n" + all)
		}
		return nil
	})
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
		time.Sleep(50 * time.Millisecond)
	}
}
