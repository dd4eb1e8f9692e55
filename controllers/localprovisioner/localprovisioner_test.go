package localprovisioner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/localprovisioner"
	"vigil/controllers/persistentvolume"
	"vigil/informer"
	"vigil/internal/localvolume"
	"vigil/kubelet/localvolumes"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

const class = "local"

// world is an API server with binder and provisioner, a class, and a node whose directory of volumes is dir.
type world struct {
	*controllertest.Env
	t   *testing.T
	dir string
}

func start(t *testing.T) *world {
	t.Helper()
	env := controllertest.Start(t)
	w := &world{env, t, filepath.Join(t.TempDir(), "volumes")}
	nodes := informer.ResourceOf[*corev1.Node]()
	nodes.FieldSelector = "metadata.name=n"
	directory, err := localvolumes.New(localvolumes.Config{
		Dir: w.dir, Client: env.Client, Node: informer.ListerFor[*corev1.Node](env.Informers.Informer(nodes)), Logger: env.Logger,
	})
	w.must(err)
	env.Run(
		persistentvolume.New(persistentvolume.Config{Client: env.Client, Informers: env.Informers, Recorder: env.Recorder, Logger: env.Logger}).Run,
		localprovisioner.New(localprovisioner.Config{Client: env.Client, Informers: env.Informers, Recorder: env.Recorder, Logger: env.Logger}).Run,
		directory.Run,
	)
	for _, name := range []string{"n", "bare"} {
		_, err = env.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: "host-" + name}}}, metav1.CreateOptions{})
		w.must(err)
	}
	w.Eventually(func(ctx context.Context) error {
		node, err := env.Client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		if err != nil || node.Annotations[localvolume.DirAnnotation] != w.dir {
			return fmt.Errorf("the node does not say where its volumes are: %v", err)
		}
		return nil
	})
	_, err = env.Client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: localvolume.Provisioner, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// claim makes a claim for which the scheduler has selected a node.
func (w *world) claim(name, node string, change func(*corev1.PersistentVolumeClaimSpec)) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"volume.kubernetes.io/selected-node": node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(class),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}
	if change != nil {
		change(&claim.Spec)
	}
	made, err := w.Client.CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), claim, metav1.CreateOptions{})
	w.must(err)
	return made
}

// volume waits until a claim has a volume, and returns it.
func (w *world) volume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	w.t.Helper()
	var pv *corev1.PersistentVolume
	w.Eventually(func(ctx context.Context) error {
		c, err := w.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || c.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("claim %s is not bound: %v", claim.Name, err)
		}
		pv, err = w.Client.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return nil
	})
	return pv
}

func (w *world) release(claim *corev1.PersistentVolumeClaim) {
	w.t.Helper()
	claims := w.Client.CoreV1().PersistentVolumeClaims("default")
	w.must(claims.Delete(w.t.Context(), claim.Name, metav1.DeleteOptions{}))
	w.free(func() error {
		_, err := claims.Patch(w.t.Context(), claim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
}

func (w *world) free(patch func() error) {
	w.t.Helper()
	if err := patch(); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// gone waits until a volume is deleted; its protection is that of another controller.
func (w *world) gone(name string) {
	w.t.Helper()
	w.Eventually(func(ctx context.Context) error {
		pv, err := w.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && pv.DeletionTimestamp != nil && len(pv.Finalizers) == 1 && pv.Finalizers[0] == "kubernetes.io/pv-protection" {
			w.free(func() error {
				_, err := w.Client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			})
		}
		return fmt.Errorf("volume %s is there (%v)", name, err)
	})
}

func TestLife(t *testing.T) {
	w := start(t)
	claim := w.claim("c", "n", nil)
	pv := w.volume(claim)
	path := filepath.Join(w.dir, "pvc-"+string(claim.UID))
	if pv.Name != "pvc-"+string(claim.UID) || pv.Spec.Local == nil || pv.Spec.Local.Path != path || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "host-n" || pv.Annotations["pv.kubernetes.io/provisioned-by"] != "vigil.dev/local" {
		t.Errorf("the volume is %+v", pv)
	}
	w.Eventually(func(ctx context.Context) error {
		return w.HasEvent(ctx, "c", "ProvisioningSucceeded", "Successfully provisioned volume "+pv.Name)
	})
	// What the node makes when a pod first mounts the volume, with a way out of it.
	precious := filepath.Join(t.TempDir(), "precious")
	w.must(os.WriteFile(precious, nil, 0o600))
	w.must(os.MkdirAll(filepath.Join(path, "deep", "er"), 0o755))
	w.must(os.Symlink(filepath.Dir(precious), filepath.Join(path, "out")))
	other := filepath.Join(w.dir, "pvc-00000000-0000-4000-8000-000000000000")
	w.must(os.Mkdir(other, 0o755))

	w.release(claim)
	w.gone(pv.Name)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the directory is there after its volume: %v", err)
	}
	for _, kept := range []string{precious, other} {
		if _, err := os.Lstat(kept); err != nil {
			t.Error(err)
		}
	}
	w.Eventually(func(ctx context.Context) error {
		node, err := w.Client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		if err != nil || node.Annotations[localvolume.RemoveAnnotation] != "" || node.Annotations[localvolume.RemovedAnnotation] != "" {
			return fmt.Errorf("the node still speaks of the volume: %v %v", node.Annotations, err)
		}
		return nil
	})
}

// TestRetained keeps the directory of a volume whose policy was changed, also when somebody deletes the volume.
func TestRetained(t *testing.T) {
	w := start(t)
	claim := w.claim("c", "n", nil)
	pv := w.volume(claim)
	path := filepath.Join(w.dir, pv.Name)
	w.must(os.Mkdir(path, 0o755))
	volumes := w.Client.CoreV1().PersistentVolumes()
	_, err := volumes.Patch(t.Context(), pv.Name, types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), metav1.PatchOptions{})
	w.must(err)
	w.release(claim)
	w.Eventually(func(ctx context.Context) error {
		if pv, err = volumes.Get(ctx, pv.Name, metav1.GetOptions{}); err != nil || pv.Status.Phase != corev1.VolumeReleased {
			return fmt.Errorf("phase %v, %v", pv.Status.Phase, err)
		}
		return nil
	})
	w.must(volumes.Delete(t.Context(), pv.Name, metav1.DeleteOptions{}))
	w.gone(pv.Name)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("what was to be retained: %v", err)
	}
}

// TestNodeGone lets volumes go whose node will never say that it has removed them.
func TestNodeGone(t *testing.T) {
	w := start(t)
	claim := w.claim("c", "n", nil)
	pv := w.volume(claim)
	w.must(w.Client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}))
	w.release(claim)
	w.gone(pv.Name)
}

func TestRefused(t *testing.T) {
	w := start(t)
	refused := func(name, why string) {
		t.Helper()
		w.Eventually(func(ctx context.Context) error {
			return w.HasEvent(ctx, name, "ProvisioningFailed", `failed to provision volume with StorageClass "local": `+why)
		})
	}
	w.claim("shared", "n", func(s *corev1.PersistentVolumeClaimSpec) {
		s.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	refused("shared", "only the access modes ReadWriteOnce and ReadWriteOncePod are supported")
	w.claim("device", "n", func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = new(corev1.PersistentVolumeBlock) })
	refused("device", "volumeMode Block is not supported")
	w.claim("choosy", "n", func(s *corev1.PersistentVolumeClaimSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	})
	refused("choosy", "claim Selector is not supported")
	w.claim("copied", "n", func(s *corev1.PersistentVolumeClaimSpec) {
		s.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
	})
	refused("copied", "data sources are not supported")
	w.claim("fast", "n", func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeAttributesClassName = new("gold") })
	refused("fast", "volume attributes classes are not supported")
	w.claim("elsewhere", "bare", nil)
	refused("elsewhere", `node "bare" has no local volumes`)
	w.Eventually(func(ctx context.Context) error {
		claim, err := w.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "elsewhere", metav1.GetOptions{})
		if err != nil || claim.Annotations["volume.kubernetes.io/selected-node"] != "" {
			return fmt.Errorf("the scheduler cannot select another node: %v", err)
		}
		return nil
	})
}
