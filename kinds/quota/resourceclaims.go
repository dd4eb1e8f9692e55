package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var resourceClaims = Evaluator{
	Resource: schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"},
	measure:  func(obj runtime.Object, _ time.Time) corev1.ResourceList { return devices(obj) },
	owns: func(name corev1.ResourceName) bool {
		return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
	},
	updates: true,
}

// devices is how many devices of each class a claim may be given. Of alternatives one is chosen, so for each class the one that takes
// most of it counts; a request for all devices counts as the most that a claim can be given.
func devices(obj runtime.Object) corev1.ResourceList {
	use := corev1.ResourceList{}
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return use
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		most := map[string]int64{}
		if e := request.Exactly; e != nil {
			most[e.DeviceClassName] = numberOf(e.AllocationMode, e.Count)
		}
		for j := range request.FirstAvailable {
			sub := &request.FirstAvailable[j]
			most[sub.DeviceClassName] = max(most[sub.DeviceClassName], numberOf(sub.AllocationMode, sub.Count))
		}
		for class, n := range most {
			name := corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
			sum := use[name]
			sum.Add(*Number(n))
			use[name] = sum
		}
	}
	return use
}

func numberOf(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	if mode == resourcev1.DeviceAllocationModeAll {
		return resourcev1.AllocationResultsMaxSize
	}
	return count
}
