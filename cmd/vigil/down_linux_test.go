package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet/containerd/containerdtest"
)

// programVariable lets the test binary be the program: a cluster runs as a process, which can be killed, and starts others.
const programVariable = "VIGIL_TEST_PROGRAM"

func asProgram() {
	if os.Getenv(programVariable) != "" {
		main()
		os.Exit(0)
	}
}

// program is the program with these arguments, its output in the test's log when the test fails.
func program(t *testing.T, args ...string) (*exec.Cmd, *output) {
	command := exec.Command("/proc/self/exe", args...)
	command.Env = append(os.Environ(), programVariable+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := &output{}
	command.Stdout, command.Stderr = out, out
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("vigil %s:\n%s", args[0], out.String())
		}
	})
	return command, out
}

type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// machine lists what a cluster may leave behind on a machine.
func machine(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	add := func(what, which string) { found[what] = append(found[what], which) }
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range processes {
		if line, err := os.ReadFile(file); err == nil {
			add("processes", filepath.Base(filepath.Dir(file))+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		add("mounts", strings.Fields(line)[4])
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		add("links", link.Attrs().Name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range routes {
		add("routes", route.String())
	}
	rules, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := rules.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		add("tables", table.Name)
	}
	for what, pattern := range map[string]string{"namespaces": "/run/netns/*", "state": "/run/vigil/*", "results": "/var/lib/cni/results/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found[what] = files
	}
	for _, list := range found {
		slices.Sort(list)
	}
	return found
}

// cgroups lists those of a data directory.
func (c *realCluster) cgroups() []string {
	c.t.Helper()
	sum := sha256.Sum256([]byte(c.dir))
	groups, err := filepath.Glob("/sys/fs/cgroup/*/vigil-" + hex.EncodeToString(sum[:4]))
	if err != nil {
		c.t.Fatal(err)
	}
	return groups
}

// realCluster is a cluster of two nodes with real containers, as a process.
type realCluster struct {
	t       *testing.T
	dir     string
	command *exec.Cmd
	ended   chan struct{} // closed when command has ended
	client  kubernetes.Interface
}

func (c *realCluster) up(nodes int) {
	c.t.Helper()
	command, out := program(c.t, "up", "--data-dir", c.dir, "--nodes", strconv.Itoa(nodes), "--runtime", "containerd", "--runtime-dir", containerdtest.BinDir(c.t))
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	c.command, c.ended = command, ended
	go func() { _ = command.Wait(); close(ended) }()
	c.t.Cleanup(func() { _ = command.Process.Kill(); <-ended })
	eventually.Nil(c.t, "vigil up is ready", func() error {
		select {
		case <-ended:
			c.t.Fatal("vigil up has ended")
		default:
		}
		if strings.Contains(out.String(), "ready in") {
			return nil
		}
		return errors.New("so far it says " + out.String())
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "admin.conf"))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process without a word and waits for its end, and for that of those that it has started, which end by themselves. Until then
// the data directory is in use.
func (c *realCluster) kill() {
	c.t.Helper()
	if err := c.command.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	<-c.ended
	eventually.Nil(c.t, "kubelets end", func() error {
		for _, line := range machine(c.t)["processes"] {
			if strings.Contains(line, " node --config "+c.dir) {
				return errors.New(line)
			}
		}
		return nil
	})
}

// killNode kills the kubelet of a further node and waits for another one.
func (c *realCluster) killNode(node string) {
	c.t.Helper()
	file := filepath.Join(c.dir, "nodes", node, "node.pid")
	was, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	id, _, _ := strings.Cut(string(was), " ")
	pid, err := strconv.Atoi(id)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	eventually.Nil(c.t, "another kubelet", func() error {
		text, err := os.ReadFile(file)
		if err != nil || string(text) == string(was) || !strings.HasSuffix(string(text), "\n") {
			return errors.New("it is the one before")
		}
		return nil
	})
}

// run runs another command of the program to its end.
func (c *realCluster) run(args ...string) string {
	c.t.Helper()
	command, out := program(c.t, append(args, "--data-dir", c.dir)...)
	if err := command.Run(); err != nil {
		c.t.Fatalf("vigil %s: %v", args[0], err)
	}
	return out.String()
}

// deploy makes a pod on each node, with a port of the node and a volume.
func (c *realCluster) deploy() {
	c.t.Helper()
	labels := map[string]string{"app": "demo"}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "demo", Image: "demo:1",
			Ports:          []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 18080}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1},
			VolumeMounts:   []corev1.VolumeMount{{Name: "memory", MountPath: "/memory"}},
		}},
		Volumes: []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
	}}
	if _, err := c.client.AppsV1().Deployments("default").Create(c.t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// pods waits until both pods are ready, on a node each, and returns them in the order of the nodes.
func (c *realCluster) pods() []corev1.Pod {
	c.t.Helper()
	var pods []corev1.Pod
	eventually.Nil(c.t, "a ready pod on each node", func() error {
		list, err := c.client.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods = list.Items
		slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Spec.NodeName, b.Spec.NodeName) })
		ready := 0
		for i := range pods {
			for _, condition := range pods[i].Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pods[i].Spec.NodeName == "node-"+strconv.Itoa(i+1) {
					ready++
				}
			}
		}
		if len(pods) == 2 && ready == 2 {
			return nil
		}
		return fmt.Errorf("%d of %d", ready, len(pods))
	})
	return pods
}

// get asks a server and returns its answer.
func get(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// exchange checks that the pods of both nodes reach each other, with their own addresses, and the nodes' ports them.
func (c *realCluster) exchange(pods []corev1.Pod) {
	c.t.Helper()
	for i, from := range pods {
		to := pods[1-i]
		answer, err := get(fmt.Sprintf("http://%s:8080/fetch?url=http://%s:8080/headers", from.Status.PodIP, to.Status.PodIP))
		if err != nil || !strings.Contains(answer, "From: "+from.Status.PodIP+":") {
			c.t.Errorf("pod on %s asks the one on %s: %v\n%s", from.Spec.NodeName, to.Spec.NodeName, err, answer)
		}
		answer, err = get(fmt.Sprintf("http://%s:18080/hostname", to.Status.HostIP))
		if err != nil || answer != to.Name+"\n" {
			c.t.Errorf("port of %s: %v\n%s", to.Spec.NodeName, err, answer)
		}
	}
}

// TestDown follows a cluster of two nodes with real containers, one of them in a network namespace, through every way to end, and compares the
// machine before and after.
func TestDown(t *testing.T) {
	nstest.Need(t)
	containerdtest.BinDir(t)
	c := &realCluster{t: t, dir: filepath.Join(t.TempDir(), "data")}
	before := machine(t)
	unchanged := func(when string) {
		t.Helper()
		eventually.Nil(t, "nothing is left "+when, func() error {
			if left := gocmp.Diff(before, machine(t)); left != "" {
				return errors.New(left)
			}
			return nil
		})
		if groups := c.cgroups(); len(groups) > 0 {
			t.Errorf("cgroups left %s: %v", when, groups)
		}
	}
	c.up(2)
	if len(c.cgroups()) == 0 {
		t.Error("there are no cgroups, or they are called otherwise")
	}
	c.deploy()
	pods := c.pods()
	c.exchange(pods)

	c.kill() // pods go on without it
	c.exchange(pods)
	c.up(2) // and are taken over
	if again := c.pods(); again[0].Status.ContainerStatuses[0].ContainerID != pods[0].Status.ContainerStatuses[0].ContainerID ||
		again[1].Status.ContainerStatuses[0].ContainerID != pods[1].Status.ContainerStatuses[0].ContainerID {
		t.Error("containers were started again")
	}
	c.exchange(pods)
	c.killNode("node-2") // which is started again, beside its pods
	if again := c.pods(); again[1].Status.ContainerStatuses[0].ContainerID != pods[1].Status.ContainerStatuses[0].ContainerID {
		t.Error("containers of a node that was killed were started again")
	}

	if out := c.run("down"); !strings.Contains(out, "stopped vigil (process ") || !strings.Contains(out, "stopped node node-2") {
		t.Errorf("vigil down printed\n%s", out)
	}
	unchanged("after vigil down")
	c.run("down") // once more
	unchanged("after a second vigil down")

	c.up(2) // the data is still there, and says of containers that have ended that they are ready, until their kubelets have looked
	ended := pods
	eventually.Nil(t, "new containers", func() error {
		pods = c.pods()
		for i := range pods {
			if pods[i].Status.ContainerStatuses[0].ContainerID == ended[i].Status.ContainerStatuses[0].ContainerID {
				return errors.New(pods[i].Spec.NodeName + " has the old one")
			}
		}
		return nil
	})
	c.exchange(pods)
	c.kill()
	c.up(1) // one node less: nobody would look after it
	if state := machine(t); len(state["namespaces"]) > 0 || slices.ContainsFunc(state["processes"], func(line string) bool { return strings.Contains(line, "nodes/node-2") }) {
		t.Errorf("a node that is no more has left %v and %v", state["namespaces"], state["processes"])
	}
	for _, line := range machine(t)["processes"] { // the power fails, for all but the kernel's state
		if id, _, _ := strings.Cut(line, " "); !slices.Contains(before["processes"], line) {
			if pid, err := strconv.Atoi(id); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	if out := c.run("reset", "--yes"); !strings.Contains(out, "removed "+c.dir) {
		t.Errorf("vigil reset printed\n%s", out)
	}
	unchanged("after killing all and vigil reset")
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("the data directory is still there: %v", err)
	}
	if out := c.run("reset", "--yes"); !strings.Contains(out, "there is nothing in "+c.dir) {
		t.Errorf("vigil reset of nothing printed\n%s", out)
	}
}
