package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/informer"
	"vigil/internal/eventually"
	"vigil/scheduler/volumes"
)

// world is an API server with the class "disks", whose volumes are made by hand, and a binder that follows it.
type world struct {
	*testing.T
	client *kubernetes.Clientset
	binder *volumes.Binder
}

const fast = "disks"

func newWorld(t *testing.T) world {
	t.Helper()
	server := apiservertest.Start(t)
	factory, err := informer.NewFactory(server.Admin(), informer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := world{t, server.Clientset(), volumes.New(server.Clientset(), factory, func() {})}
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Logf("namespace: %v", err) // it may be there
	}
	for name, provisioner := range map[string]string{fast: "kubernetes.io/no-provisioner", "made": "example.com/p"} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
		if _, err := w.client.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- factory.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if err := factory.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w world) claim(name, class, size string) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim, err := w.client.CoreV1().PersistentVolumeClaims("default").Create(w.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return claim
}

func (w world) volume(name, size string) {
	w.Helper()
	pv, err := w.client.CoreV1().PersistentVolumes().Create(w.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: fast, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{"storage": resource.MustParse(size)},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	pv.Status.Phase = corev1.VolumeAvailable // there is no controller that says so
	if _, err := w.client.CoreV1().PersistentVolumes().UpdateStatus(w.Context(), pv, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func pod(claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for _, name := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	return p
}

func nobody(types.NamespacedName) int { return 0 }

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// fits waits until a plan for the claims says so of a node, and returns the plan.
func (w world) fits(on *corev1.Node, want []string, claims ...string) *volumes.Plan {
	w.Helper()
	var plan *volumes.Plan
	eventually.Nil(w, fmt.Sprintf("a plan says %q of %v on %s", want, claims, on.Name), func() (err error) {
		if plan, err = w.binder.Plan(pod(claims...), nobody, volumes.AllRules()); err != nil {
			return err
		}
		if got := plan.Fits(on); !slices.Equal(got, want) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	return plan
}

var noVolume = []string{"node(s) didn't find available persistent volumes to bind"}

// What one plan has assumed no other gets, until it is released.
func TestPlan_AssumedIsTaken(t *testing.T) {
	w := newWorld(t)
	w.claim("one", fast, "1Gi")
	w.claim("two", fast, "1Gi")
	w.fits(node("a"), noVolume, "one")
	w.volume("v", "1Gi")
	first := w.fits(node("a"), nil, "one")
	w.fits(node("a"), nil, "two") // as long as nobody has it
	if first.Assume(node("a")); !first.Binds() {
		t.Fatal("there is nothing to bind")
	}
	w.fits(node("a"), noVolume, "two")
	w.fits(node("a"), nil, "one") // its own claim still does
	first.Release()
	w.fits(node("a"), nil, "two")
}

// The claims of a pod choose in the order of their sizes, and no volume is chosen twice: the small one takes the smallest volume that both fit into,
// though the pod names the large one first.
func TestPlan_ClaimsOfOnePod(t *testing.T) {
	w := newWorld(t)
	claims := map[string]*corev1.PersistentVolumeClaim{"v10": w.claim("small", fast, "1Gi"), "v20": w.claim("large", fast, "5Gi")}
	w.volume("v10", "10Gi")
	w.fits(node("a"), nil, "large")
	w.fits(node("a"), nil, "small")
	w.fits(node("a"), noVolume, "large", "small")
	w.volume("v20", "20Gi")
	plan := w.fits(node("a"), nil, "large", "small")
	plan.Assume(node("a"))
	if err := plan.Bind(t.Context(), func() bool { return false }); err == nil { // the volumes are reserved, and nobody waits for the claims
		t.Fatal("the claims are bound without a controller")
	}
	for name, claim := range claims {
		pv, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
			t.Errorf("%s is reserved for %+v, %v; want %s", name, pv.Spec.ClaimRef, err, claim.Name)
		}
	}
}

// A claim that is to be provisioned for one node is for no other, whoever asks, until all who have assumed that have given it back.
func TestPlan_SelectedNode(t *testing.T) {
	w := newWorld(t)
	w.claim("one", "made", "1Gi")
	first, second := w.fits(node("a"), nil, "one"), w.fits(node("a"), nil, "one")
	w.fits(node("b"), nil, "one")
	first.Assume(node("a"))
	second.Assume(node("a"))
	w.fits(node("b"), noVolume, "one")
	first.Release()
	w.fits(node("b"), noVolume, "one")
	second.Release()
	w.fits(node("b"), nil, "one")
}

// Bind reserves the volume and waits for the claim; it ends when the pod is gone, and when its time is up.
func TestPlan_Bind(t *testing.T) {
	w := newWorld(t)
	claim := w.claim("one", fast, "1Gi")
	w.volume("v", "1Gi")
	w.fits(node("a"), nil, "one")
	plan := w.fits(node("a"), nil, "one")
	plan.Assume(node("a"))
	err := plan.Bind(t.Context(), func() bool { return false })
	if err == nil || err.Error() != "binding volumes: the pod is no longer there" {
		t.Errorf("the pod is gone: %v", err)
	}
	pv, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		t.Errorf("the volume is reserved for %+v, %v", pv.Spec.ClaimRef, err)
	}
	plan.Release()

	w.claim("two", "made", "1Gi")
	w.fits(node("a"), nil, "two")
	rules := volumes.AllRules()
	rules.BindTimeout = 0
	hasty, err := w.binder.Plan(pod("two"), nobody, rules)
	if err != nil {
		t.Fatal(err)
	}
	hasty.Assume(node("a"))
	if err := hasty.Bind(t.Context(), func() bool { return true }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody provisions: %v", err)
	}
	two, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "two", metav1.GetOptions{})
	if err != nil || two.Annotations["volume.kubernetes.io/selected-node"] != "a" {
		t.Errorf("the provisioner is told %v, %v", two.Annotations, err)
	}
}
