package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet"
	"vigil/kubelet/volumes/mount"
)

// claim makes a claim and, unless source is nil, a volume that is bound to it. Nodes with the label disk=DISK may use it.
func (w *world) claim(name, disk string, mode corev1.PersistentVolumeMode, owner *corev1.Pod, source *corev1.PersistentVolumeSource) *corev1.PersistentVolumeClaim {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	access := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: access, StorageClassName: new(""), VolumeMode: &mode, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
	}
	if source != nil {
		claim.Spec.VolumeName = "pv-" + name
	}
	claim, err := w.admin.CoreV1().PersistentVolumeClaims("a").Create(w.Context(), claim, metav1.CreateOptions{})
	must(w, err)
	if source == nil {
		w.server.Settle(w)
		return claim
	}
	_, err = w.admin.CoreV1().PersistentVolumes().Create(w.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, Annotations: map[string]string{gidAnnotation: "777"}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: access, Capacity: size, VolumeMode: &mode, PersistentVolumeSource: *source,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "a", Name: name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{disk}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	must(w, err)
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: access, Capacity: size}
	claim, err = w.admin.CoreV1().PersistentVolumeClaims("a").UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
	must(w, err)
	w.server.Settle(w)
	return claim
}

func claimed(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}

func localSource(path string) *corev1.PersistentVolumeSource {
	return &corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
}

func TestLocalVolume(t *testing.T) {
	w := newWorld(t)
	disk := t.TempDir()
	must(t, os.WriteFile(filepath.Join(disk, "precious"), nil, 0o600))
	w.claim("c", "fast", corev1.PersistentVolumeFilesystem, nil, localSource(disk))
	group := func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242))}
	}
	pod, other := w.pod("p", group, named("v", claimed("c", false))), w.pod("q", nil, named("v", claimed("c", true)))
	w.mount(pod)
	w.mount(other)
	path := w.paths(pod)["/v"]
	if want := filepath.Join(w.root, "pods", string(pod.UID), "volumes/kubernetes.io~local-volume/pv-c"); path != want {
		t.Errorf("the volume is at %s, want %s", path, want)
	}
	info, err := os.Stat(filepath.Join(path, "precious"))
	must(t, err)
	if info.Sys().(*syscall.Stat_t).Gid != 4242 || info.Mode() != 0o660 {
		t.Errorf("a file is %v of group %d", info.Mode(), info.Sys().(*syscall.Stat_t).Gid)
	}
	must(t, os.WriteFile(filepath.Join(path, "shared"), nil, 0o600))
	if _, err := os.Stat(filepath.Join(w.paths(other)["/v"], "shared")); err != nil {
		t.Errorf("the other pod: %v", err)
	}
	mounts, _, err := w.manager.Mounts(t.Context(), other, &other.Spec.Containers[0])
	must(t, err)
	if !mounts[0].ReadOnly {
		t.Error("a claim that is read-only is mounted for writing")
	}
	if err := os.WriteFile(filepath.Join(w.paths(other)["/v"], "x"), nil, 0o600); err == nil {
		t.Error("a claim that is read-only can be written")
	}
	if groups := w.manager.Groups(pod); len(groups) != 1 || groups[0] != 777 {
		t.Errorf("groups are %v", groups)
	}
	usage, err := w.manager.Usage(t.Context(), pod.UID)
	must(t, err)
	if len(usage) != 1 || usage[0].Claim != "c" || usage[0].Local || usage[0].CapacityBytes == 0 {
		t.Errorf("usage is %+v", usage)
	}
	w.restart()
	w.mount(pod)
	for _, p := range []*corev1.Pod{pod, other} {
		must(t, w.manager.Unmount(t.Context(), p.UID))
	}
	if _, err := os.Stat(filepath.Join(disk, "precious")); err != nil {
		t.Errorf("the disk's contents: %v", err)
	}
}

// TestClaims has claims that cannot be used, in upstream's words.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	w.claim("unbound", "fast", corev1.PersistentVolumeFilesystem, nil, nil)
	w.claim("far", "slow", corev1.PersistentVolumeFilesystem, nil, localSource(t.TempDir()))
	w.claim("gone", "fast", corev1.PersistentVolumeFilesystem, nil, localSource("/no/such/path"))
	w.claim("block", "fast", corev1.PersistentVolumeBlock, nil, localSource("/dev/null"))
	w.claim("csi", "fast", corev1.PersistentVolumeFilesystem, nil, &corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "h"}})
	w.claim("of-a-pod-v", "fast", corev1.PersistentVolumeFilesystem, nil, localSource(t.TempDir()))
	all := "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "
	ephemeral := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}}}
	for _, test := range []struct {
		pod    string
		source corev1.VolumeSource
		want   string // the last part of the message
	}{
		{"p1", claimed("unbound", false), all + "error processing PVC a/unbound: PVC is not bound"},
		{"p2", claimed("none", false), all + `error processing PVC a/none: failed to fetch PVC from API server: persistentvolumeclaims "none" not found`},
		{"p3", claimed("far", false), `MountVolume.NodeAffinity check failed for volume "pv-far" : no matching NodeSelectorTerms`},
		{"p4", claimed("gone", false), `MountVolume.SetUp failed for volume "pv-gone" : path "/no/such/path" does not exist: stat /no/such/path: no such file or directory`},
		{"p5", claimed("block", false), all + "volume v has volumeMode Block, but is specified in volumeMounts"},
		{"p6", claimed("csi", false), all + `failed to get Plugin from volumeSpec for volume "pv-csi" err=no volume plugin matched`},
		{"of-a-pod", ephemeral, all + "error processing PVC a/of-a-pod-v: PVC a/of-a-pod-v was not created for pod a/of-a-pod (pod is not owner)"},
		{"p7", corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}}, all + `failed to get Plugin from volumeSpec for volume "v" err=no volume plugin matched`},
	} {
		t.Run(test.pod, func(t *testing.T) {
			pod := w.pod(test.pod, nil, named("v", test.source))
			w.fails(pod, test.want)
			must(t, w.manager.Unmount(t.Context(), pod.UID))
		})
	}
}

func TestEphemeralVolume(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("v", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}}}))
	w.claim("p-v", "fast", corev1.PersistentVolumeFilesystem, pod, localSource(t.TempDir()))
	w.mount(pod)
	if there, err := mount.IsMount(w.paths(pod)["/v"]); !there || err != nil {
		t.Errorf("mounted: %v, %v", there, err)
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

func TestBlockVolume(t *testing.T) {
	w := newWorld(t)
	device := filepath.Join(t.TempDir(), "device")
	must(t, syscall.Mknod(device, syscall.S_IFBLK|0o600, 7<<8|200))
	w.claim("c", "fast", corev1.PersistentVolumeBlock, nil, localSource(device))
	pod := w.pod("p", func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/x"}}
	}, named("v", claimed("c", false)))
	w.mount(pod)
	devices, err := w.manager.Devices(t.Context(), pod, &pod.Spec.Containers[0])
	must(t, err)
	if want := (kubelet.Device{HostPath: device, ContainerPath: "/dev/x", Permissions: "mrw"}); len(devices) != 1 || devices[0] != want {
		t.Errorf("devices are %v", devices)
	}
	link := filepath.Join(w.root, "pods", string(pod.UID), "volumeDevices/kubernetes.io~local-volume/pv-c")
	if to, err := os.Readlink(link); err != nil || to != device {
		t.Errorf("the device's symlink leads to %q, %v", to, err)
	}
	w.restart()
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	if _, err := os.Stat(device); err != nil {
		t.Error(err)
	}
}

// TestNFS fails as the mount program does: there is no server.
func TestNFS(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("v", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "::1", Path: "/export", ReadOnly: true}}))
	err := w.manager.Mount(t.Context(), pod)
	if err == nil || !strings.Contains(err.Error(), `MountVolume.SetUp failed for volume "v" : mount failed: `) ||
		!strings.Contains(err.Error(), "Mounting arguments: -t nfs -o ro [::1]:/export "+w.root) {
		t.Errorf("mount without a server: %v", err)
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

// TestRefresh measures how long a change of a config map takes to the file.
func TestRefresh(t *testing.T) {
	w := newWorld(t)
	w.configMap("m", map[string]string{"a": "0"})
	pod := w.pod("p", nil, named("v", fromConfigMap("m")))
	w.mount(pod)
	path := filepath.Join(w.paths(pod)["/v"], "a")
	began := time.Now()
	const changes = 20
	for i := range changes {
		value := strings.Repeat("x", i+1)
		w.configMap("m", map[string]string{"a": value})
		w.await(pod)
		w.mount(pod)
		content, err := os.ReadFile(path)
		must(t, err)
		if string(content) != value {
			t.Fatalf("the file is %q after change %d", content, i)
		}
	}
	t.Logf("from write to file: %v", time.Since(began)/changes)
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

// TestProvisionedVolume makes the directory of a volume of the built-in provisioner when a pod first mounts it, and no other directory.
func TestProvisionedVolume(t *testing.T) {
	own := filepath.Join(t.TempDir(), "local-volumes")
	must(t, os.Mkdir(own, 0o711))
	w := newWorld(t, func(config *Config) { config.LocalVolumes = own })
	const name = "pvc-0b6c9f0e-6a52-4a5e-9d3c-0d6f2f3a1b2c"
	volume := func(path, by string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": by}},
			Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: *localSource(path)},
		}
	}
	pod := w.pod("p", nil, named("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}))
	plugin := &local{own}
	setUp := func(pv *corev1.PersistentVolume) error {
		v := &Volume{Pod: pod, PV: pv, Place: Place{PodUID: pod.UID, Plugin: plugin.Name(), Name: name, Dir: filepath.Join(w.root, "volume")}}
		_, err := plugin.SetUp(t.Context(), v)
		if err == nil {
			must(t, plugin.TearDown(t.Context(), v.Place))
		}
		return err
	}
	path := filepath.Join(own, name)
	for _, pv := range []*corev1.PersistentVolume{volume(path, "example.com/p"), volume(filepath.Join(own, "x"), "vigil.dev/local")} {
		if err := setUp(pv); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("a directory that is not the provisioner's: %v", err)
		}
	}
	must(t, setUp(volume(path, "vigil.dev/local")))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o777 {
		t.Errorf("the directory is %v", info.Mode())
	}
	must(t, os.WriteFile(filepath.Join(path, "kept"), nil, 0o600))
	must(t, setUp(volume(path, "vigil.dev/local")))
	if _, err := os.Stat(filepath.Join(path, "kept")); err != nil {
		t.Error(err)
	}
}
