package persistentvolume_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/persistentvolume"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// world is an API server with a binder.
type world struct {
	*controllertest.Env
	t *testing.T
}

func start(t *testing.T) world {
	t.Helper()
	env := controllertest.Start(t)
	env.Run(persistentvolume.New(persistentvolume.Config{
		Client: env.Client, Informers: env.Informers, Recorder: env.Recorder, Logger: env.Logger,
	}).Run)
	return world{env, t}
}

func (w world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w world) class(name, provisioner string, mode storagev1.VolumeBindingMode, annotations map[string]string) {
	w.t.Helper()
	_, err := w.Client.StorageV1().StorageClasses().Create(w.t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Provisioner: provisioner, VolumeBindingMode: &mode,
	}, metav1.CreateOptions{})
	w.must(err)
}

func (w world) volume(name, size, class string, change func(*corev1.PersistentVolume)) {
	w.t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{"storage": resource.MustParse(size)},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
	if change != nil {
		change(pv)
	}
	_, err := w.Client.CoreV1().PersistentVolumes().Create(w.t.Context(), pv, metav1.CreateOptions{})
	w.must(err)
}

func (w world) claim(name, size string, class *string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
	}}
	if change != nil {
		change(claim)
	}
	made, err := w.Client.CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), claim, metav1.CreateOptions{})
	w.must(err)
	return made
}

// claimIs waits until a claim has a phase and a volume.
func (w world) claimIs(name string, phase corev1.PersistentVolumeClaimPhase, volume string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	var claim *corev1.PersistentVolumeClaim
	w.Eventually(func(ctx context.Context) error {
		var err error
		if claim, err = w.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if claim.Status.Phase != phase || claim.Spec.VolumeName != volume {
			return fmt.Errorf("claim %s is %s with volume %q, want %s with %q", name, claim.Status.Phase, claim.Spec.VolumeName, phase, volume)
		}
		return nil
	})
	return claim
}

func (w world) volumeIs(name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	w.t.Helper()
	var pv *corev1.PersistentVolume
	w.Eventually(func(ctx context.Context) error {
		var err error
		if pv, err = w.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pv.Status.Phase != phase {
			return fmt.Errorf("volume %s is %s, want %s", name, pv.Status.Phase, phase)
		}
		return nil
	})
	return pv
}

func (w world) event(name, reason, text string) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error { return w.HasEvent(ctx, name, reason, text) })
}

func (w world) deleteClaim(name string) {
	w.t.Helper()
	claims := w.Client.CoreV1().PersistentVolumeClaims("default")
	w.must(claims.Delete(w.t.Context(), name, metav1.DeleteOptions{}))
	_, err := claims.Patch(w.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
}

func TestMatch(t *testing.T) {
	w := start(t)
	many := func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.ReadWriteMany)
	}
	w.volume("small", "1Gi", "", nil)
	w.volume("shared", "5Gi", "", many)
	w.volume("medium", "6Gi", "", nil)
	w.volume("large", "9Gi", "", nil)
	w.volume("other-class", "5Gi", "gold", nil)
	w.volume("labelled", "20Gi", "", func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{"disk": "fast"} })
	w.volume("block", "5Gi", "", func(pv *corev1.PersistentVolume) {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}
	})
	w.volume("reserved", "50Gi", "", func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "prebound"}
	})
	for _, name := range []string{"small", "shared", "medium", "large", "other-class", "labelled", "block", "reserved"} {
		w.volumeIs(name, corev1.VolumeAvailable)
	}
	none := ""
	w.claim("prebound", "2Gi", &none, nil)
	w.claim("fast", "2Gi", &none, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	})
	w.claim("raw", "2Gi", &none, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })
	w.claimIs("prebound", corev1.ClaimBound, "reserved")
	w.claimIs("fast", corev1.ClaimBound, "labelled")
	w.claimIs("raw", corev1.ClaimBound, "block")

	w.claim("a", "5Gi", &none, nil)
	claim := w.claimIs("a", corev1.ClaimBound, "medium") // fewest access modes first, then the smallest
	if q := claim.Status.Capacity["storage"]; q.String() != "6Gi" || claim.Annotations["pv.kubernetes.io/bind-completed"] != "yes" ||
		claim.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes" || len(claim.Status.AccessModes) != 1 {
		t.Errorf("a bound claim: %+v %+v", claim.Annotations, claim.Status)
	}
	if pv := w.volumeIs("medium", corev1.VolumeBound); pv.Spec.ClaimRef.UID != claim.UID || pv.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes" {
		t.Errorf("a bound volume: %+v %+v", pv.Annotations, pv.Spec.ClaimRef)
	}
	w.claim("named", "5Gi", &none, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "shared" })
	claim = w.claimIs("named", corev1.ClaimBound, "shared")
	if _, ok := claim.Annotations["pv.kubernetes.io/bound-by-controller"]; ok {
		t.Error("a claim that a person has pointed at its volume says it was the controller")
	}
	w.claim("greedy", "5Gi", &none, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "small" })
	w.claimIs("greedy", corev1.ClaimPending, "small")
	w.event("greedy", "VolumeMismatch", `Cannot bind to requested volume "small": requested PV is too small`)

	w.claim("late", "30Gi", &none, nil)
	w.claimIs("late", corev1.ClaimPending, "")
	w.event("late", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	w.volume("huge", "99Gi", "", nil)
	w.claimIs("late", corev1.ClaimBound, "huge")
}

// TestReclaim follows volumes whose claim goes, and a claim whose volume goes.
func TestReclaim(t *testing.T) {
	w := start(t)
	none := ""
	w.volume("kept", "1Gi", "", nil)
	w.claim("a", "1Gi", &none, nil)
	w.claimIs("a", corev1.ClaimBound, "kept")
	w.deleteClaim("a")
	w.volumeIs("kept", corev1.VolumeReleased)
	w.claim("a", "1Gi", &none, nil) // of the same name: it is not the one that the volume was reserved for
	w.claimIs("a", corev1.ClaimPending, "")
	_, err := w.Client.CoreV1().PersistentVolumes().Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`), metav1.PatchOptions{})
	w.must(err)
	w.claimIs("a", corev1.ClaimBound, "kept")

	w.must(w.Client.CoreV1().PersistentVolumes().Delete(t.Context(), "kept", metav1.DeleteOptions{}))
	_, err = w.Client.CoreV1().PersistentVolumes().Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
	w.claimIs("a", corev1.ClaimLost, "kept")
	w.event("a", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")

	w.volume("unknown", "2Gi", "", func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	})
	w.claim("b", "2Gi", &none, nil)
	w.claimIs("b", corev1.ClaimBound, "unknown")
	w.deleteClaim("b")
	if pv := w.volumeIs("unknown", corev1.VolumeFailed); pv.Status.Message == "" {
		t.Error("a volume that nobody can delete does not say so")
	}
	w.event("unknown", "VolumeFailedDelete", "no deletable volume plugin matched")

	w.volume("made", "3Gi", "", func(pv *corev1.PersistentVolume) {
		pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/p"}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	})
	w.claim("c", "3Gi", &none, nil)
	w.claimIs("c", corev1.ClaimBound, "made")
	w.deleteClaim("c")
	w.volumeIs("made", corev1.VolumeReleased) // whoever made it deletes it
}

func TestClasses(t *testing.T) {
	w := start(t)
	w.class("eager", "example.com/p", storagev1.VolumeBindingImmediate, nil)
	w.class("patient", "example.com/p", storagev1.VolumeBindingWaitForFirstConsumer, nil)
	w.class("manual", "kubernetes.io/no-provisioner", storagev1.VolumeBindingImmediate, nil)
	const provisioner = "volume.kubernetes.io/storage-provisioner"
	eager, patient, manual, absent := "eager", "patient", "manual", "absent"

	w.claim("a", "1Gi", &eager, nil)
	w.event("a", "ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner 'example.com/p' or manually by the system administrator.")
	claim := w.claimIs("a", corev1.ClaimPending, "")
	if claim.Annotations[provisioner] != "example.com/p" || claim.Annotations["volume.beta.kubernetes.io/storage-provisioner"] != "example.com/p" {
		t.Errorf("annotations for the provisioner: %v", claim.Annotations)
	}
	w.volume("pvc-a", "1Gi", "eager", func(pv *corev1.PersistentVolume) { // what a provisioner would make
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "a", UID: claim.UID}
	})
	w.claimIs("a", corev1.ClaimBound, "pvc-a")

	w.volume("tempting", "1Gi", "patient", nil)
	w.volumeIs("tempting", corev1.VolumeAvailable)
	claim = w.claim("b", "1Gi", &patient, nil)
	w.event("b", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	if claim = w.claimIs("b", corev1.ClaimPending, ""); claim.Annotations[provisioner] != "" {
		t.Error("a claim that waits for a pod is provisioned")
	}
	_, err := w.Client.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), "b", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"n"}}}`), metav1.PatchOptions{})
	w.must(err)
	w.event("b", "ExternalProvisioning", "example.com/p")

	w.claim("c", "1Gi", &manual, nil)
	w.event("c", "ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner")
	w.claim("d", "1Gi", &absent, nil)
	w.event("d", "ProvisioningFailed", `storageclass.storage.k8s.io "absent" not found`)
	w.class("absent", "example.com/q", storagev1.VolumeBindingImmediate, nil)
	w.event("d", "ExternalProvisioning", "example.com/q")

	w.claim("e", "1Gi", nil, nil)
	w.event("e", "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	w.class("standard", "example.com/s", storagev1.VolumeBindingImmediate, map[string]string{"storageclass.kubernetes.io/is-default-class": "true"})
	w.event("e", "ExternalProvisioning", "example.com/s")
}
