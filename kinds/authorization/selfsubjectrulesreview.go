package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"vigil/kinds"
)

// SelfSubjectRulesReview is the row of selfsubjectrulesreviews: what may I do in this namespace?
func SelfSubjectRulesReview() *kinds.Kind {
	return &kinds.Kind{
		GVK:      authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
		Resource: "selfsubjectrulesreviews",
		Singular: "selfsubjectrulesreview",
		Verbs:    []string{"create"},
		Unstored: true,
		New:      func() kinds.Object { return &authorizationv1.SelfSubjectRulesReview{} },
	}
}
