package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// LocalSubjectAccessReview is the row of localsubjectaccessreviews: may that user do this in this namespace? Who may ask
// it need not be allowed to ask about others.
func LocalSubjectAccessReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:        authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"),
		Resource:   "localsubjectaccessreviews",
		Singular:   "localsubjectaccessreview",
		Namespaced: true,
		Verbs:      []string{"create"},
		Unstored:   true,
		Type: &object.Type{
			APIVersion: "authorization.k8s.io/v1", Kind: "LocalSubjectAccessReview", Namespaced: true,
			New: func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} },
		},
		New: func() kinds.Object { return &authorizationv1.LocalSubjectAccessReview{} },
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateLocal(obj.(*authorizationv1.LocalSubjectAccessReview))
		},
	}
}

func validateLocal(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSubject(&review.Spec, path)
	errs = append(errs, validateNoMetadata(review.ObjectMeta, true)...)
	if r := review.Spec.ResourceAttributes; r != nil && r.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"), r.Namespace, "must match metadata.namespace"))
	}
	if n := review.Spec.NonResourceAttributes; n != nil {
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), n, "disallowed on this kind of request"))
	}
	return errs
}
