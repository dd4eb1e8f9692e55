package volumes

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/volumes/internal/contents/contentstest"
	"vigil/kubelet/volumes/mount"
)

func fromConfigMap(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, DefaultMode: new(int32(0o644))}}
}

func fromSecret(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: new(int32(0o600))}}
}

func empty(medium corev1.StorageMedium, limit string) corev1.VolumeSource {
	source := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		source.SizeLimit = new(resource.MustParse(limit))
	}
	return corev1.VolumeSource{EmptyDir: source}
}

// TestContents has volumes of each kind that is made from objects, and changes them.
func TestContents(t *testing.T) {
	w := newWorld(t)
	w.configMap("m", map[string]string{"a": "1", "b": "2"})
	w.secret("s", map[string][]byte{"k": []byte("secret")})
	items := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o444)), Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}, Items: []corev1.KeyToPath{{Key: "a", Path: "deep/a"}}}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Items: []corev1.KeyToPath{{Key: "k", Path: "deep/k", Mode: new(int32(0o400))}}}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: new(true)}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
	}}}
	down := corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: new(int32(0o644)), Items: []corev1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		{Path: "one", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['x/y']"}},
		{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu", Divisor: resource.MustParse("1m")}},
		{Path: "memory", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
	}}}
	pod := w.pod("p", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"x/y": "z"}
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1.5"), corev1.ResourceMemory: resource.MustParse("1000001")}
	}, named("config", fromConfigMap("m")), named("secret", fromSecret("s")), named("projected", items), named("down", down))
	w.mount(pod)
	paths := w.paths(pod)
	see := func(path string, want map[string]string) {
		t.Helper()
		if got := contentstest.Files(t, paths[path]); !maps.Equal(got, want) {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	see("/config", map[string]string{"a": "1", "b": "2"})
	see("/secret", map[string]string{"k": "secret"})
	see("/projected", map[string]string{"deep/a": "1", "deep/k": "secret", "name": "p"})
	see("/down", map[string]string{"labels": `app="x"`, "one": "z", "cpu": "1500", "memory": "1"})
	mounts, _, err := w.manager.Mounts(t.Context(), pod, &pod.Spec.Containers[0])
	must(t, err)
	for _, m := range mounts {
		if !m.ReadOnly {
			t.Errorf("containers can write to %s", m.ContainerPath)
		}
	}
	info, err := os.Stat(filepath.Join(paths["/projected"], "deep/k"))
	must(t, err)
	if info.Mode() != 0o400 {
		t.Errorf("an item has mode %v", info.Mode())
	}
	for path, inMemory := range map[string]bool{"/config": false, "/secret": true, "/projected": true, "/down": true} {
		if there, err := mount.IsMount(paths[path]); err != nil || there != inMemory {
			t.Errorf("%s in memory: %v, %v", path, there, err)
		}
	}
	if want := filepath.Join(w.root, "pods", string(pod.UID), "volumes/kubernetes.io~configmap/config"); paths["/config"] != want {
		t.Errorf("the config map is at %s, want %s", paths["/config"], want)
	}

	before, err := os.Readlink(filepath.Join(paths["/secret"], "..data"))
	must(t, err)
	w.configMap("m", map[string]string{"a": "new"})
	w.await(pod)
	w.mount(pod)
	see("/config", map[string]string{"a": "new"})
	see("/projected", map[string]string{"deep/a": "new", "deep/k": "secret", "name": "p"})
	if after, _ := os.Readlink(filepath.Join(paths["/secret"], "..data")); after != before {
		t.Error("a secret that did not change was written")
	}

	pod = pod.DeepCopy()
	pod.Labels = map[string]string{"app": "y", "more": "1"}
	w.mount(pod)
	see("/down", map[string]string{"labels": "app=\"y\"\nmore=\"1\"", "one": "z", "cpu": "1500", "memory": "1"})

	must(t, w.admin.CoreV1().Secrets("a").Delete(t.Context(), "s", metav1.DeleteOptions{}))
	w.await(pod)
	err2 := w.fails(pod, `MountVolume.SetUp failed for volume "secret" : secret "s" not found`, `MountVolume.SetUp failed for volume "projected" : secret "s" not found`)
	if !err2.Usable {
		t.Error("volumes that are there are not usable")
	}
	see("/secret", map[string]string{"k": "secret"})

	must(t, w.manager.Unmount(t.Context(), pod.UID))
	if uids, err := w.manager.Pods(); err != nil || len(uids) != 0 {
		t.Errorf("left %v, %v", uids, err)
	}
}

// TestMissing waits for what is not there, in upstream's words and at upstream's pace.
func TestMissing(t *testing.T) {
	w := newWorld(t)
	w.configMap("m", map[string]string{"a": "1"})
	bad := fromConfigMap("m")
	bad.ConfigMap.Items = []corev1.KeyToPath{{Key: "none", Path: "x"}}
	pod := w.pod("p", nil, named("v", fromSecret("s")), named("w", bad), named("fine", empty("", "")), named("unused", fromSecret("unused")))
	pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[:3]
	missing := `MountVolume.SetUp failed for volume "v" : secret "s" not found`
	noKey := `MountVolume.SetUp failed for volume "w" : references non-existent config key: none`

	first := w.fails(pod, missing, noKey)
	if first.Told || first.Usable || first.Again != 500*time.Millisecond {
		t.Errorf("first failure is %+v", first)
	}
	if again := w.fails(pod, missing, noKey); !again.Told {
		t.Errorf("second failure at once is %+v", again)
	}
	var pauses []time.Duration
	for waited := time.Duration(0); waited < 2*time.Minute; {
		w.clock.advance(first.Again)
		waited += first.Again
		if waited >= 2*time.Minute {
			break
		}
		first = w.fails(pod, missing, noKey)
		pauses = append(pauses, first.Again)
	}
	if !slices.Equal(pauses[:3], []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}) {
		t.Errorf("pauses are %v", pauses)
	}
	w.fails(pod, missing, noKey,
		"Unable to attach or mount volumes: unmounted volumes=[v w], unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition")

	w.secret("s", map[string][]byte{"k": []byte("late")})
	w.configMap("m", map[string]string{"none": "late"})
	for w.await(pod); w.manager.Mount(t.Context(), pod) != nil; {
		w.await(pod) // no time passes: it is the change that makes it try
	}
	if got := contentstest.Files(t, w.paths(pod)["/v"]); got["k"] != "late" {
		t.Errorf("the secret is %v", got)
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

func TestEmptyDir(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Allocatable = func() corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		}
	})
	pod := w.pod("p", func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242))}
	}, named("disk", empty("", "")), named("memory", empty(corev1.StorageMediumMemory, "1Mi")), named("large", empty(corev1.StorageMediumMemory, "")))
	w.mount(pod)
	paths := w.paths(pod)
	for path, size := range map[string]uint64{"/disk": 0, "/memory": 1 << 20, "/large": 64 << 20} {
		info, err := os.Stat(paths[path])
		must(t, err)
		if want := os.ModeDir | os.ModeSetgid | 0o777; info.Mode() != want || info.Sys().(*syscall.Stat_t).Gid != 4242 {
			t.Errorf("%s has mode %v, want %v, group %d", path, info.Mode(), want, info.Sys().(*syscall.Stat_t).Gid)
		}
		var st syscall.Statfs_t
		must(t, syscall.Statfs(paths[path], &st))
		if got := st.Blocks * uint64(st.Bsize); size != 0 && got != size {
			t.Errorf("%s has %d bytes, want %d", path, got, size)
		}
		must(t, os.WriteFile(filepath.Join(paths[path], "f"), make([]byte, 100_000), 0o600))
	}

	usage, err := w.manager.Usage(t.Context(), pod.UID)
	must(t, err)
	for i, want := range []VolumeUsage{{Name: "disk", Local: true}, {Name: "large", Memory: true}, {Name: "memory", Memory: true, Limit: 1 << 20}} {
		got := usage[i]
		if got.Name != want.Name || got.Local != want.Local || got.Memory != want.Memory || got.Limit != want.Limit {
			t.Errorf("usage is %+v, want %+v", got, want)
		}
		if got.UsedBytes < 100_000 || got.UsedBytes > 200_000 || got.InodesUsed != 2 || got.AvailableBytes == 0 {
			t.Errorf("usage of %s is %+v", got.Name, got)
		}
	}

	// A new process leaves alone what there is.
	w.restart()
	w.mount(pod)
	for path, at := range w.paths(pod) {
		if _, err := os.Stat(filepath.Join(at, "f")); err != nil || at != paths[path] {
			t.Errorf("%s after a restart: %v", path, err)
		}
	}
	w.restart() // and another one cleans up what it did not make
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	if left, err := mount.Below(filepath.Join(w.root, "pods")); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestHostPath(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, syscall.Mknod(filepath.Join(dir, "char"), syscall.S_IFCHR|0o600, 1<<8|3))
	must(t, syscall.Mknod(filepath.Join(dir, "block"), syscall.S_IFBLK|0o600, 7<<8|200))
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer syscall.Close(socket)
	must(t, syscall.Bind(socket, &syscall.SockaddrUnix{Name: filepath.Join(dir, "socket")}))
	for i, test := range []struct {
		path string
		kind corev1.HostPathType
		want string // DIR stands for the directory
	}{
		{"", corev1.HostPathDirectory, ""}, {"file", corev1.HostPathFile, ""}, {"socket", corev1.HostPathSocket, ""},
		{"char", corev1.HostPathCharDev, ""}, {"block", corev1.HostPathBlockDev, ""},
		{"new/dir", corev1.HostPathDirectoryOrCreate, ""}, {"new/file", corev1.HostPathFileOrCreate, ""}, {"untyped", corev1.HostPathUnset, ""},
		{"none", corev1.HostPathDirectory, "hostPath DIR/none doesn't exist"},
		{"file", corev1.HostPathDirectory, "hostPath type check failed: DIR/file is not a directory, it's a File"},
		{"file", corev1.HostPathDirectoryOrCreate, "hostPath type check failed: DIR/file is not a directory, it's a File"},
		{"", corev1.HostPathFile, "hostPath type check failed: DIR is not a file, it's a Directory"},
		{"char", corev1.HostPathSocket, "hostPath type check failed: DIR/char is not a socket file, it's a CharDevice"},
		{"file", corev1.HostPathCharDev, "hostPath type check failed: DIR/file is not a character device, it's a File"},
		{"socket", corev1.HostPathBlockDev, "hostPath type check failed: DIR/socket is not a block device, it's a Socket"},
	} {
		path := filepath.Join(dir, test.path)
		pod := w.pod("p"+strconv.Itoa(i), nil, named("v", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &test.kind}}))
		if test.want != "" {
			w.fails(pod, `MountVolume.SetUp failed for volume "v" : `+strings.ReplaceAll(test.want, "DIR", dir))
			continue
		}
		w.mount(pod)
		if got := w.paths(pod)["/v"]; got != path {
			t.Errorf("%s is at %s", path, got)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		must(t, w.manager.Unmount(t.Context(), pod.UID))
	}
}

// TestFSGroup gives files of objects to the pod's group, which may read them, and leaves alone a volume that is already right when the pod says so.
func TestFSGroup(t *testing.T) {
	w := newWorld(t)
	w.configMap("m", map[string]string{"a": "1"})
	w.secret("s", map[string][]byte{"k": []byte("v")})
	pod := w.pod("p", func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242))}
	}, named("config", fromConfigMap("m")), named("token", tokenVolume(3600)), named("secret", fromSecret("s")))
	for _, value := range []string{"2", "3"} {
		w.mount(pod)
		for _, path := range []string{"/token/token", "/secret/k"} { // what is private is not for the group to write, even here
			info, err := os.Stat(filepath.Join(w.paths(pod)[filepath.Dir(path)], filepath.Base(path)))
			must(t, err)
			if info.Mode() != 0o640 || info.Sys().(*syscall.Stat_t).Gid != 4242 {
				t.Errorf("%s has mode %v, want 0640 of the group", path, info.Mode())
			}
		}
		for path, want := range map[string]os.FileMode{"": os.ModeDir | os.ModeSetgid | 0o777, "..data/": os.ModeDir | os.ModeSetgid | 0o755, "a": 0o644} {
			info, err := os.Stat(filepath.Join(w.paths(pod)["/config"], path))
			must(t, err)
			if info.Mode() != want || info.Sys().(*syscall.Stat_t).Gid != 4242 {
				t.Errorf("%q is %v of group %d, want %v", path, info.Mode(), info.Sys().(*syscall.Stat_t).Gid, want)
			}
		}
		w.configMap("m", map[string]string{"a": value})
		w.await(pod)
	}

	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	v := &Volume{Pod: pod, Spec: &pod.Spec.Volumes[0]}
	must(t, SetOwnership(t.Context(), v, dir, false))
	must(t, os.Chown(filepath.Join(dir, "f"), 0, 0))
	pod.Spec.SecurityContext.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	must(t, SetOwnership(t.Context(), v, dir, false))
	if info, _ := os.Stat(filepath.Join(dir, "f")); info.Sys().(*syscall.Stat_t).Gid != 0 {
		t.Error("OnRootMismatch changed a volume whose root was right")
	}
	must(t, os.Chmod(dir, 0o700))
	must(t, SetOwnership(t.Context(), v, dir, false))
	if info, _ := os.Stat(filepath.Join(dir, "f")); info.Sys().(*syscall.Stat_t).Gid != 4242 {
		t.Error("OnRootMismatch left a volume whose root was wrong")
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

// TestUnmount_Busy cannot unmount a volume that is in use, removes nothing of it, and can later.
func TestUnmount_Busy(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("memory", empty(corev1.StorageMediumMemory, "")), named("disk", empty("", "")))
	w.mount(pod)
	path := filepath.Join(w.paths(pod)["/memory"], "f")
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	held, err := os.Open(path)
	must(t, err)
	if err := w.manager.Unmount(t.Context(), pod.UID); !mount.Busy(err) {
		t.Errorf("unmount of what is in use: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("what is in use is gone: %v", err)
	}
	held.Close()
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	must(t, w.manager.Unmount(t.Context(), pod.UID)) // again is no matter
	if left, _ := os.ReadDir(filepath.Join(w.root, "pods")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestUnmount_Foreign finds mounts in a pod's directory that no plug-in made: nothing of theirs is removed.
func TestUnmount_Foreign(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	for i, at := range []string{"elsewhere", "volumes/kubernetes.io~empty-dir/disk/below", "containers/c"} {
		pod := w.pod("p"+strconv.Itoa(i), nil, named("disk", empty("", "")))
		w.mount(pod)
		target := filepath.Join(w.root, "pods", string(pod.UID), at)
		must(t, os.MkdirAll(target, 0o755))
		must(t, mount.Bind(outside, target, false))
		if err := w.manager.Unmount(t.Context(), pod.UID); err == nil || !strings.Contains(err.Error(), "still mounted") {
			t.Errorf("unmount with something at %s: %v", at, err)
		}
		if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
			t.Fatalf("what is mounted at %s is gone", at)
		}
		must(t, mount.Unmount(target))
		must(t, w.manager.Unmount(t.Context(), pod.UID))
	}
	for _, uid := range []types.UID{"", "..", "a/b"} {
		if err := w.manager.Unmount(t.Context(), uid); err == nil {
			t.Errorf("unmounted pod %q", uid)
		}
	}
}

// TestUnmount_Unknown meets a volume of a plug-in that is no more.
func TestUnmount_Unknown(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("disk", empty("", "")))
	w.mount(pod)
	dir := filepath.Join(w.root, "pods", string(pod.UID), "volumes/example.com~gone/x")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, mount.Mount("tmpfs", dir, "tmpfs"))
	must(t, mount.Mount("tmpfs", dir, "tmpfs")) // stacked
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its directory: %v", err)
	}
}

func TestSubPath(t *testing.T) {
	w := newWorld(t)
	w.configMap("m", map[string]string{"a": "1", "b": "2"})
	host := t.TempDir()
	must(t, os.WriteFile(filepath.Join(host, "f"), []byte("host"), 0o644))
	must(t, os.Symlink("/etc", filepath.Join(host, "escape")))
	pod := w.pod("p", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "config", MountPath: "/a", SubPath: "a"},
			{Name: "disk", MountPath: "/new", SubPath: "x/y"},
			{Name: "host", MountPath: "/file", SubPath: "f", ReadOnly: true},
		}
	}, named("config", fromConfigMap("m")), named("disk", empty("", "")), named("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}))
	w.mount(pod)
	paths := w.paths(pod)
	if want := filepath.Join(w.root, "pods", string(pod.UID), "volume-subpaths/config/c/0"); paths["/a"] != want {
		t.Errorf("subPath is at %s, want %s", paths["/a"], want)
	}
	read := func(path string) string {
		t.Helper()
		content, err := os.ReadFile(path)
		must(t, err)
		return string(content)
	}
	if read(paths["/a"]) != "1" || read(paths["/file"]) != "host" {
		t.Error("files are not what they were")
	}
	must(t, os.WriteFile(filepath.Join(paths["/new"], "f"), []byte("new"), 0o600))
	disk := filepath.Join(w.root, "pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/disk")
	if read(filepath.Join(disk, "x/y/f")) != "new" {
		t.Error("a new directory is not in the volume")
	}
	info, err := os.Stat(filepath.Join(disk, "x"))
	must(t, err)
	if info.Mode() != os.ModeDir|0o777 {
		t.Errorf("a new directory has mode %v", info.Mode())
	}

	// What is mounted does not change. A container that starts again gets what is there now.
	w.configMap("m", map[string]string{"a": "new"})
	w.await(pod)
	w.mount(pod)
	if read(paths["/a"]) != "1" {
		t.Error("a subPath mount changed")
	}
	if read(w.paths(pod)["/a"]) != "new" {
		t.Error("a container that is made anew gets the old file")
	}

	for sub, want := range map[string]string{
		"escape":        `failed to prepare subPath for volumeMount "host" of container "c"`,
		"escape/passwd": `failed to prepare subPath for volumeMount "host" of container "c"`,
		"f/x":           `failed to prepare subPath for volumeMount "host" of container "c"`,
		"../x":          "unable to provision SubPath `../x`: must not contain '..'",
		"/etc":          "error SubPath `/etc` must not be an absolute path",
	} {
		container := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: "/m", SubPath: sub}}}
		if _, _, err := w.manager.Mounts(t.Context(), pod, container); err == nil || err.Error() != want {
			t.Errorf("subPath %s: %v, want %s", sub, err, want)
		}
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	if read(filepath.Join(host, "f")) != "host" {
		t.Error("what was mounted from the host is gone")
	}
}

func TestMounts_Modes(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.RecursiveReadOnly = func(_ context.Context, pod *corev1.Pod) (bool, error) { return pod.Spec.RuntimeClassName == nil, nil }
		c.Image = func(_ context.Context, _ *corev1.Pod, image string, policy corev1.PullPolicy) (string, error) {
			return image + "@" + string(policy), nil
		}
	})
	propagation := corev1.MountPropagationBidirectional
	recursive, possible := corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible
	pod := w.pod("p", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "disk", MountPath: "/rw", MountPropagation: &propagation},
			{Name: "disk", MountPath: "/ro", ReadOnly: true, RecursiveReadOnly: &recursive},
			{Name: "disk", MountPath: "/maybe", ReadOnly: true, RecursiveReadOnly: &possible},
			{Name: "image", MountPath: "/image", SubPath: "below"},
		}
	}, named("disk", empty("", "")), named("image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/i", PullPolicy: corev1.PullAlways}}))
	w.mount(pod)
	mounts, _, err := w.manager.Mounts(t.Context(), pod, &pod.Spec.Containers[0])
	must(t, err)
	if m := mounts[0]; m.ReadOnly || m.Propagation != propagation {
		t.Errorf("first mount is %+v", m)
	}
	if m := mounts[1]; !m.ReadOnly || !m.RecursiveReadOnly {
		t.Errorf("second mount is %+v", m)
	}
	if m := mounts[2]; !m.RecursiveReadOnly {
		t.Errorf("third mount is %+v", m)
	}
	if m := mounts[3]; m.Image != "example.com/i@Always" || m.ImageSubPath != "below" || m.HostPath != "" || !m.ReadOnly {
		t.Errorf("image mount is %+v", m)
	}
	other := pod.DeepCopy()
	other.Spec.RuntimeClassName = new("other")
	if _, _, err := w.manager.Mounts(t.Context(), other, &other.Spec.Containers[0]); err == nil ||
		err.Error() != `failed to resolve recursive read-only mode: volume "disk" requested recursive read-only mode, but it is not supported by the runtime` {
		t.Errorf("recursive read-only without support: %v", err)
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}
