package storage

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// CSIStorageCapacity is the row of the capacities that CSI drivers publish for the scheduler.
func CSIStorageCapacity() *kinds.Kind {
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
		Resource:   "csistoragecapacities",
		Singular:   "csistoragecapacity",
		Namespaced: true,
		Path:       "csistoragecapacities",
		Type: &object.Type{
			APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacity", Namespaced: true,
			New: func() runtime.Object { return &storagev1.CSIStorageCapacity{} },
		},
		New:     func() kinds.Object { return &storagev1.CSIStorageCapacity{} },
		NewList: func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },

		Validate: func(obj kinds.Object) field.ErrorList {
			c := obj.(*storagev1.CSIStorageCapacity)
			return append(validate.LabelSelector(c.NodeTopology, field.NewPath("nodeTopology")), validateCapacity(c)...)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			c, was := obj.(*storagev1.CSIStorageCapacity), old.(*storagev1.CSIStorageCapacity)
			path := field.NewPath("nodeTopology")
			errs := append(validate.LabelSelectorUpdate(c.NodeTopology, was.NodeTopology, path), validateCapacity(c)...)
			errs = append(errs, validate.Immutable(c.NodeTopology, was.NodeTopology, path)...)
			return append(errs, validate.Immutable(c.StorageClassName, was.StorageClassName, field.NewPath("storageClassName"))...)
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("StorageClassName", doc["storageClassName"]),
			column.Text("Capacity", doc["capacity"]),
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			c := obj.(*storagev1.CSIStorageCapacity)
			capacity := ""
			if c.Capacity != nil {
				capacity = c.Capacity.String()
			}
			return []any{c.Name, c.StorageClassName, capacity}
		},
	}
}

func validateCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := validate.Name(c.StorageClassName, field.NewPath("storageClassName"))
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}
