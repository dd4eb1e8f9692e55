package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/object"
)

// SelfSubjectRulesReview is the row of selfsubjectrulesreviews: what may I do in this namespace?
func SelfSubjectRulesReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
		Resource: "selfsubjectrulesreviews",
		Singular: "selfsubjectrulesreview",
		Verbs:    []string{"create"},
		Unstored: true,
		Type: &object.Type{
			APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview",
			New: func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} },
		},
		New: func() kinds.Object { return &authorizationv1.SelfSubjectRulesReview{} },
	}
}
