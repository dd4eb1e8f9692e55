package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// ResourceClaimTemplate is the row of the templates from which pods get claims of their own.
func ResourceClaimTemplate() *kinds.Kind {
	return &kinds.Kind{
		GVK:        resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
		Resource:   "resourceclaimtemplates",
		Singular:   "resourceclaimtemplate",
		Namespaced: true,
		Path:       "resourceclaimtemplates",
		Type: &object.Type{
			APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaimTemplate", Namespaced: true,
			New: func() runtime.Object { return &resourcev1.ResourceClaimTemplate{} },
		},
		New:     func() kinds.Object { return &resourcev1.ResourceClaimTemplate{} },
		NewList: func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} },

		Default: func(obj kinds.Object) { defaultClaim(&obj.(*resourcev1.ResourceClaimTemplate).Spec.Spec) },
		PrepareCreate: func(obj kinds.Object) {
			dropDerived(&obj.(*resourcev1.ResourceClaimTemplate).Spec.Spec, nil)
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			dropDerived(&obj.(*resourcev1.ResourceClaimTemplate).Spec.Spec, &old.(*resourcev1.ResourceClaimTemplate).Spec.Spec)
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			spec, path := &obj.(*resourcev1.ResourceClaimTemplate).Spec, field.NewPath("spec")
			errs := apivalidation.ValidateAnnotations(spec.Annotations, path.Child("metadata", "annotations"))
			errs = append(errs, metav1validation.ValidateLabels(spec.Labels, path.Child("metadata", "labels"))...)
			return append(errs, validateClaim(&spec.Spec, path.Child("spec"))...)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validate.Immutable(obj.(*resourcev1.ResourceClaimTemplate).Spec, old.(*resourcev1.ResourceClaimTemplate).Spec, field.NewPath("spec"))
		},
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: func(obj kinds.Object, now time.Time) []any {
			return []any{obj.GetName(), column.Since(obj.GetCreationTimestamp(), now)}
		},
	}
}
