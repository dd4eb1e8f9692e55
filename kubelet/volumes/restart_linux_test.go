package volumes

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/volumes/mount"
)

// container is a process in a mount namespace of its own, in which a directory of the node is mounted at another.
type container struct {
	command *exec.Cmd
	input   io.Closer
	at      string
}

// container starts one that has from mounted at a new directory: "private" as volumes are without mountPropagation, "slave" as with
// HostToContainer, "shared" as with Bidirectional. In the last one it mounts something at from-container.
func (w *world) container(from, propagation string) *container {
	w.Helper()
	at := w.TempDir()
	script := `mount --bind "$1" "$2" && mount --make-` + propagation + ` "$2" && cd "$2" && echo ready && cat`
	if propagation == "shared" {
		script = `mount --bind "$1" "$2" && mount -t tmpfs x "$2/from-container" && touch "$2/from-container/f" && cd "$2" && echo ready && cat`
	}
	command := exec.Command("sh", "-c", script, "sh", from, at)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS} // not Unshareflags, which make all mounts private
	input, err := command.StdinPipe()
	must(w, err)
	output, err := command.StdoutPipe()
	must(w, err)
	command.Stderr = w.Output()
	must(w, command.Start())
	c := &container{command, input, at}
	w.Cleanup(c.end)
	ready := make([]byte, 6)
	if _, err := output.Read(ready); err != nil || string(ready) != "ready\n" {
		w.Fatalf("container: %q, %v", ready, err)
	}
	return c
}

// path is how the node finds a file of the container's mount.
func (c *container) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(c.command.Process.Pid), "root", c.at, name)
}

func (c *container) end() {
	if c.command == nil {
		return
	}
	_ = c.input.Close()
	_ = c.command.Wait()
	c.command = nil
}

// TestRestart is about a process that was killed: its containers go on, the next process finds their volumes, refreshes what they see, and
// cleans up after the pods that have gone meanwhile.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.configMap("m", map[string]string{"a": "1"})
	w.secret("s", map[string][]byte{"k": []byte("1")})
	pod := w.pod("p", nil, named("memory", empty(corev1.StorageMediumMemory, "")), named("config", fromConfigMap("m")), named("secret", fromSecret("s")))
	gone := w.pod("q", nil, named("memory", empty(corev1.StorageMediumMemory, "")), named("secret", fromSecret("s")))
	gone.Spec.Containers[0].VolumeMounts[1].SubPath = "k"
	w.mount(pod)
	w.mount(gone)
	paths := w.paths(pod)
	w.paths(gone)
	must(t, os.WriteFile(filepath.Join(paths["/memory"], "state"), []byte("kept"), 0o600))
	runs := map[string]*container{}
	for at, path := range paths {
		runs[at] = w.container(path, "private")
	}
	before, err := mount.Below(filepath.Join(w.root, "pods", string(pod.UID)))
	must(t, err)

	w.restart()
	w.mount(pod)
	if again := w.paths(pod); again["/memory"] != paths["/memory"] {
		t.Errorf("volumes have moved from %v to %v", paths, again)
	}
	after, err := mount.Below(filepath.Join(w.root, "pods", string(pod.UID)))
	must(t, err)
	if len(before) != 2 || len(after) != 2 {
		t.Errorf("mounts were %v, are %v", before, after)
	}
	for _, value := range []string{"2", "3"} {
		w.configMap("m", map[string]string{"a": value})
		w.secret("s", map[string][]byte{"k": []byte(value)})
		for w.read(runs["/config"].path("a")) != value || w.read(runs["/secret"].path("k")) != value {
			w.await(pod)
			w.mount(pod)
		}
	}
	if w.read(runs["/memory"].path("state")) != "kept" {
		t.Error("the container has lost its files")
	}

	uids, err := w.manager.Pods()
	must(t, err)
	if len(uids) != 2 {
		t.Errorf("directories are of %v", uids)
	}
	must(t, w.manager.Unmount(t.Context(), gone.UID))
	if w.read(runs["/secret"].path("k")) != "3" {
		t.Error("a container has lost its secret with another pod")
	}
	// A container holds its own mount of the volume, not the node's.
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	if w.read(runs["/memory"].path("state")) != "kept" {
		t.Error("unmounting took a container's files")
	}
	for _, c := range runs {
		c.end()
	}
	if left, err := mount.Below(filepath.Join(w.root, "pods")); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func (w *world) read(path string) string {
	w.Helper()
	content, err := os.ReadFile(path)
	must(w, err)
	return string(content)
}

// TestPropagation mounts on the node and in a container, each to be seen on the other side.
func TestPropagation(t *testing.T) {
	w := newWorld(t)
	for {
		table, err := mount.Below(w.root)
		must(t, err)
		if len(table) > 0 && table[len(table)-1].Shared { // Run has begun
			break
		}
	}
	pod := w.pod("p", nil, named("disk", empty("", "")))
	w.mount(pod)
	disk := w.paths(pod)["/disk"]
	for _, dir := range []string{"from-node", "from-container"} {
		must(t, os.Mkdir(filepath.Join(disk, dir), 0o755))
	}
	slave, private, shared := w.container(disk, "slave"), w.container(disk, "private"), w.container(disk, "shared")
	must(t, mount.Mount("tmpfs", filepath.Join(disk, "from-node"), "tmpfs"))
	must(t, os.WriteFile(filepath.Join(disk, "from-node/f"), nil, 0o600))
	for path, want := range map[string]bool{
		slave.path("from-node/f"): true, private.path("from-node/f"): false, shared.path("from-node/f"): true,
		slave.path("from-container/f"): true, private.path("from-container/f"): false, filepath.Join(disk, "from-container/f"): true,
	} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, c := range []*container{slave, private, shared} {
		c.end()
	}
	// What a pod leaves mounted in its volume is not removed, and not unmounted: it may be another's.
	for _, dir := range []string{"from-container", "from-node"} {
		if err := w.manager.Unmount(t.Context(), pod.UID); err == nil || !strings.Contains(err.Error(), "still mounted") {
			t.Errorf("unmount: %v", err)
		}
		if _, err := os.Stat(filepath.Join(disk, dir, "f")); err != nil {
			t.Error(err)
		}
		must(t, mount.Unmount(filepath.Join(disk, dir)))
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}
