package ephemeral_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/ephemeral"
	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

func TestClaimsOfPods(t *testing.T) {
	env := controllertest.Start(t)
	env.Run(ephemeral.New(ephemeral.Config{Client: env.Client, Informers: env.Informers, Recorder: env.Recorder, Logger: env.Logger}).Run)
	claims := env.Client.CoreV1().PersistentVolumeClaims("default")
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}
	if _, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "q-v"}, Spec: spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"p", "q"} {
		pod, err := env.Client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: spec},
			}}}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods[name] = pod
	}
	env.Eventually(func(ctx context.Context) error {
		return env.HasEvent(ctx, "q", "FailedBinding", "ephemeral volume: PVC default/q-v was not created for pod default/q (pod is not owner)")
	})
	made := func() (uid types.UID) {
		env.Eventually(func(ctx context.Context) error {
			claim, err := claims.Get(ctx, "p-v", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !metav1.IsControlledBy(claim, pods["p"]) || claim.Labels["a"] != "b" || claim.DeletionTimestamp != nil {
				return fmt.Errorf("the claim: %+v", claim.ObjectMeta)
			}
			uid = claim.UID
			return nil
		})
		return uid
	}
	first := made()
	if err := claims.Delete(t.Context(), "p-v", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Patch(t.Context(), "p-v", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := made(); second == first {
		t.Error("the claim that was deleted is there")
	}
}
