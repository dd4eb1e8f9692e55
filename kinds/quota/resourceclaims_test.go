package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

func TestUsage_ResourceClaims(t *testing.T) {
	exactly := func(class string, mode resourcev1.DeviceAllocationMode, count int64) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: count}}
	}
	one := func(class string, mode resourcev1.DeviceAllocationMode, count int64) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{Name: "s", DeviceClassName: class, AllocationMode: mode, Count: count}
	}
	const some, all = resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll
	gpu, nic := "gpu.deviceclass.resource.k8s.io/devices", "nic.deviceclass.resource.k8s.io/devices"
	for name, c := range map[string]struct {
		requests []resourcev1.DeviceRequest
		want     corev1.ResourceList
	}{
		"none":      {nil, amounts("count/resourceclaims.resource.k8s.io", "1")},
		"exact":     {[]resourcev1.DeviceRequest{exactly("gpu", some, 3)}, amounts("count/resourceclaims.resource.k8s.io", "1", gpu, "3")},
		"all":       {[]resourcev1.DeviceRequest{exactly("gpu", all, 0)}, amounts("count/resourceclaims.resource.k8s.io", "1", gpu, "32")},
		"they add":  {[]resourcev1.DeviceRequest{exactly("gpu", some, 3), exactly("nic", some, 1), exactly("gpu", some, 1)}, amounts("count/resourceclaims.resource.k8s.io", "1", gpu, "4", nic, "1")},
		"the worst": {[]resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{one("gpu", some, 2), one("gpu", some, 5), one("nic", some, 1)}}, exactly("gpu", some, 1)}, amounts("count/resourceclaims.resource.k8s.io", "1", gpu, "6", nic, "1")},
	} {
		e := For(resourceClaims.Resource)
		claim := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: c.requests}}}
		if got := e.Usage(claim, time.Now()); !Equal(got, c.want) {
			t.Errorf("%s: got  %s\nwant %s", name, Text(got), Text(c.want))
		}
	}
}
