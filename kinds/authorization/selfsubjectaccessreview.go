package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// SelfSubjectAccessReview is the row of selfsubjectaccessreviews: may I do this?
func SelfSubjectAccessReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
		Resource: "selfsubjectaccessreviews",
		Singular: "selfsubjectaccessreview",
		Verbs:    []string{"create"},
		Unstored: true,
		Type: &object.Type{
			APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview",
			New: func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
		},
		New: func() kinds.Object { return &authorizationv1.SelfSubjectAccessReview{} },
		Validate: func(obj kinds.Object) field.ErrorList {
			review := obj.(*authorizationv1.SelfSubjectAccessReview)
			path := field.NewPath("spec")
			errs := validateOneQuestion(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes, path)
			errs = append(errs, validateSelectors(review.Spec.ResourceAttributes, path.Child("resourceAttributes"))...)
			return append(errs, validateNoMetadata(review.ObjectMeta, false)...)
		},
	}
}
