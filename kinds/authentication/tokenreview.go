package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"vigil/kinds"
)

// TokenReview is the row of tokenreviews: whose token is this?
func TokenReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
		Resource: "tokenreviews",
		Singular: "tokenreview",
		Verbs:    []string{"create"},
		Unstored: true,
		New:      func() kinds.Object { return &authenticationv1.TokenReview{} },
	}
}
