package storageprotection_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/storageprotection"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

func TestClaim(t *testing.T) {
	env := controllertest.Start(t)
	env.Run(storageprotection.New(storageprotection.Config{
		Claims: env.Client, Volumes: env.Client, Classes: env.Client, Informers: env.Informers, Logger: env.Logger,
	}).Run)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claims, pods := env.Client.CoreV1().PersistentVolumeClaims("default"), env.Client.CoreV1().Pods("default")
	class := "fast"
	made, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes:               []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		VolumeAttributesClassName: &class,
		Resources:                 corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}, metav1.CreateOptions{})
	must(err)
	if len(made.Finalizers) != 1 || made.Finalizers[0] != "kubernetes.io/pvc-protection" {
		t.Errorf("finalizers %v", made.Finalizers)
	}
	_, err = env.Client.StorageV1().VolumeAttributesClasses().Create(ctx, &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: class}, DriverName: "d", Parameters: map[string]string{"iops": "1"}}, metav1.CreateOptions{})
	must(err)
	none := int64(0)
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeName: "n", TerminationGracePeriodSeconds: &none,
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
	}}, metav1.CreateOptions{})
	must(err)
	must(claims.Delete(ctx, "c", metav1.DeleteOptions{}))
	must(env.Client.StorageV1().VolumeAttributesClasses().Delete(ctx, class, metav1.DeleteOptions{}))

	// A claim that nobody uses goes at once; by then the one in use has been looked at, too.
	_, err = claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: made.Spec}, metav1.CreateOptions{})
	must(err)
	must(claims.Delete(ctx, "d", metav1.DeleteOptions{}))
	gone := func(name string, get func(ctx context.Context) error) {
		t.Helper()
		env.Eventually(func(ctx context.Context) error {
			if err := get(ctx); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is there: %v", name, err)
			}
			return nil
		})
	}
	claim := func(name string) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := claims.Get(ctx, name, metav1.GetOptions{}); return err }
	}
	gone("d", claim("d"))
	must(claim("c")(ctx))
	must(pods.Delete(ctx, "p", metav1.DeleteOptions{}))
	gone("c", claim("c"))
	gone("the class", func(ctx context.Context) error {
		_, err := env.Client.StorageV1().VolumeAttributesClasses().Get(ctx, class, metav1.GetOptions{})
		return err
	})
}

func TestVolume(t *testing.T) {
	env := controllertest.Start(t)
	env.Run(storageprotection.New(storageprotection.Config{
		Claims: env.Client, Volumes: env.Client, Classes: env.Client, Informers: env.Informers, Logger: env.Logger,
	}).Run)
	volumes := env.Client.CoreV1().PersistentVolumes()
	v, err := volumes.Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{"storage": resource.MustParse("1Gi")},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}, metav1.CreateOptions{})
	if err != nil || len(v.Finalizers) != 1 {
		t.Fatalf("finalizers %v, error %v", v.Finalizers, err)
	}
	if err := volumes.Delete(t.Context(), "v", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(func(ctx context.Context) error {
		if _, err := volumes.Get(ctx, "v", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}
