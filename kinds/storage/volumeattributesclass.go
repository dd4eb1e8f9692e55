package storage

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

const defaultAttributesClassAnnotation = "volumeattributesclass.alpha.kubernetes.io/is-default-class"

// VolumeAttributesClass is the row of volume attributes classes (KEP-3751).
func VolumeAttributesClass() *kinds.Kind {
	return &kinds.Kind{
		GVK:        storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
		Resource:   "volumeattributesclasses",
		Singular:   "volumeattributesclass",
		ShortNames: []string{"vac"},
		Path:       "volumeattributesclasses",
		Type: &object.Type{
			APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttributesClass",
			New: func() runtime.Object { return &storagev1.VolumeAttributesClass{} },
		},
		New:     func() kinds.Object { return &storagev1.VolumeAttributesClass{} },
		NewList: func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },

		Validate: func(obj kinds.Object) field.ErrorList {
			return validateAttributesClass(obj.(*storagev1.VolumeAttributesClass))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			class, was := obj.(*storagev1.VolumeAttributesClass), old.(*storagev1.VolumeAttributesClass)
			errs := forbidChange(class.DriverName, was.DriverName, "driverName")
			errs = append(errs, forbidChange(class.Parameters, was.Parameters, "parameters")...)
			return append(errs, validateAttributesClass(class)...)
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			class := obj.(*storagev1.VolumeAttributesClass)
			name := class.Name
			if class.Annotations[defaultAttributesClassAnnotation] == "true" {
				name += " (default)"
			}
			return []any{name, class.DriverName, column.Since(class.CreationTimestamp, now)}
		},
	}
}

func validateAttributesClass(class *storagev1.VolumeAttributesClass) field.ErrorList {
	path := field.NewPath("parameters")
	errs := append(validateProvisioner(class.DriverName, field.NewPath("driverName")), validateParameters(class.Parameters, path)...)
	if len(class.Parameters) == 0 {
		errs = append(errs, field.Required(path, "must contain at least one key/value pair"))
	}
	return errs
}
