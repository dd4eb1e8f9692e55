package cgroups

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/need"
)

// TestMain is also what tests run in groups: a process that waits for a line, then uses up memory or processes.
func TestMain(m *testing.M) {
	switch os.Getenv("VIGIL_CGROUPS_TEST") {
	case "memory":
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		var held [][]byte
		for {
			block := make([]byte, 1<<20)
			for i := range block {
				block[i] = 1
			}
			held = append(held, block)
			fmt.Println(len(held))
		}
	case "pids":
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		for range 200 {
			if err := exec.Command("/bin/sleep", "1000").Start(); err != nil {
				fmt.Println(err)
				_, _ = io.Copy(io.Discard, os.Stdin)
				os.Exit(0)
			}
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// realTree is a tree in the machine's own hierarchies, under a root of its own.
func realTree(t *testing.T, config Config) *Tree {
	t.Helper()
	need.Root(t, "makes cgroups")
	config.Root = fmt.Sprintf("/vigil-test-%d-%s", os.Getpid(), t.Name())
	tree, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(); err != nil {
			t.Error(err)
		}
		for _, h := range tree.hierarchies {
			if _, err := os.Stat(filepath.Join(h.dir, tree.config.Root)); err == nil {
				t.Errorf("%s is left in %s", tree.config.Root, h.dir)
			}
		}
	})
	if err := tree.Setup(list("cpu", "2", "memory", "1Gi", "pid", "1000")); err != nil {
		t.Fatal(err)
	}
	return tree
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func pod(uid string, requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
	}
}

// read reads a file of a group, in the hierarchy of a controller.
func (t *Tree) read(tb testing.TB, controller, group, file string) string {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(t.controller[controller], group, file))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// enter starts this test's program in a group.
func enter(t *testing.T, tree *Tree, group, what string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "VIGIL_CGROUPS_TEST="+what)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for _, h := range tree.hierarchies {
		if err := write(filepath.Join(h.dir, group), "cgroup.procs", strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewScanner(out)
}

func TestTree_RealGroups(t *testing.T) {
	tree := realTree(t, Config{PodPidsLimit: 100})
	if tree.Version() != 1 {
		t.Skip("the files of v2 are checked on a directory")
	}
	for _, group := range []string{"", "/burstable", "/besteffort"} {
		if !tree.exists(tree.PodsPath() + group) {
			t.Errorf("kubepods%s is not there", group)
		}
	}
	check := func(controller, group, file, want string) {
		t.Helper()
		if got := tree.read(t, controller, group, file); got != want {
			t.Errorf("%s of %s: %s, want %s", file, group, got, want)
		}
	}
	check("memory", tree.PodsPath(), "memory.limit_in_bytes", "1073741824")
	check("cpu", tree.PodsPath(), "cpu.shares", "2048")
	check("pids", tree.PodsPath(), "pids.max", "1000")
	check("cpu", tree.PodsPath()+"/besteffort", "cpu.shares", "2")

	guaranteed := pod("g", list("cpu", "500m", "memory", "64Mi"), list("cpu", "500m", "memory", "64Mi"))
	burstable := pod("b", list("cpu", "250m"), list("memory", "32Mi"))
	parent, err := tree.Ensure(guaranteed)
	if err != nil || parent != tree.PodsPath()+"/podg" {
		t.Fatalf("guaranteed: %s, %v", parent, err)
	}
	check("cpu", parent, "cpu.shares", "512")
	check("cpu", parent, "cpu.cfs_quota_us", "50000")
	check("cpu", parent, "cpu.cfs_period_us", "100000")
	check("memory", parent, "memory.limit_in_bytes", "67108864")
	check("pids", parent, "pids.max", "100")
	if _, ok := tree.controller["cpuset"]; ok {
		check("cpuset", parent, "cpuset.cpus", tree.read(t, "cpuset", "/", "cpuset.cpus"))
	}
	if parent, err = tree.Ensure(burstable); err != nil || parent != tree.PodsPath()+"/burstable/podb" {
		t.Fatalf("burstable: %s, %v", parent, err)
	}
	check("cpu", parent, "cpu.cfs_quota_us", "-1")
	check("memory", parent, "memory.limit_in_bytes", "33554432")
	check("cpu", tree.PodsPath()+"/burstable", "cpu.shares", "256")

	t.Run("resized", func(t *testing.T) {
		burstable.Spec.Containers[0].Resources.Requests = list("cpu", "1")
		burstable.Spec.Containers[0].Resources.Limits = list("cpu", "2", "memory", "48Mi")
		if _, err := tree.Ensure(burstable); err != nil {
			t.Fatal(err)
		}
		check("cpu", parent, "cpu.shares", "1024")
		check("cpu", parent, "cpu.cfs_quota_us", "200000")
		check("memory", parent, "memory.limit_in_bytes", "50331648")
		check("cpu", tree.PodsPath()+"/burstable", "cpu.shares", "1024")
		burstable.Spec.Containers[0].Resources.Limits = nil
		if _, err := tree.Ensure(burstable); err != nil {
			t.Fatal(err)
		}
		check("cpu", parent, "cpu.cfs_quota_us", "-1")
		check("memory", parent, "memory.limit_in_bytes", "9223372036854771712")
	})

	t.Run("found again by another process", func(t *testing.T) {
		second, err := newTree(tree.config, tree.hierarchies)
		if err != nil {
			t.Fatal(err)
		}
		if pods, err := second.Pods(); err != nil || fmt.Sprint(pods) != "[b g]" {
			t.Errorf("pods: %v, %v", pods, err)
		}
		if err := second.Remove("b"); err != nil {
			t.Error(err)
		}
		if err := second.Remove("b"); err != nil {
			t.Errorf("removed again: %v", err)
		}
		if pods, err := second.Pods(); err != nil || fmt.Sprint(pods) != "[g]" {
			t.Errorf("pods: %v, %v", pods, err)
		}
		if _, err := tree.Ensure(burstable); err != nil || !tree.exists(parent) {
			t.Errorf("made again: %v", err)
		}
	})
	if err := tree.Remove("b"); err != nil {
		t.Error(err)
	}
	check("cpu", tree.PodsPath()+"/burstable", "cpu.shares", "2")
}

func TestTree_ShrinksWhenTheContainersHave(t *testing.T) {
	tree := realTree(t, Config{})
	if tree.Version() != 1 {
		t.Skip("v2 refuses nothing")
	}
	p := pod("p", list("cpu", "100m"), list("cpu", "2"))
	parent, err := tree.Ensure(p)
	if err != nil {
		t.Fatal(err)
	}
	container := filepath.Join(tree.controller["cpu"], parent, "container")
	if err := os.Mkdir(container, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := write(container, "cpu.cfs_quota_us", "200000"); err != nil {
		t.Fatal(err)
	}
	p.Spec.Containers[0].Resources.Limits = list("cpu", "1")
	for _, quota := range []string{"200000", "100000"} {
		if _, err := tree.Ensure(p); err != nil {
			t.Fatal(err)
		}
		if got := tree.read(t, "cpu", parent, "cpu.cfs_quota_us"); got != quota {
			t.Errorf("quota %s, want %s", got, quota)
		}
		if err := write(container, "cpu.cfs_quota_us", "100000"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTree_NodeLimitWaitsForRoom(t *testing.T) {
	tree := realTree(t, Config{})
	if tree.Version() != 1 {
		t.Skip("v2 refuses nothing")
	}
	p := pod("p", list("memory", "1Mi"), nil)
	parent, err := tree.Ensure(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd, _, out := enter(t, tree, parent, "memory")
	for out.Scan() && out.Text() != "64" {
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := tree.Setup(list("memory", "16Mi")); err != nil {
		t.Fatal(err)
	}
	if got := tree.read(t, "memory", tree.PodsPath(), "memory.limit_in_bytes"); got != "1073741824" {
		t.Errorf("kubepods is limited to %s", got)
	}
	if err := tree.Remove("p"); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Ensure(p); err != nil {
		t.Fatal(err)
	}
	if got := tree.read(t, "memory", tree.PodsPath(), "memory.limit_in_bytes"); got != "16777216" {
		t.Errorf("then kubepods is limited to %s", got)
	}
}

func TestTree_MemoryLimitKills(t *testing.T) {
	tree := realTree(t, Config{})
	parent, err := tree.Ensure(pod("oom", list("memory", "32Mi"), list("memory", "64Mi", "cpu", "1")))
	if err != nil {
		t.Fatal(err)
	}
	cmd, _, out := enter(t, tree, parent, "memory")
	got := 0
	for out.Scan() {
		got, _ = strconv.Atoi(out.Text())
	}
	err = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", err)
	}
	if got == 0 || got > 64 {
		t.Errorf("had %d MiB of 64", got)
	}
	u, err := tree.Usage(parent)
	if err != nil || u.MemoryLimit != 64<<20 || u.PageFaults == 0 || !u.HasMemory {
		t.Errorf("usage: %+v, %v", u, err)
	}
}

func TestTree_PidsLimitHolds_RemoveKills(t *testing.T) {
	tree := realTree(t, Config{PodPidsLimit: 30})
	parent, err := tree.Ensure(pod("fork", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	cmd, _, out := enter(t, tree, parent, "pids")
	if !out.Scan() || !strings.Contains(out.Text(), "resource temporarily unavailable") {
		t.Errorf("said %q", out.Text())
	}
	if u, err := tree.Usage(parent); err != nil || u.Pids < 15 || u.Pids > 30 || !u.HasPids || u.CPU == 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := tree.Remove("fork"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the process ended well")
	}
	if _, err := tree.Usage(parent); !errors.Is(err, ErrGone) {
		t.Errorf("usage of what is gone: %v", err)
	}
}

func TestUsage_WholeMachine(t *testing.T) {
	tree, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := tree.Usage("/")
	if err != nil || !u.HasMemory || u.WorkingSet == 0 || u.WorkingSet > u.Memory || u.CPU == 0 {
		t.Errorf("got %+v, %v", u, err)
	}
}

func TestRemove_NoUID(t *testing.T) {
	for _, uid := range []types.UID{"", "a/../../.."} {
		if err := (&Tree{}).Remove(uid); err == nil {
			t.Errorf("%q is removed", uid)
		}
	}
}
