package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/object"
)

// TokenReview is the row of tokenreviews: whose token is this?
func TokenReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
		Resource: "tokenreviews",
		Singular: "tokenreview",
		Verbs:    []string{"create"},
		Unstored: true,
		Type: &object.Type{
			APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview",
			New: func() runtime.Object { return &authenticationv1.TokenReview{} },
		},
		New: func() kinds.Object { return &authenticationv1.TokenReview{} },
	}
}
