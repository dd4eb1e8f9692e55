package resource

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// ResourceClaim is the row of claims for devices.
func ResourceClaim() *kinds.Kind {
	return &kinds.Kind{
		GVK:        resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"),
		Resource:   "resourceclaims",
		Singular:   "resourceclaim",
		Namespaced: true,
		Path:       "resourceclaims",
		Type: &object.Type{
			APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim", Namespaced: true,
			New: func() runtime.Object { return &resourcev1.ResourceClaim{} },
		},
		New:     func() kinds.Object { return &resourcev1.ResourceClaim{} },
		NewList: func() runtime.Object { return &resourcev1.ResourceClaimList{} },

		Default: func(obj kinds.Object) {
			claim := obj.(*resourcev1.ResourceClaim)
			defaultClaim(&claim.Spec)
			if a := claim.Status.Allocation; a != nil {
				for i := range a.Devices.Results {
					defaultTolerations(a.Devices.Results[i].Tolerations)
				}
			}
		},
		PrepareCreate: func(obj kinds.Object) {
			claim := obj.(*resourcev1.ResourceClaim)
			claim.Status = resourcev1.ResourceClaimStatus{}
			dropDerived(&claim.Spec, nil)
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			claim, was := obj.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim)
			claim.Status = *was.Status.DeepCopy()
			dropDerived(&claim.Spec, &was.Spec)
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateClaim(&obj.(*resourcev1.ResourceClaim).Spec, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validate.Immutable(obj.(*resourcev1.ResourceClaim).Spec, old.(*resourcev1.ResourceClaim).Spec, field.NewPath("spec"))
		},
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			claim := obj.(*resourcev1.ResourceClaim)
			return []any{claim.Name, stateCell(claim), column.Since(claim.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				claim, was := obj.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim)
				claim.Spec = *was.Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(obj, old)
				dropDeallocated(&claim.Status, &was.Status)
				dropSkipped(&claim.Status, &was.Status)
			},
			Validate: func(obj, old kinds.Object) field.ErrorList {
				return validateClaimStatus(obj.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim), field.NewPath("status"))
			},
		}},
	}
}

func defaultClaim(spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			defaultAllocation(&e.AllocationMode, &e.Count)
			defaultTolerations(e.Tolerations)
		}
		for i := range r.FirstAvailable {
			sub := &r.FirstAvailable[i]
			defaultAllocation(&sub.AllocationMode, &sub.Count)
			defaultTolerations(sub.Tolerations)
		}
	}
}

func defaultAllocation(mode *resourcev1.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourcev1.DeviceAllocationModeExactCount
	}
	if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		if list[i].Operator == "" {
			list[i].Operator = resourcev1.DeviceTolerationOpEqual
		}
	}
}

// dropDerived removes derived attributes from a claim that had none.
func dropDerived(spec, old *resourcev1.ResourceClaimSpec) {
	if old != nil && hasDerived(old) {
		return
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for i := range r.FirstAvailable {
			r.FirstAvailable[i].DerivedAttributes = nil
		}
	}
}

func hasDerived(spec *resourcev1.ResourceClaimSpec) bool {
	for _, r := range spec.Devices.Requests {
		if r.Exactly != nil && len(r.Exactly.DerivedAttributes) > 0 {
			return true
		}
		for i := range r.FirstAvailable {
			if len(r.FirstAvailable[i].DerivedAttributes) > 0 {
				return true
			}
		}
	}
	return false
}

// dropDeallocated removes what drivers said of devices that the claim has no more.
func dropDeallocated(status, old *resourcev1.ResourceClaimStatus) {
	gone := map[deviceID]bool{}
	for id := range allocated(old) {
		gone[id.withoutShare()] = true
	}
	for id := range allocated(status) {
		delete(gone, id.withoutShare())
	}
	var left []resourcev1.AllocatedDeviceStatus
	for _, d := range status.Devices {
		if !gone[deviceID{driver: d.Driver, pool: d.Pool, device: d.Device}] {
			left = append(left, d)
		}
	}
	status.Devices = left
}

// dropSkipped removes skipped node operations from an allocation that had none.
func dropSkipped(status, old *resourcev1.ResourceClaimStatus) {
	if status.Allocation == nil {
		return
	}
	if old.Allocation != nil {
		for i := range old.Allocation.Devices.Results {
			if len(old.Allocation.Devices.Results[i].SkipNodeOperations) > 0 {
				return
			}
		}
	}
	for i := range status.Allocation.Devices.Results {
		status.Allocation.Devices.Results[i].SkipNodeOperations = nil
	}
}

func stateCell(claim *resourcev1.ResourceClaim) string {
	var states []string
	deleted := !claim.DeletionTimestamp.IsZero()
	if deleted {
		states = append(states, "deleted")
	}
	switch {
	case claim.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(claim.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case !deleted:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}
