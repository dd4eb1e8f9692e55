package authorization

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"vigil/kinds/kindtest"
)

const (
	noQuestion = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
	nobody     = `spec.user: Invalid value: "": at least one of user or group must be specified`
)

func TestSubjectAccessReview(t *testing.T) {
	row := SubjectAccessReview()
	good := kindtest.From[*authorizationv1.SubjectAccessReview](t, row, `{spec: {user: u, resourceAttributes: {resource: pods}}}`)
	c := func(name, patch string, want ...string) kindtest.Case[authorizationv1.SubjectAccessReview] {
		return kindtest.YAML[authorizationv1.SubjectAccessReview](t, name, patch, want...)
	}
	kindtest.Create(t, row, good,
		c("groups", `{spec: {user: "", groups: [g]}}`),
		c("path", `{spec: {resourceAttributes: null, nonResourceAttributes: {path: /x}}}`),
		c("no question", `{spec: {user: "", resourceAttributes: null}}`, noQuestion, nobody),
		c("two questions", `{spec: {nonResourceAttributes: {path: /x}}}`, `spec.nonResourceAttributes: Invalid value: {"path":"/x"}: cannot be specified in combination with resourceAttributes`),
		c("selectors", `{spec: {resourceAttributes: {fieldSelector: {rawSelector: a, requirements: [{key: "", operator: In, values: [b]}]}, labelSelector: {}}}}`,
			`spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements`,
			"spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
			"spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"),
		c("label requirement", `{spec: {resourceAttributes: {labelSelector: {requirements: [{key: a, operator: In}]}}}}`,
			"spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
		c("unknown operator", `{spec: {resourceAttributes: {labelSelector: {requirements: [{key: a, operator: Like}]}}}}`),
		c("name", `{metadata: {name: x}}`, `metadata: Invalid value: {"name":"x"}: must be empty`),
	)
}

func TestLocalSubjectAccessReview(t *testing.T) {
	row := LocalSubjectAccessReview()
	good := kindtest.From[*authorizationv1.LocalSubjectAccessReview](t, row, `{metadata: {namespace: ns}, spec: {user: u, resourceAttributes: {namespace: ns, resource: pods}}}`)
	c := func(name, patch string, want ...string) kindtest.Case[authorizationv1.LocalSubjectAccessReview] {
		return kindtest.YAML[authorizationv1.LocalSubjectAccessReview](t, name, patch, want...)
	}
	kindtest.Create(t, row, good,
		c("no question", `{spec: {user: "", resourceAttributes: null}}`, noQuestion, nobody),
		c("other namespace", `{spec: {resourceAttributes: {namespace: other}}}`, `spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace`),
		c("path", `{spec: {resourceAttributes: null, nonResourceAttributes: {path: /x}}}`, `spec.nonResourceAttributes: Invalid value: {"path":"/x"}: disallowed on this kind of request`),
		c("name", `{metadata: {name: x}}`, `metadata: Invalid value: {"name":"x","namespace":"ns"}: must be empty except for namespace`),
	)
}

func TestSelfSubjectAccessReview(t *testing.T) {
	row := SelfSubjectAccessReview()
	good := kindtest.From[*authorizationv1.SelfSubjectAccessReview](t, row, `{spec: {resourceAttributes: {resource: pods}}}`)
	c := func(name, patch string, want ...string) kindtest.Case[authorizationv1.SelfSubjectAccessReview] {
		return kindtest.YAML[authorizationv1.SelfSubjectAccessReview](t, name, patch, want...)
	}
	kindtest.Create(t, row, good,
		c("no question", `{spec: {resourceAttributes: null}}`, noQuestion),
		c("selector", `{spec: {resourceAttributes: {fieldSelector: {}}}}`,
			"spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"),
		c("name", `{metadata: {name: x}}`, `metadata: Invalid value: {"name":"x"}: must be empty`),
	)
}
