package node

import (
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
	"vigil/object"
)

// RuntimeClass is the row of runtime classes.
func RuntimeClass() *kinds.Kind {
	return &kinds.Kind{
		GVK:      nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
		Resource: "runtimeclasses",
		Singular: "runtimeclass",
		Path:     "runtimeclasses",
		Type: &object.Type{
			APIVersion: "node.k8s.io/v1", Kind: "RuntimeClass",
			New: func() runtime.Object { return &nodev1.RuntimeClass{} },
		},
		New:     func() kinds.Object { return &nodev1.RuntimeClass{} },
		NewList: func() runtime.Object { return &nodev1.RuntimeClassList{} },

		Default: func(obj kinds.Object) {
			if overhead := obj.(*nodev1.RuntimeClass).Overhead; overhead != nil {
				podspec.RoundUp(overhead.PodFixed)
			}
		},
		Validate: func(obj kinds.Object) field.ErrorList { return validateRuntimeClass(obj.(*nodev1.RuntimeClass)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			class, was := obj.(*nodev1.RuntimeClass), old.(*nodev1.RuntimeClass)
			return append(validateRuntimeClass(class), validate.Immutable(class.Handler, was.Handler, field.NewPath("handler"))...)
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			class := obj.(*nodev1.RuntimeClass)
			return []any{class.Name, class.Handler, column.Since(class.CreationTimestamp, now)}
		},
	}
}

func validateRuntimeClass(class *nodev1.RuntimeClass) field.ErrorList {
	errs := validate.Each(class.Handler, field.NewPath("handler"), validation.IsDNS1123Label)
	if class.Overhead != nil {
		errs = append(errs, podspec.ValidateOverhead(class.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if s := class.Scheduling; s != nil {
		path := field.NewPath("scheduling")
		errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
		errs = append(errs, podspec.ValidateTolerations(s.Tolerations, path.Child("tolerations"))...)
	}
	return errs
}
