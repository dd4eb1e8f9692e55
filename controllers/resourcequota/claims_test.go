package resourcequota_test

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestQuota_ResourceClaims: claims on devices count, by number and by the devices of each class; what has gone counts no longer.
func TestQuota_ResourceClaims(t *testing.T) {
	env := start(t)
	const number, gpus, nics = "count/resourceclaims.resource.k8s.io", "gpu.deviceclass.resource.k8s.io/devices", "nic.deviceclass.resource.k8s.io/devices"
	claims := env.Client.ResourceV1().ResourceClaims("default")
	create := func(name, class string, count int64) error {
		_, err := claims.Create(t.Context(), &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
			}}}},
		}, metav1.CreateOptions{})
		return err
	}
	if err := create("before", "gpu", 2); err != nil {
		t.Fatal(err)
	}
	limit(env, "q", map[string]string{number: "3", gpus: "4", nics: "1"})
	shows(env, "q", map[string]string{number: "1", gpus: "2", nics: "0"})
	err := create("large", "gpu", 3)
	if want := "exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=3, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=4"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("three devices more: %v, want %s", err, want)
	}
	for _, name := range []string{"a", "b"} {
		if err := create(name, "gpu", 1); err != nil {
			t.Fatal(err)
		}
	}
	shows(env, "q", map[string]string{number: "3", gpus: "4"})
	if err := create("c", "other", 1); !apierrors.IsForbidden(err) {
		t.Errorf("a fourth claim: %v, want forbidden", err)
	}
	if err := claims.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shows(env, "q", map[string]string{number: "2", gpus: "2", nics: "0"})
	if err := create("nic", "nic", 1); err != nil {
		t.Fatal(err)
	}
	shows(env, "q", map[string]string{number: "3", gpus: "2", nics: "1"})
}
