package storage

import (
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
	"vigil/object"
)

const maxNodeIDBytes = 192

// CSINode is the row of CSI nodes: which CSI drivers a node has.
func CSINode() *kinds.Kind {
	return &kinds.Kind{
		GVK:      storagev1.SchemeGroupVersion.WithKind("CSINode"),
		Resource: "csinodes",
		Singular: "csinode",
		Path:     "csinodes",
		Type: &object.Type{
			APIVersion: "storage.k8s.io/v1", Kind: "CSINode",
			New: func() runtime.Object { return &storagev1.CSINode{} },
		},
		New:     func() kinds.Object { return &storagev1.CSINode{} },
		NewList: func() runtime.Object { return &storagev1.CSINodeList{} },

		// The status belongs to a feature that is off by default (CSIVolumeHealth).
		PrepareCreate: func(obj kinds.Object) { obj.(*storagev1.CSINode).Status = storagev1.CSINodeStatus{} },
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*storagev1.CSINode).Status = *old.(*storagev1.CSINode).Status.DeepCopy()
		},
		Validate: func(obj kinds.Object) field.ErrorList { return validateCSINode(obj.(*storagev1.CSINode), nil) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateCSINodeUpdate(obj.(*storagev1.CSINode), old.(*storagev1.CSINode))
		},
		ReturnsDeleted: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			node := obj.(*storagev1.CSINode)
			return []any{node.Name, int64(len(node.Spec.Drivers)), column.Since(node.CreationTimestamp, now)}
		},
	}
}

// validateCSINode checks the drivers. An id that the stored node has already may be longer than it should.
func validateCSINode(node, old *storagev1.CSINode) field.ErrorList {
	longIDs := sets.New[string]()
	if old != nil {
		for _, d := range old.Spec.Drivers {
			longIDs.Insert(d.NodeID)
		}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range node.Spec.Drivers {
		d, at := &node.Spec.Drivers[i], field.NewPath("spec", "drivers").Index(i)
		errs = append(errs, podspec.CSIDriverName(d.Name, at.Child("name"))...)
		switch {
		case d.NodeID == "":
			errs = append(errs, field.Required(at.Child("nodeID"), ""))
		case len(d.NodeID) > maxNodeIDBytes && !longIDs.Has(d.NodeID):
			errs = append(errs, field.Invalid(at.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeIDBytes)))
		}
		if d.Allocatable != nil {
			errs = append(errs, validate.NonNegativePtr(d.Allocatable.Count, at.Child("allocatable", "count"))...)
		}
		if seen.Has(d.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		seen.Insert(d.Name)
		errs = append(errs, validateTopologyKeys(d.TopologyKeys, at)...)
	}
	return errs
}

// validateTopologyKeys wants qualified names, each once. As upstream, errors name the driver.
func validateTopologyKeys(keys []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for _, key := range keys {
		if key == "" {
			errs = append(errs, field.Required(path, ""))
		}
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(path, key))
		}
		seen.Insert(key)
		errs = append(errs, validate.QualifiedName(key, path)...)
	}
	return errs
}

// validateCSINodeUpdate: a driver's entry stays as it is but for what it can take; drivers come and go.
func validateCSINodeUpdate(node, old *storagev1.CSINode) field.ErrorList {
	errs := validateCSINode(node, old)
	for _, was := range old.Spec.Drivers {
		for _, now := range node.Spec.Drivers {
			if now.Name == was.Name {
				was.Allocatable, now.Allocatable = nil, nil
				errs = append(errs, validate.Immutable(now, was, field.NewPath("spec", "drivers"))...)
			}
		}
	}
	return errs
}
