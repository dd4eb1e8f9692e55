package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"vigil/kinds"
)

// SelfSubjectReview is the row of selfsubjectreviews: who am I?
func SelfSubjectReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
		Resource: "selfsubjectreviews",
		Singular: "selfsubjectreview",
		Verbs:    []string{"create"},
		Unstored: true,
		New:      func() kinds.Object { return &authenticationv1.SelfSubjectReview{} },
	}
}
