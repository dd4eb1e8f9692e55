package attachdetach_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/attachdetach"
	"vigil/controllers/internal/controllertest"
	"vigil/informer"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

const driver = "disk.example.com"

// world is an API server with nodes a and b.
type world struct {
	*controllertest.Env
	t *testing.T
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{controllertest.Start(t), t}
	for _, name := range []string{"a", "b"} {
		_, err := w.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
		w.node(name, map[string]any{"conditions": []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}})
	}
	return w
}

// control runs the controller, with informers of its own, until the test ends or the returned function is called.
func (w *world) control(change func(*attachdetach.Config)) (stop func()) {
	w.t.Helper()
	informers, err := informer.NewFactory(w.Server, informer.Config{Logger: w.Logger})
	w.must(err)
	config := attachdetach.Config{Client: w.Client, Informers: informers, Recorder: w.Recorder, Logger: w.Logger}
	if change != nil {
		change(&config)
	}
	env := *w.Env
	env.Informers = informers
	return env.Run(attachdetach.New(config).Run)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// node changes the status of a node.
func (w *world) node(name string, status map[string]any) {
	w.t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	w.must(err)
	_, err = w.Client.CoreV1().Nodes().Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	w.must(err)
}

// claim makes a claim that is bound to a volume of the driver; both have the name.
func (w *world) claim(name string, mode corev1.PersistentVolumeAccessMode) {
	w.t.Helper()
	ctx, size := w.t.Context(), corev1.ResourceList{"storage": resource.MustParse("1Gi")}
	claim, err := w.Client.CoreV1().PersistentVolumeClaims("default").Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, StorageClassName: new(""), VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.Client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, Capacity: size,
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle-" + name}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	claim.Status.Phase = corev1.ClaimBound
	_, err = w.Client.CoreV1().PersistentVolumeClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	w.must(err)
}

// pod makes a pod that runs on a node and uses a claim.
func (w *world) pod(name, node, claim string) {
	w.t.Helper()
	_, err := w.Client.CoreV1().Pods("default").Create(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName:   node,
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	w.must(w.Client.CoreV1().Pods("default").Delete(w.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

// attachment waits for the attachment of a claim's volume to a node.
func (w *world) attachment(claim, node string) *storagev1.VolumeAttachment {
	w.t.Helper()
	var a *storagev1.VolumeAttachment
	w.Eventually(func(ctx context.Context) error {
		var err error
		if a, err = w.Client.StorageV1().VolumeAttachments().Get(ctx, name(claim, node), metav1.GetOptions{}); err != nil {
			return err
		}
		if a.DeletionTimestamp != nil {
			return errors.New("the attachment is being deleted")
		}
		return nil
	})
	return a
}

func name(claim, node string) string { return attachdetach.Name(driver, "handle-"+claim, node) }

// attach is the external attacher of the driver: it says that a volume is attached, and holds the attachment.
func (w *world) attach(claim, node string) {
	w.t.Helper()
	a := w.attachment(claim, node)
	a.Finalizers = []string{"external-attacher/disk-example-com"}
	a, err := w.Client.StorageV1().VolumeAttachments().Update(w.t.Context(), a, metav1.UpdateOptions{})
	w.must(err)
	a.Status.Attached = true
	_, err = w.Client.StorageV1().VolumeAttachments().UpdateStatus(w.t.Context(), a, metav1.UpdateOptions{})
	w.must(err)
}

// detach is the external attacher again: it waits until an attachment is being deleted, and lets it go.
func (w *world) detach(claim, node string) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		a, err := w.Client.StorageV1().VolumeAttachments().Get(ctx, name(claim, node), metav1.GetOptions{})
		if err != nil || a.DeletionTimestamp == nil {
			return fmt.Errorf("the attachment stays: %v", err)
		}
		return nil
	})
	_, err := w.Client.StorageV1().VolumeAttachments().Patch(w.t.Context(), name(claim, node), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
}

// stays fails when an attachment is deleted before the controller has come to another volume after it: one that is made for that.
func (w *world) stays(claim, node, witness string) {
	w.t.Helper()
	w.claim(witness, corev1.ReadWriteOnce)
	w.pod("pod-"+witness, "a", witness)
	w.attachment(witness, "a")
	a, err := w.Client.StorageV1().VolumeAttachments().Get(w.t.Context(), name(claim, node), metav1.GetOptions{})
	if err != nil || a.DeletionTimestamp != nil {
		w.t.Fatalf("the attachment is gone: %v", err)
	}
}

// attached waits until the status of a node names the volumes of claims.
func (w *world) attached(node string, claims ...string) {
	w.t.Helper()
	var want []corev1.AttachedVolume
	for _, claim := range claims {
		want = append(want, corev1.AttachedVolume{Name: corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^handle-" + claim)})
	}
	w.Eventually(func(ctx context.Context) error {
		n, err := w.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil || fmt.Sprint(n.Status.VolumesAttached) != fmt.Sprint(want) {
			return fmt.Errorf("attached is %v, not %v (%v)", n.Status.VolumesAttached, want, err)
		}
		return nil
	})
}

func (w *world) event(pod, reason, text string) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error { return w.HasEvent(ctx, pod, reason, text) })
}

func inUse(claims ...string) map[string]any {
	names := []string{}
	for _, claim := range claims {
		names = append(names, "kubernetes.io/csi/"+driver+"^handle-"+claim)
	}
	return map[string]any{"volumesInUse": names}
}

// TestLife attaches for a pod and detaches after it, not before the node is done with the volume.
func TestLife(t *testing.T) {
	w := start(t)
	w.control(nil)
	w.claim("c", corev1.ReadWriteOnce)
	w.pod("p", "a", "c")
	a := w.attachment("c", "a")
	if a.Name != "csi-5749769477f3c069febd3acd8bdb7f48be30d63cb1f66ff55ad803478ead5299" ||
		a.Spec.Attacher != driver || a.Spec.NodeName != "a" || *a.Spec.Source.PersistentVolumeName != "c" {
		t.Errorf("the attachment is %+v", a)
	}
	w.attached("a")
	w.attach("c", "a")
	w.event("p", "SuccessfulAttachVolume", `AttachVolume.Attach succeeded for volume "c"`)
	w.attached("a", "c")
	w.node("a", inUse("c"))
	w.pod("q", "a", "c")
	w.deletePod("p")
	w.stays("c", "a", "one")
	w.deletePod("q")
	w.stays("c", "a", "two")
	w.attached("a", "c")
	w.node("a", inUse())
	w.detach("c", "a")
	w.attached("a")
}

// TestTerminated detaches from a pod that has ended, though it is there.
func TestTerminated(t *testing.T) {
	w := start(t)
	w.control(nil)
	w.claim("c", corev1.ReadWriteOnce)
	w.pod("p", "a", "c")
	w.attach("c", "a")
	_, err := w.Client.CoreV1().Pods("default").Patch(t.Context(), "p", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	w.must(err)
	w.detach("c", "a")
}

func TestMultiAttach(t *testing.T) {
	w := start(t)
	w.control(nil)
	w.claim("c", corev1.ReadWriteOnce)
	w.claim("shared", corev1.ReadWriteMany)
	w.pod("p", "a", "c")
	w.attach("c", "a")
	w.pod("q", "b", "c")
	w.event("q", "FailedAttachVolume", `Multi-Attach error for volume "c" Volume is already used by pod(s) p`)
	w.node("a", inUse("c"))
	w.deletePod("p")
	w.deletePod("q")
	w.pod("r", "b", "c")
	w.event("r", "FailedAttachVolume", `Multi-Attach error for volume "c" Volume is already exclusively attached to one node and can't be attached to another`)
	w.node("a", inUse())
	w.detach("c", "a")
	w.attach("c", "b")
	w.event("r", "SuccessfulAttachVolume", `AttachVolume.Attach succeeded for volume "c"`)
	w.pod("s1", "a", "shared")
	w.pod("s2", "b", "shared")
	w.attach("shared", "a")
	w.attach("shared", "b")
	w.attached("b", "c", "shared")
}

// TestRestart goes on where another controller stopped.
func TestRestart(t *testing.T) {
	w := start(t)
	stop := w.control(nil)
	for _, claim := range []string{"c", "d", "e"} {
		w.claim(claim, corev1.ReadWriteOnce)
		w.pod("pod-"+claim, "a", claim)
		w.attachment(claim, "a")
	}
	w.attach("c", "a")
	w.attach("d", "a")
	w.attached("a", "c", "d")
	stop()
	w.attach("e", "a")
	w.deletePod("pod-c")
	w.pod("other", "b", "d")
	w.control(nil)
	w.detach("c", "a")
	w.attached("a", "d", "e")
	w.event("other", "FailedAttachVolume", `Volume is already used by pod(s) pod-d`)
}

// TestDriver attaches nothing of a driver that does not want it, until it does.
func TestDriver(t *testing.T) {
	w := start(t)
	drivers := w.Client.StorageV1().CSIDrivers()
	_, err := drivers.Create(t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}, metav1.CreateOptions{})
	w.must(err)
	w.claim("c", corev1.ReadWriteOnce)
	w.pod("p", "a", "c")
	w.control(nil)
	w.claim("foreign", corev1.ReadWriteOnce)
	made, err := w.Client.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name("foreign", "a"), Finalizers: []string{"external-attacher/disk-example-com"}},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("foreign")}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.detach("foreign", made.Spec.NodeName) // so the controller works
	list, err := w.Client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	w.must(err)
	for _, a := range list.Items {
		if a.Name == name("c", "a") {
			t.Error("a volume is attached whose driver does not want it")
		}
	}
	w.must(drivers.Delete(t.Context(), driver, metav1.DeleteOptions{}))
	w.attachment("c", "a")
}

// TestNodeGone detaches from a node that is deleted, whatever it used, and from nodes that are lost.
func TestNodeGone(t *testing.T) {
	w := start(t)
	w.control(func(c *attachdetach.Config) { c.UnmountWait = time.Millisecond })
	w.claim("c", corev1.ReadWriteOnce)
	w.claim("d", corev1.ReadWriteOnce)
	w.claim("e", corev1.ReadWriteOnce)
	for _, claim := range []string{"c", "d"} {
		w.pod("pod-"+claim, "b", claim)
		w.attach(claim, "b")
	}
	w.node("b", inUse("c", "d"))
	w.deletePod("pod-c")
	w.stays("c", "b", "one")
	w.node("b", map[string]any{"conditions": []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}})
	w.detach("c", "b") // the wait is over
	w.attached("b", "d")
	w.must(w.Client.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.detach("d", "b")

	w.pod("pod-e", "a", "e")
	w.attach("e", "a")
	w.node("a", inUse("e"))
	w.deletePod("pod-e")
	w.stays("e", "a", "two")
	_, err := w.Client.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`), metav1.PatchOptions{})
	w.must(err)
	w.detach("e", "a")
}

// TestFailed tells pods what the attacher says, and when it says nothing.
func TestFailed(t *testing.T) {
	w := start(t)
	w.control(func(c *attachdetach.Config) { c.AttachWait = time.Millisecond })
	w.claim("c", corev1.ReadWriteOnce)
	w.pod("p", "a", "c")
	w.event("p", "FailedAttachVolume", `AttachVolume.Attach failed for volume "c" : timed out waiting for external-attacher of disk.example.com CSI driver to attach volume handle-c`)
	a := w.attachment("c", "a")
	a.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "no disk"}
	_, err := w.Client.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), a, metav1.UpdateOptions{})
	w.must(err)
	w.event("p", "FailedAttachVolume", `AttachVolume.Attach failed for volume "c" : no disk`)
	w.attach("c", "a")
	w.attached("a", "c")
	if _, err := w.Client.StorageV1().VolumeAttachments().Get(t.Context(), name("c", "b"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("attached to another node, too: %v", err)
	}
}

// TestEphemeral attaches for the claim that was made for a pod's ephemeral volume, and not for one that only has its name.
func TestEphemeral(t *testing.T) {
	w := start(t)
	w.control(nil)
	w.claim("p-v", corev1.ReadWriteOnce)
	w.claim("q-v", corev1.ReadWriteOnce)
	size := corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}
	for _, pod := range []string{"q", "p"} {
		made, err := w.Client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: corev1.PodSpec{
			NodeName:   "a",
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: size,
				}},
			}}}},
		}}, metav1.CreateOptions{})
		w.must(err)
		if pod == "p" {
			claim, err := w.Client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "p-v", metav1.GetOptions{})
			w.must(err)
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(made, corev1.SchemeGroupVersion.WithKind("Pod"))}
			_, err = w.Client.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), claim, metav1.UpdateOptions{})
			w.must(err)
		}
	}
	w.attachment("p-v", "a")
	if _, err := w.Client.StorageV1().VolumeAttachments().Get(t.Context(), name("q-v", "a"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a claim that is not the pod's is attached: %v", err)
	}
}

// TestVolumeGone detaches what is left of a volume that was deleted by force, when its node lets it go.
func TestVolumeGone(t *testing.T) {
	w := start(t)
	w.control(nil)
	w.claim("c", corev1.ReadWriteOnce)
	w.pod("p", "a", "c")
	w.attach("c", "a")
	w.attached("a", "c")
	w.node("a", inUse("c"))
	w.must(w.Client.CoreV1().PersistentVolumes().Delete(t.Context(), "c", metav1.DeleteOptions{}))
	_, err := w.Client.CoreV1().PersistentVolumes().Patch(t.Context(), "c", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	w.stays("c", "a", "one")
	w.node("a", inUse())
	w.detach("c", "a")
	w.attached("a")
}
