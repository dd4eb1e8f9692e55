package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/object"
)

// SelfSubjectReview is the row of selfsubjectreviews: who am I?
func SelfSubjectReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
		Resource: "selfsubjectreviews",
		Singular: "selfsubjectreview",
		Verbs:    []string{"create"},
		Unstored: true,
		Type: &object.Type{
			APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview",
			New: func() runtime.Object { return &authenticationv1.SelfSubjectReview{} },
		},
		New: func() kinds.Object { return &authenticationv1.SelfSubjectReview{} },
	}
}
