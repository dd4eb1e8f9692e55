package resource

import (
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// ResourceSlice is the row of what drivers publish: slices of pools of devices.
func ResourceSlice() *kinds.Kind {
	doc := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:      resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"),
		Resource: "resourceslices",
		Singular: "resourceslice",
		Path:     "resourceslices",
		Type: &object.Type{
			APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice",
			New: func() runtime.Object { return &resourcev1.ResourceSlice{} },
			Fields: []object.Field{
				{Label: resourcev1.ResourceSliceSelectorNodeName, Proto: []int32{2, 3}},
				{Label: resourcev1.ResourceSliceSelectorDriver, Proto: []int32{2, 1}},
				{Label: resourcev1.ResourceSliceSelectorPoolName, Proto: []int32{2, 2, 1}},
			},
		},
		UnknownField:     "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: %s",
		NoNamespaceField: true,
		Indexes:          []string{resourcev1.ResourceSliceSelectorNodeName},
		New:              func() kinds.Object { return &resourcev1.ResourceSlice{} },
		NewList:          func() runtime.Object { return &resourcev1.ResourceSliceList{} },

		PrepareCreate: func(obj kinds.Object) { prepareSlice(&obj.(*resourcev1.ResourceSlice).Spec, nil) },
		PrepareUpdate: func(obj, old kinds.Object) {
			prepareSlice(&obj.(*resourcev1.ResourceSlice).Spec, &old.(*resourcev1.ResourceSlice).Spec)
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateSlice(&obj.(*resourcev1.ResourceSlice).Spec, nil, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateSlice(&obj.(*resourcev1.ResourceSlice).Spec, &old.(*resourcev1.ResourceSlice).Spec, field.NewPath("spec"))
		},
		Warnings: func(obj, _ kinds.Object) []string {
			if driver := obj.(*resourcev1.ResourceSlice).Spec.Driver; driver != strings.ToLower(driver) {
				return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)}
			}
			return nil
		},
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Node", doc["nodeName"]),
			column.Text("Driver", doc["driver"]),
			column.Text("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			slice := obj.(*resourcev1.ResourceSlice)
			node := column.Unset
			if slice.Spec.NodeName != nil {
				node = *slice.Spec.NodeName
			}
			return []any{slice.Name, node, slice.Spec.Driver, slice.Spec.Pool.Name, column.Since(slice.CreationTimestamp, now)}
		},
	}
}

// prepareSlice notes when taints were added, and drops what belongs to features that are off unless old has it.
func prepareSlice(spec, old *resourcev1.ResourceSliceSpec) {
	for i := range spec.Devices {
		for j := range spec.Devices[i].Taints {
			addTime(&spec.Devices[i].Taints[j])
		}
	}
	if old == nil {
		old = &resourcev1.ResourceSliceSpec{}
	}
	if old.PartitionTypeAttribute == nil {
		spec.PartitionTypeAttribute = nil
	}
	if len(old.SkipNodeOperations) == 0 {
		spec.SkipNodeOperations = nil
	}
	var lists, allocatable, groups bool
	for i := range old.Devices {
		d := &old.Devices[i]
		lists, allocatable, groups = lists || hasLists(d), allocatable || len(d.NodeAllocatableResources) > 0, groups || hasGroups(d)
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		if !lists {
			dropLists(d)
		}
		if !allocatable {
			d.NodeAllocatableResources = nil
		}
		if !groups {
			for j := range d.ConsumesCounters {
				d.ConsumesCounters[j].CompatibilityGroups = nil
			}
		}
	}
}

func hasLists(d *resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}

func dropLists(d *resourcev1.Device) {
	for name, a := range d.Attributes {
		a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
		d.Attributes[name] = a
	}
}

func hasGroups(d *resourcev1.Device) bool {
	for _, c := range d.ConsumesCounters {
		if len(c.CompatibilityGroups) > 0 {
			return true
		}
	}
	return false
}
