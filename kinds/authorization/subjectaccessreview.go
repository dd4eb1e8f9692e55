package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// SubjectAccessReview is the row of subjectaccessreviews: may that user do this?
func SubjectAccessReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
		Resource: "subjectaccessreviews",
		Singular: "subjectaccessreview",
		Verbs:    []string{"create"},
		Unstored: true,
		Type: &object.Type{
			APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview",
			New: func() runtime.Object { return &authorizationv1.SubjectAccessReview{} },
		},
		New: func() kinds.Object { return &authorizationv1.SubjectAccessReview{} },
		Validate: func(obj kinds.Object) field.ErrorList {
			review := obj.(*authorizationv1.SubjectAccessReview)
			return append(validateSubject(&review.Spec, field.NewPath("spec")), validateNoMetadata(review.ObjectMeta, false)...)
		},
	}
}
