package csi_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet"
	"vigil/kubelet/configobjects"
	"vigil/kubelet/csi"
	"vigil/kubelet/csi/csitest"
	"vigil/kubelet/volumes"
	"vigil/kubelet/volumes/mount"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a server, and a node "n" with a plug-in.
type world struct {
	testing.TB
	server  *apiservertest.Server
	admin   *kubernetes.Clientset
	node    *kubernetes.Clientset
	root    string
	plugin  *csi.Plugin
	manager *volumes.Manager
	stop    func()
}

func newWorld(t testing.TB) *world {
	t.Helper()
	nstest.Need(t)
	s := apiservertest.StartForNodes(t)
	node, err := kubernetes.NewForConfig(s.Client("system:node:n", "system:nodes"))
	must(t, err)
	root, err := os.MkdirTemp("/run", "csi-") // a socket's path is short
	must(t, err)
	w := &world{TB: t, server: s, admin: s.Clientset(), node: node, root: root}
	t.Cleanup(func() {
		below, err := mount.Below(root)
		must(t, err)
		for _, at := range below {
			must(t, mount.Unmount(at.Path))
		}
		must(t, os.RemoveAll(root))
	})
	_, err = w.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = w.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	must(t, err)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start makes a plug-in that knows nothing, as that of a new process.
func (w *world) start() {
	w.Helper()
	var err error
	w.plugin, err = csi.New(csi.Config{RootDir: w.root, NodeName: "n", Client: w.node})
	must(w, err)
	store, err := configobjects.New(configobjects.Config{Server: w.server.Client("system:node:n", "system:nodes")})
	must(w, err)
	w.manager, err = volumes.New(volumes.Config{RootDir: w.root, NodeName: "n", Objects: store, Client: w.node, Plugins: []volumes.Plugin{w.plugin}})
	must(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.plugin.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-done
		w.stop = func() {}
	}
}

// restart has another process take over, at which the drivers register.
func (w *world) restart(drivers ...*csitest.Driver) {
	w.Helper()
	w.stop()
	for _, d := range drivers {
		d.Forget()
	}
	w.start()
	for _, d := range drivers {
		w.registered(d)
	}
}

// drivers waits until the CSINode has drivers of these names, and returns them.
func (w *world) drivers(names ...string) []storagev1.CSINodeDriver {
	w.Helper()
	var drivers []storagev1.CSINodeDriver
	eventually.Nil(w, fmt.Sprintf("the CSINode has %q", names), func() error {
		object, err := w.node.StorageV1().CSINodes().Get(context.Background(), "n", metav1.GetOptions{})
		if err != nil {
			return err
		}
		drivers = object.Spec.Drivers
		var have []string
		for _, d := range drivers {
			have = append(have, d.Name)
		}
		if !slices.Equal(have, names) {
			return fmt.Errorf("it has %q", have)
		}
		return nil
	})
	return drivers
}

// registered waits until the driver hears that it is.
func (w *world) registered(d *csitest.Driver) {
	w.Helper()
	eventually.Nil(w, "the driver is registered", func() error {
		if s := d.Status(); s == nil || !s.PluginRegistered {
			return fmt.Errorf("it heard %v", s)
		}
		return nil
	})
}

// object makes the CSIDriver.
func (w *world) object(spec storagev1.CSIDriverSpec) {
	w.Helper()
	_, err := w.admin.StorageV1().CSIDrivers().Create(w.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csitest.Name}, Spec: spec}, metav1.CreateOptions{})
	must(w, err)
}

// volume makes a PersistentVolume with a claim that is bound to it, both called name.
func (w *world) volume(name string, change func(*corev1.PersistentVolume)) {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: name, StorageClassName: new(""), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: csitest.Name, VolumeHandle: "handle-of-" + name, FSType: "ext4", VolumeAttributes: map[string]string{"color": "blue"},
		}},
	}}
	if change != nil {
		change(pv)
	}
	claim.Spec.VolumeMode = pv.Spec.VolumeMode
	claim, err := w.admin.CoreV1().PersistentVolumeClaims("a").Create(w.Context(), claim, metav1.CreateOptions{})
	must(w, err)
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "a", Name: name, UID: claim.UID}
	_, err = w.admin.CoreV1().PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
	must(w, err)
	claim.Status.Phase = corev1.ClaimBound
	_, err = w.admin.CoreV1().PersistentVolumeClaims("a").UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
	must(w, err)
}

// attach makes the VolumeAttachment of a PersistentVolume, as the attach-detach controller and an attacher do.
func (w *world) attach(name string) {
	w.Helper()
	object := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%x", sha256.Sum256([]byte("handle-of-"+name+csitest.Name+"n")))},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: csitest.Name, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	}
	object, err := w.admin.StorageV1().VolumeAttachments().Create(w.Context(), object, metav1.CreateOptions{})
	must(w, err)
	object.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/x"}}
	_, err = w.admin.StorageV1().VolumeAttachments().UpdateStatus(w.Context(), object, metav1.UpdateOptions{})
	must(w, err)
	w.server.Settle(w)
}

func ofClaim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// pod makes a pod on the node that has a volume "v" at /v.
func (w *world) pod(name string, source corev1.VolumeSource, change func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"},
		Spec: corev1.PodSpec{
			NodeName: "n", AutomountServiceAccountToken: new(false), ServiceAccountName: "default",
			Containers: []corev1.Container{{Name: "c", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: source}},
		},
	}
	if change != nil {
		change(pod)
	}
	pod, err := w.admin.CoreV1().Pods("a").Create(w.Context(), pod, metav1.CreateOptions{})
	must(w, err)
	w.server.Settle(w)
	return pod
}

// mount makes the pod's volume and returns where it is.
func (w *world) mount(pod *corev1.Pod) string {
	w.Helper()
	must(w, w.manager.Mount(w.Context(), pod))
	mounts, done, err := w.manager.Mounts(w.Context(), pod, &pod.Spec.Containers[0])
	if done != nil {
		defer done()
	}
	must(w, err)
	return mounts[0].HostPath
}

// fails wants the pod's volume to fail, with a message that begins so.
func (w *world) fails(pod *corev1.Pod, message string) {
	w.Helper()
	err, ok := w.manager.Mount(w.Context(), pod).(*kubelet.VolumeError)
	if !ok || len(err.Messages) == 0 || !strings.HasPrefix(err.Messages[0], message) {
		w.Fatalf("mount: %+v, want %q", err, message)
	}
}

// empty wants nothing of volumes to be left on the node.
func (w *world) empty() {
	w.Helper()
	below, err := mount.Below(w.root)
	must(w, err)
	if len(below) > 0 {
		w.Errorf("left mounted: %v", below)
	}
	left, err := filepath.Glob(filepath.Join(w.root, "plugins", "kubernetes.io", "csi", csitest.Name, "*"))
	must(w, err)
	pods, err := filepath.Glob(filepath.Join(w.root, "pods", "*"))
	must(w, err)
	if left = append(left, pods...); len(left) > 0 {
		w.Errorf("left: %v", left)
	}
}
