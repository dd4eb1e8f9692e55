package csi_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/csi/csitest"
	"vigil/kubelet/volumes"
)

const staging = spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME

func (w *world) calls(d *csitest.Driver, want ...string) {
	w.Helper()
	if have := d.Seen(); !slices.Equal(have, want) {
		w.Fatalf("the driver was called for %q, want %q", have, want)
	}
}

// TestRegistration has a driver come, be restarted, and go.
func TestRegistration(t *testing.T) {
	w := newWorld(t)
	w.drivers()
	d := csitest.NewDriver(t)
	stop := d.Serve(t, w.root)
	drivers := w.drivers(csitest.Name)
	if d := drivers[0]; d.NodeID != "machine-7" || !slices.Equal(d.TopologyKeys, []string{"topology.example.com/rack"}) || d.Allocatable == nil || *d.Allocatable.Count != 16 {
		t.Errorf("the CSINode has %+v", d)
	}
	w.registered(d)
	node, err := w.node.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	must(t, err)
	if node.Labels["topology.example.com/rack"] != "r1" || node.Annotations["csi.volume.kubernetes.io/nodeid"] != `{"disks.example.com":"machine-7"}` {
		t.Errorf("the node has labels %v, annotations %v", node.Labels, node.Annotations)
	}
	object, err := w.node.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
	must(t, err)
	if o := object.OwnerReferences; len(o) != 1 || o[0].UID != node.UID || o[0].Kind != "Node" {
		t.Errorf("the CSINode belongs to %+v", o)
	}
	stop()
	w.drivers()
	node, err = w.node.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	must(t, err)
	if node.Labels["topology.example.com/rack"] != "r1" || node.Annotations["csi.volume.kubernetes.io/nodeid"] != "" {
		t.Errorf("the node has labels %v, annotations %v", node.Labels, node.Annotations)
	}
	stop = d.Serve(t, w.root)
	w.drivers(csitest.Name)
	w.restart(d)
	w.drivers(csitest.Name)
	stop()
	w.drivers()
}

// TestPersistent follows a volume that two pods have through restarts of the kubelet's part.
func TestPersistent(t *testing.T) {
	w := newWorld(t)
	w.volume("disk", nil)
	first := w.pod("first", ofClaim("disk"), func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242))}
	})
	w.fails(first, `MountVolume.WaitForAttach failed for volume "disk" : volume handle-of-disk has GET error for volume attachment csi-`)
	w.attach("disk")
	w.restart() // which forgets pauses
	w.fails(first, `MountVolume.MountDevice failed for volume "disk" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name disks.example.com not found in the list of registered CSI drivers`)
	w.empty()
	d := csitest.NewDriver(t, staging, spec.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	stop := d.Serve(t, w.root)
	w.registered(d)
	w.restart(d)
	at := w.mount(first)
	w.calls(d, "stage", "publish")
	usage, err := w.manager.Usage(t.Context(), first.UID)
	must(t, err)
	if want := (volumes.VolumeUsage{Name: "v", Claim: "disk", CapacityBytes: 1000, UsedBytes: 300, AvailableBytes: 700, Inodes: 10, InodesUsed: 3, InodesFree: 7}); len(usage) != 1 || usage[0] != want {
		t.Errorf("the volume takes %+v", usage)
	}
	must(t, os.WriteFile(filepath.Join(at, "note"), []byte("kept"), 0o600))
	if want := filepath.Join(w.root, "pods", string(first.UID), "volumes", "kubernetes.io~csi", "disk", "mount"); at != want {
		t.Errorf("the volume is at %s, not %s", at, want)
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(at), "vol_data.json"))
	must(t, err)
	var keys map[string]string
	must(t, json.Unmarshal(content, &keys))
	if keys["driverName"] != csitest.Name || keys["volumeHandle"] != "handle-of-disk" || keys["specVolID"] != "disk" || keys["volumeLifecycleMode"] != "Persistent" || keys["attachmentID"] == "" {
		t.Errorf("vol_data.json has %v", keys)
	}
	info, err := os.Stat(at)
	must(t, err)
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 4242 {
		t.Errorf("the volume is group %d's", gid)
	}
	if r := d.Staged(); r.PublishContext["device"] != "/dev/x" || r.VolumeContext["color"] != "blue" || r.VolumeCapability.GetMount().GetFsType() != "ext4" ||
		r.VolumeCapability.AccessMode.Mode != spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER {
		t.Errorf("the driver was asked to stage %v", r)
	}
	second := w.pod("second", ofClaim("disk"), nil)
	if content, err := os.ReadFile(filepath.Join(w.mount(second), "note")); err != nil || string(content) != "kept" {
		t.Errorf("the second pod sees %q, %v", content, err)
	}
	w.calls(d, "publish")

	w.restart(d) // the kubelet's part, and then the driver is gone
	stop()
	w.drivers()
	if again := w.mount(first); again != at {
		t.Errorf("the volume has moved to %s", again)
	}
	if in := w.plugin.InUse(); !slices.Equal(in, []corev1.UniqueVolumeName{"kubernetes.io/csi/disks.example.com^handle-of-disk"}) {
		t.Errorf("in use are %v", in)
	}
	if err := w.manager.Unmount(t.Context(), first.UID); err == nil {
		t.Error("a volume was unmounted without its driver")
	}
	d.Serve(t, w.root)
	w.restart(d)
	w.calls(d)
	must(t, w.manager.Unmount(t.Context(), first.UID))
	w.calls(d, "unpublish")
	if _, err := os.Stat(filepath.Join(w.root, "pods", string(second.UID), "volumes", "kubernetes.io~csi", "disk", "mount", "note")); err != nil {
		t.Error(err)
	}
	d.Fails("unstage", status.Error(codes.Internal, "not now"))
	if err := w.manager.Unmount(t.Context(), second.UID); err == nil {
		t.Error("a volume was unstaged that was not")
	}
	d.Fails("unstage", nil)
	must(t, w.manager.Unmount(t.Context(), second.UID))
	w.calls(d, "unpublish", "unstage", "unpublish", "unstage")
	w.empty()
	if in := w.plugin.InUse(); len(in) > 0 {
		t.Errorf("in use are %v", in)
	}
}

// TestFailures has a driver refuse, once for good and once not.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	w.object(storagev1.CSIDriverSpec{AttachRequired: new(false)})
	w.volume("disk", nil)
	d := csitest.NewDriver(t, staging)
	d.Serve(t, w.root)
	w.registered(d)
	pod := w.pod("p", ofClaim("disk"), nil)
	d.Fails("stage", status.Error(codes.InvalidArgument, "no such disk"))
	w.fails(pod, `MountVolume.MountDevice failed for volume "disk" : rpc error: code = InvalidArgument desc = no such disk`)
	w.calls(d, "stage")
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	w.calls(d) // it has nothing to undo
	w.empty()
	d.Fails("stage", status.Error(codes.DeadlineExceeded, "slow"))
	w.fails(pod, `MountVolume.MountDevice failed for volume "disk" : rpc error: code = DeadlineExceeded desc = slow`)
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	w.calls(d, "stage", "unpublish", "unstage")
	w.empty()
	d.Fails("stage", nil)
	d.Fails("publish", status.Error(codes.Internal, "no room"))
	w.fails(pod, `MountVolume.SetUp failed for volume "disk" : rpc error: code = Internal desc = no room`)
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	w.calls(d, "stage", "publish", "unpublish", "unstage")
	w.empty()
}

// TestInline has a volume that is in the pod, of a driver that wants to know whose it is.
func TestInline(t *testing.T) {
	w := newWorld(t)
	d := csitest.NewDriver(t, staging, spec.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	d.Serve(t, w.root)
	w.registered(d)
	_, err := w.admin.CoreV1().Secrets("a").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("v")}}, metav1.CreateOptions{})
	must(t, err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := w.admin.CoreV1().ServiceAccounts("a").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Log(err) // a controller may have made it
	}
	source := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: csitest.Name, ReadOnly: new(true), VolumeAttributes: map[string]string{"size": "1"}, NodePublishSecretRef: &corev1.LocalObjectReference{Name: "s"},
	}}
	pod := w.pod("p", source, func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242))}
	})
	w.fails(pod, `MountVolume.SetUp failed for volume "v" : volume mode "Ephemeral" not supported by driver disks.example.com (no CSIDriver object)`)
	w.object(storagev1.CSIDriverSpec{
		PodInfoOnMount: new(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
		TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}, RequiresRepublish: new(true),
	})
	w.restart(d)
	at := w.mount(pod)
	w.calls(d, "publish")
	r := d.Published()
	context := maps.Clone(r.VolumeContext)
	var tokens map[string]struct{ Token, ExpirationTimestamp string }
	must(t, json.Unmarshal([]byte(context["csi.storage.k8s.io/serviceAccount.tokens"]), &tokens))
	if tokens["vault"].Token == "" || tokens["vault"].ExpirationTimestamp == "" {
		t.Errorf("the driver has tokens %v", tokens)
	}
	delete(context, "csi.storage.k8s.io/serviceAccount.tokens")
	if want := map[string]string{
		"size": "1", "csi.storage.k8s.io/pod.name": "p", "csi.storage.k8s.io/pod.namespace": "a", "csi.storage.k8s.io/pod.uid": string(pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": "default", "csi.storage.k8s.io/ephemeral": "true",
	}; !maps.Equal(context, want) {
		t.Errorf("the driver was told %v", context)
	}
	if !r.Readonly || r.Secrets["k"] != "v" || r.VolumeCapability.GetMount().GetVolumeMountGroup() != "4242" || r.StagingTargetPath != "" {
		t.Errorf("the driver was asked to publish %v", r)
	}
	if err := os.WriteFile(filepath.Join(at, "f"), nil, 0o600); err == nil {
		t.Error("a read-only volume was written to")
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	w.calls(d, "unpublish")
	w.empty()
}

// TestBlock has a volume that is a device.
func TestBlock(t *testing.T) {
	w := newWorld(t)
	w.object(storagev1.CSIDriverSpec{AttachRequired: new(false)})
	w.volume("disk", func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })
	d := csitest.NewDriver(t, staging)
	d.Serve(t, w.root)
	w.registered(d)
	pod := w.pod("p", ofClaim("disk"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].VolumeMounts = nil
		pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
	})
	must(t, w.manager.Mount(t.Context(), pod))
	w.calls(d, "stage", "publish")
	at := filepath.Join(w.root, "plugins", "kubernetes.io", "csi", "volumeDevices", "publish", "disk", string(pod.UID))
	devices, err := w.manager.Devices(t.Context(), pod, &pod.Spec.Containers[0])
	must(t, err)
	if len(devices) != 1 || devices[0].HostPath != at || d.Published().VolumeCapability.GetBlock() == nil {
		t.Errorf("the container gets %+v by %v", devices, d.Published())
	}
	w.restart(d)
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	w.calls(d, "unpublish", "unstage")
	w.empty()
	if left, err := filepath.Glob(filepath.Join(w.root, "plugins", "kubernetes.io", "csi", "volumeDevices", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
