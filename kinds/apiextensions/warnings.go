package apiextensions

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// warnings are what is doubtful in the schemas of crd and was not in those of old, which may be nil.
func warnings(crd, old *apiextensionsv1.CustomResourceDefinition) []string {
	texts := doubts(crd)
	if old == nil {
		return texts
	}
	known := doubts(old)
	return slices.DeleteFunc(texts, func(text string) bool { return slices.Contains(known, text) })
}

func doubts(crd *apiextensionsv1.CustomResourceDefinition) []string {
	definition, err := internal(crd)
	if err != nil {
		return nil // validation says why
	}
	var formats, sets []string
	visit := func(s *apiextensions.JSONSchemaProps) bool {
		if s.Format != "" {
			schema := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
			for _, format := range apiservervalidation.GetUnrecognizedFormats(schema, environment.DefaultCompatibilityVersion()) {
				formats = append(formats, fmt.Sprintf("unrecognized format %q", format))
			}
		}
		if s.XListType != nil && *s.XListType == "set" && s.Items != nil && s.Items.Schema != nil {
			if t := s.Items.Schema.Type; t == "object" || t == "array" {
				sets = append(sets, fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", t))
			}
		}
		return false
	}
	if v := definition.Spec.Validation; v != nil && v.OpenAPIV3Schema != nil {
		validation.SchemaHas(v.OpenAPIV3Schema, visit)
	}
	for _, v := range definition.Spec.Versions {
		if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			validation.SchemaHas(v.Schema.OpenAPIV3Schema, visit)
		}
	}
	slices.Sort(sets)
	return append(formats, slices.Compact(sets)...)
}
