package volumes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"vigil/internal/attacktest"
	"vigil/kubelet"
	"vigil/kubelet/untrusted"
)

// This file is a list of what containers may do to their volumes, each with what it costs the kubelet.

// TestAttack_Nested: a tree so deep that no path names what is in it counts against the volume's limit, is given to the pod's group after a restart,
// and is removed with the pod.
func TestAttack_Nested(t *testing.T) {
	for _, tc := range []struct {
		name   string
		dir    string
		depth  int
		hidden bool // not even a walk by descriptors comes so far
	}{
		{"a path longer than the kernel takes", strings.Repeat("n", 255), 20, false},
		{"16,000 directories", "d", 16_000, false},
		{"more directories than are walked", "d", untrusted.MaxDepth + 10, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("TMPDIR", "/run") // in memory: these trees are a lot to write
			w := newWorld(t)
			pod := w.pod("p", func(pod *corev1.Pod) {
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242))}
			}, named("disk", empty("", "1Mi")))
			w.mount(pod)
			dir := w.paths(pod)["/disk"]
			attacktest.Nest(t, dir, tc.dir, tc.depth, 8<<20)
			attacktest.FewDescriptors(t, 200)
			attacktest.Budget{Memory: 32 << 20, CPU: 20 * time.Second}.Spend(t, func() {
				usage, err := w.manager.Usage(t.Context(), pod.UID)
				must(t, err)
				if used := usage[0]; used.Limit != 1<<20 || used.UsedBytes < 8<<20 || tc.hidden && used.UsedBytes < used.CapacityBytes {
					t.Errorf("usage is %+v", used)
				}
			})
			attacktest.Budget{Memory: 32 << 20, CPU: 30 * time.Second}.Spend(t, func() {
				w.restart()
				if err := w.manager.Mount(t.Context(), pod); (err != nil) != tc.hidden {
					t.Errorf("mounted again with %v", err)
				}
			})
			if info, err := os.Stat(filepath.Join(dir, strings.Repeat(tc.dir+"/", 10))); err != nil || info.Sys().(*syscall.Stat_t).Gid != 4242 {
				t.Errorf("the tenth directory is %+v, %v", info, err)
			}
			attacktest.Budget{Memory: 32 << 20, CPU: 30 * time.Second}.Spend(t, func() { must(t, w.manager.Unmount(t.Context(), pod.UID)) })
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("after removal: %v", err)
			}
		})
	}
}

// TestAttack_SparseAndLinked: a volume takes what its files have on the disk, each once, whatever their size and however many names they have.
func TestAttack_SparseAndLinked(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("disk", empty("", "1Mi")))
	w.mount(pod)
	dir := w.paths(pod)["/disk"]
	must(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 300<<10), 0o600))
	for _, name := range []string{"g", "h", "i"} {
		must(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, name)))
	}
	must(t, os.Truncate(filepath.Join(dir, "f"), 1<<40))
	usage, err := w.manager.Usage(t.Context(), pod.UID)
	must(t, err)
	if used := usage[0]; used.UsedBytes < 300<<10 || used.UsedBytes > 400<<10 || used.InodesUsed != 2 {
		t.Errorf("usage is %+v", used)
	}
}

// TestAttack_UsageWhileMounting: a Mount that takes long holds up nobody who wants to know what the volumes take.
func TestAttack_UsageWhileMounting(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("disk", empty("", "1Mi")))
	w.mount(pod)
	p := w.manager.pod(pod.UID)
	p.mu.Lock() // as Mount does while a server does not answer
	defer p.mu.Unlock()
	attacktest.Budget{}.Spend(t, func() {
		if usage, err := w.manager.Usage(t.Context(), pod.UID); err != nil || len(usage) != 1 {
			t.Errorf("usage is %+v, %v", usage, err)
		}
	})
}

// TestAttack_Contents: a pod that asks for the same contents under very many paths, or in very many volumes, is given some of them.
func TestAttack_Contents(t *testing.T) {
	t.Setenv("TMPDIR", "/run")
	w := newWorld(t)
	large := strings.Repeat("x", 900<<10)
	w.configMap("large", map[string]string{"k": large})
	var keys []corev1.KeyToPath
	var fields []corev1.DownwardAPIVolumeFile
	var sources []corev1.VolumeProjection
	for i := range 20_000 {
		path := strconv.Itoa(i)
		keys = append(keys, corev1.KeyToPath{Key: "k", Path: path})
		fields = append(fields, corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}})
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "large"}, Items: []corev1.KeyToPath{{Key: "k", Path: path}},
		}})
	}
	keyed := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "large"}, Items: keys}}
	some := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "large"}, Items: keys[:150]}}
	for i, tc := range []struct {
		name    string
		volumes []corev1.Volume
		refused string // the volume that is not made
	}{
		{"a key under many paths", []corev1.Volume{named("v", keyed)}, "v"},
		{"a field under many paths", []corev1.Volume{named("v", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: fields}})}, "v"},
		{"many sources", []corev1.Volume{named("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})}, "v"},
		{"several volumes", []corev1.Volume{named("u", some), named("v", some)}, "v"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := w.pod(fmt.Sprint("p", i), nil, tc.volumes...)
			pod.Annotations = map[string]string{"a": strings.Repeat("x", 250<<10)}
			attacktest.Budget{Memory: 32 << 20, CPU: 20 * time.Second}.Spend(t, func() {
				err := w.manager.Mount(t.Context(), pod)
				want := fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", tc.refused, errNoRoom)
				if known := (*kubelet.VolumeError)(nil); !errors.As(err, &known) || len(known.Messages) != 1 || known.Messages[0] != want {
					t.Errorf("mounted with %v", err)
				}
			})
			must(t, w.manager.Unmount(t.Context(), pod.UID))
		})
	}
}

// TestAttack_SubPath: whatever a container puts at a subPath, and however it swaps it meanwhile, the next container is given something inside of the volume, or nothing, and the
// kubelet does not wait.
func TestAttack_SubPath(t *testing.T) {
	t.Setenv("TMPDIR", "/run") // in memory: these trees are a lot to write
	w := newWorld(t)
	pod := w.pod("p", nil, named("disk", empty("", "")))
	w.mount(pod)
	dir := w.paths(pod)["/disk"]
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("inside/etc"), 0o755))
	must(t, os.WriteFile(at("inside/etc/passwd"), []byte("inside"), 0o600))
	must(t, os.Symlink("/", at("absolute")))
	must(t, os.Symlink("../../../../../../../..", at("relative")))
	must(t, os.Symlink("/proc/self/root", at("magic")))
	must(t, os.Symlink("loop", at("loop")))
	must(t, os.Symlink("inside/..", at("dots")))
	must(t, syscall.Mkfifo(at("fifo"), 0o600))
	must(t, syscall.Mknod(at("device"), syscall.S_IFCHR|0o600, 1<<8|5)) // zero
	attacktest.Nest(t, at("inside"), "d", 5_000, 1)
	outside := filepath.Join(t.TempDir(), "new")
	for _, tc := range []struct {
		path  string
		given bool
	}{
		{"inside/etc/passwd", true}, {"dots/inside/etc/passwd", true}, {"fifo", true}, {"device", true}, {"new/directories", true}, {"inside" + strings.Repeat("/d", 1000), true},
		{"absolute/etc/passwd", false}, {"relative/etc/passwd", false}, {"magic/etc/passwd", false}, {"loop", false}, {"loop/below", false}, {"fifo/below", false},
		{"absolute/new", false}, {"relative" + outside, false}, {"dots/../../../etc/passwd", false}, {strings.Repeat("d/", 5_000), false}, {strings.Repeat("n", 256), false}, {"nul\x00", false},
	} {
		t.Run(fmt.Sprintf("%.30q", tc.path), func(t *testing.T) {
			attacktest.FewDescriptors(t, 200)
			container := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: "/m", SubPath: tc.path}}}
			attacktest.Budget{Memory: 4 << 20, CPU: 2 * time.Second, Time: 20 * time.Second}.Spend(t, func() {
				mounts, _, err := w.manager.Mounts(t.Context(), pod, container)
				if (err == nil) != tc.given || err != nil && len(err.Error()) > 20_000 {
					t.Errorf("given %+v, %.300v", mounts, err)
				}
				if err == nil && strings.HasSuffix(tc.path, "passwd") {
					if text, err := os.ReadFile(mounts[0].HostPath); string(text) != "inside" {
						t.Errorf("given what has %.100q, %v", text, err)
					}
				}
			})
		})
	}
	if _, err := os.Lstat(outside); !os.IsNotExist(err) {
		t.Errorf("a directory was made outside of the volume: %v", err)
	}

	// A container that runs swaps a directory for a symlink all the time.
	must(t, os.Mkdir(at("swapped"), 0o755))
	must(t, os.Mkdir(at("swapped/etc"), 0o755))
	must(t, os.WriteFile(at("swapped/etc/passwd"), []byte("inside"), 0o600))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, at("swapped"), unix.AT_FDCWD, at("absolute"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	given := 0
	attacktest.Budget{Memory: 16 << 20, CPU: 30 * time.Second}.Spend(t, func() {
		container := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "disk", MountPath: "/m", SubPath: "swapped/etc/passwd"}}}
		for range 500 {
			mounts, _, err := w.manager.Mounts(t.Context(), pod, container)
			if err != nil {
				continue
			}
			given++
			if text, err := os.ReadFile(mounts[0].HostPath); string(text) != "inside" {
				t.Fatalf("given what has %.100q, %v", text, err)
			}
		}
	})
	close(stop)
	<-stopped
	t.Logf("while it was swapped, the file was given in %d of 500 tries", given)
	attacktest.Budget{Memory: 32 << 20, CPU: 30 * time.Second}.Spend(t, func() { must(t, w.manager.Unmount(t.Context(), pod.UID)) })
}

// TestAttack_ContentsReplaced: what a process that may write to the volumes of objects (a container of another pod with a hostPath) puts there leads no new contents elsewhere, is not waited for, and is
// replaced; containers themselves may only read them.
func TestAttack_ContentsReplaced(t *testing.T) {
	t.Setenv("TMPDIR", "/run") // in memory: these trees are a lot to write
	w := newWorld(t)
	w.secret("s", map[string][]byte{"k": []byte("old"), "deep": []byte("old")})
	w.configMap("c", map[string]string{"k": "old", "deep": "old"})
	deep := []corev1.KeyToPath{{Key: "k", Path: "k"}, {Key: "deep", Path: "a/b/deep"}}
	name := corev1.LocalObjectReference{Name: "c"}
	pod := w.pod("p", nil,
		named("secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: deep}}),
		named("map", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name, Items: deep}}),
		named("projected", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name, Items: deep}}}}}),
		named("fields", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "k", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}, {Path: "a/b/deep", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}},
		}}}),
	)
	w.mount(pod)
	mounts, _, err := w.manager.Mounts(t.Context(), pod, &pod.Spec.Containers[0])
	must(t, err)
	for _, m := range mounts {
		if !m.ReadOnly {
			t.Errorf("%s may be written to", m.ContainerPath)
		}
	}
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "k"), []byte("outside"), 0o600))
	must(t, os.MkdirAll(filepath.Join(outside, "a/b"), 0o755))
	attacks := map[string]func(dir string) error{
		"..data leads elsewhere": func(dir string) error {
			return swap(filepath.Join(dir, "..data"), func(at string) error { return os.Symlink(outside, at) })
		},
		"..data is a FIFO": func(dir string) error {
			return swap(filepath.Join(dir, "..data"), func(at string) error { return syscall.Mkfifo(at, 0o600) })
		},
		"..data is a directory": func(dir string) error {
			return swap(filepath.Join(dir, "..data"), func(at string) error { return os.MkdirAll(at+"/x", 0o700) })
		},
		"the next ..data is a directory": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "..data_tmp/x"), 0o700) },
		"the next ..data is there":       func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "..data_tmp")) },
		"a name leads elsewhere": func(dir string) error {
			return swap(filepath.Join(dir, "k"), func(at string) error { return os.Symlink(filepath.Join(outside, "k"), at) })
		},
		"a name is a FIFO": func(dir string) error {
			return swap(filepath.Join(dir, "a"), func(at string) error { return syscall.Mkfifo(at, 0o600) })
		},
		"a file is a FIFO": func(dir string) error {
			return swap(filepath.Join(dir, "..data/k"), func(at string) error { return syscall.Mkfifo(at, 0o600) })
		},
		"a file is endless": func(dir string) error {
			return swap(filepath.Join(dir, "..data/k"), func(at string) error { return syscall.Mknod(at, syscall.S_IFCHR|0o600, 1<<8|5) })
		},
		"a file is sparse": func(dir string) error { return os.Truncate(filepath.Join(dir, "..data/k"), 10<<40) },
		"a directory leads elsewhere": func(dir string) error {
			return swap(filepath.Join(dir, "..data/a"), func(at string) error { return os.Symlink(filepath.Join(outside, "a"), at) })
		},
		"a deep tree": func(dir string) error {
			attacktest.Nest(t, filepath.Join(dir, "..data"), "d", 5_000, 1)
			return nil
		},
	}
	number := 0
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			attacktest.FewDescriptors(t, 200)
			for _, m := range mounts {
				must(t, attack(m.HostPath))
			}
			number++
			text := fmt.Sprint("new ", number)
			w.secret("s", map[string][]byte{"k": []byte(text), "deep": []byte(text)})
			w.configMap("c", map[string]string{"k": text, "deep": text})
			pod = pod.DeepCopy()
			pod.Annotations = map[string]string{"number": text}
			attacktest.Budget{Memory: 32 << 20, CPU: 10 * time.Second}.Spend(t, func() {
				wrong := ""
				for range 2_000 { // until the kubelet has heard of the change
					err := w.manager.Mount(t.Context(), pod)
					wrong = ""
					for _, m := range mounts {
						for _, file := range []string{"k", "a/b/deep"} {
							have, err := os.ReadFile(filepath.Join(m.HostPath, file))
							if err != nil || !strings.Contains(string(have), text) {
								wrong += fmt.Sprintf("%s of %s is %.50q, %v; ", file, m.ContainerPath, have, err)
							}
						}
					}
					if wrong == "" && err == nil {
						return
					}
					wrong += fmt.Sprint(err)
					time.Sleep(5 * time.Millisecond)
				}
				t.Error(wrong)
			})
		})
	}
	if text, err := os.ReadFile(filepath.Join(outside, "k")); string(text) != "outside" {
		t.Errorf("outside there is %q, %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Join(outside, "a/b")); err != nil || len(entries) > 0 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
	attacktest.Budget{Memory: 32 << 20, CPU: 30 * time.Second}.Spend(t, func() { must(t, w.manager.Unmount(t.Context(), pod.UID)) })
	if _, err := os.Stat(filepath.Join(outside, "k")); err != nil {
		t.Errorf("removed with the pod: %v", err)
	}
}

// swap puts something else in the place of a file or directory.
func swap(path string, create func(path string) error) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return create(path)
}
