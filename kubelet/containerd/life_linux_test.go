package containerd_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
)

func process(t *testing.T, config containerd.Config) int {
	t.Helper()
	pid, err := containerd.Process(config.RootDir)
	if err != nil || pid == 0 {
		t.Fatalf("no process of containerd: %v", err)
	}
	return pid
}

// kill ends a process at once, and returns when it has ended.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	eventually.True(t, "the end of a process that was killed", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	})
}

// started is when a container that runs was started; it fails when it does not run.
func (c client) started(t *testing.T, container string) int64 {
	t.Helper()
	response, err := c.ContainerStatus(testContext(t), &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if err != nil {
		t.Fatal(err)
	}
	if response.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("the container is %s", response.Status.State)
	}
	return response.Status.StartedAt
}

// processes are the PIDs of processes whose arguments contain text.
func processes(t *testing.T, text string) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range names {
		line, _ := os.ReadFile(name)
		if strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestRun_ContainerdKilled(t *testing.T) {
	config := containerdtest.Config(t)
	d := containerdtest.StartWith(t, config)
	c := connect(t, d)
	_, container := c.runDemo(t, "demo")
	began, first := c.started(t, container), process(t, config)

	kill(t, first)

	eventually.True(t, "another containerd", func() bool { pid, _ := containerd.Process(config.RootDir); return pid != first })
	if err := d.Ready(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := c.started(t, container); got != began {
		t.Errorf("the container was started at %d, and before containerd was killed at %d", got, began)
	}
	if got := c.exec(t, container, "echo", "still", "here"); got != "still here\n" {
		t.Errorf("exec printed %q", got)
	}
	c.runDemo(t, "demo")
}

func TestStart_Adopts(t *testing.T) {
	config := containerdtest.Config(t)
	first := start(t, config)
	c := connect(t, first)
	_, container := c.runDemo(t, "demo")
	began, pid := c.started(t, container), process(t, config)
	run, end := context.WithCancel(testContext(t))
	end()
	if err := first.Run(run); err == nil { // ends without ending containerd
		t.Error("Run returned nil for a context that has ended")
	}

	second, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := process(t, config); got != pid {
		t.Errorf("containerd is process %d, and was %d", got, pid)
	}
	if got := c.started(t, container); got != began {
		t.Error("the container was started again")
	}

	changed := config
	changed.LogLevel = "debug"
	third, err := containerd.New(changed)
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := process(t, config); got == pid {
		t.Error("containerd goes on with another configuration")
	}
	if got := c.started(t, container); got != began {
		t.Error("the container was started again")
	}
}

// A containerd that hangs is not adopted.
func TestStart_Hangs(t *testing.T) {
	config := containerdtest.Config(t)
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, config) })
	if err := d.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	hangs := process(t, config)
	if err := syscall.Kill(hangs, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	second.SetPatience(100*time.Millisecond, 100*time.Millisecond)
	if err := second.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := process(t, config); got == hangs {
		t.Error("a containerd that hangs was adopted")
	}
}

// start has a daemon with images that nobody watches over.
func start(t *testing.T, config containerd.Config) *containerd.Daemon {
	t.Helper()
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, config) })
	if err := d.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := d.Load(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return d
}

// stop ends whatever runs with a configuration.
func stop(t *testing.T, config containerd.Config) {
	t.Helper()
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// left checks that nothing of a daemon is left but files in its root directory.
func left(t *testing.T, config containerd.Config) {
	t.Helper()
	if pids := processes(t, config.StateDir); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
	if pids := processes(t, "/demo"); len(pids) > 0 {
		t.Errorf("processes %v of containers are left", pids)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, config.StateDir) || strings.Contains(line, config.RootDir) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	if _, err := os.Stat(config.StateDir); err == nil {
		t.Errorf("%s is left", config.StateDir)
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasSuffix(filepath.Dir(path), nstest.CgroupRoot()) {
			t.Errorf("cgroup %s is left", path)
		}
		return nil
	})
}

func TestStop(t *testing.T) {
	config := containerdtest.Config(t)
	c := connect(t, start(t, config))
	c.runDemo(t, "demo")
	c.runDemo(t, "demo", "ignore-term")
	changed := config
	changed.LogLevel = "debug" // nothing is started again only to be stopped
	stop(t, changed)
	left(t, config)
	if log, err := os.ReadFile(filepath.Join(config.RootDir, "containerd.log")); err != nil || bytes.Count(log, []byte("starting containerd")) != 1 {
		t.Errorf("containerd was started %d times (%v)", bytes.Count(log, []byte("starting containerd")), err)
	}
	stop(t, config) // again, with nothing there
}

func TestStop_AfterEverythingWasKilled(t *testing.T) {
	config := containerdtest.Config(t)
	d := start(t, config)
	connect(t, d).runDemo(t, "demo")
	for _, pid := range slices.Concat([]int{process(t, config)}, processes(t, "containerd-shim-runc-v2")) {
		kill(t, pid)
	}
	stop(t, config)
	left(t, config)
}

// Like a power cut: all processes end at once, and what was volatile is gone.
func TestStart_AfterPowerCut(t *testing.T) {
	config := containerdtest.Config(t)
	d := start(t, config)
	c := connect(t, d)
	sandbox, container := c.runDemo(t, "demo")
	for _, pid := range slices.Concat([]int{process(t, config)}, processes(t, "containerd-shim-runc-v2"), processes(t, "/demo"), processes(t, "/pause")) {
		kill(t, pid)
	}
	if err := d.ClearState(testContext(t)); err != nil {
		t.Fatal(err)
	}

	if err := d.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	status, err := c.PodSandboxStatus(testContext(t), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	if status.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("the sandbox is %s", status.Status.State)
	}
	if got := c.state(t, container); got != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("the container is %s", got)
	}
	if _, err := c.RemovePodSandbox(testContext(t), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		t.Error(err)
	}
	_, container = c.runDemo(t, "demo")
	c.started(t, container)
}

func TestStart_Failures(t *testing.T) {
	config := containerdtest.Config(t)
	config.Snapshotter = "none-such"
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	broken := config
	t.Cleanup(func() {
		if d, err := containerd.New(broken); err != nil || d.Stop(context.Background()) == nil {
			t.Errorf("Stop of what does not start: %v", err)
		}
		left(t, broken)
	})
	if err := d.Start(testContext(t)); err == nil || !strings.Contains(err.Error(), "none-such") {
		t.Errorf("Start with a snapshotter that is not there: %v", err)
	}

	config = containerdtest.Config(t)
	config.StateDir = "/run/" + strings.Repeat("long", 20)
	if _, err := containerd.New(config); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("New with a long state directory: %v", err)
	}
	config.StateDir, config.BinDir = "", t.TempDir()
	if _, err := containerd.New(config); err == nil || !strings.Contains(err.Error(), "make runtime") {
		t.Errorf("New without programs: %v", err)
	}
	if _, err := containerd.Find(t.TempDir()); err == nil {
		t.Error("Find found something in an empty directory")
	}
}

func TestLoad_OnlyWhatIsMissing(t *testing.T) {
	config := containerdtest.Config(t)
	d := containerdtest.StartWith(t, config)
	before, err := d.List(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, image := range before {
		if !image.Pinned {
			t.Errorf("%v is not pinned", image.RepoTags)
		}
		for _, name := range image.RepoTags {
			names[name] = true
		}
	}
	if len(names) != 5 {
		t.Errorf("images are %v, want pause and four of demo", names)
	}
	c := connect(t, d)
	if _, err := c.RemoveImage(testContext(t), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "demo:3"}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Load(testContext(t)); err != nil {
		t.Fatal(err)
	}
	after, err := d.List(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("there are %d images, and were %d", len(after), len(before))
	}
}

func TestRotate(t *testing.T) {
	config := containerdtest.Config(t)
	config.LogSize = 100
	d := containerdtest.StartWith(t, config)
	before, err := os.ReadFile(d.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Rotate(); err != nil {
		t.Fatal(err)
	}
	aside, err := os.ReadFile(d.LogFile() + ".1")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(aside, before) {
		t.Errorf("%d bytes are put aside, of %d", len(aside), len(before))
	}
	connect(t, d).runDemo(t, "demo")
	after, err := os.ReadFile(d.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	if len(after) == 0 || after[0] == 0 {
		t.Error("the log does not go on at its new beginning")
	}
}
