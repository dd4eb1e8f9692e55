package apiextensions

import (
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxSelectableFields = 8

// validateSelectable checks the paths by which objects can be selected: they lead to scalars of the schema.
func validateSelectable(fields []apiextensions.SelectableField, v *apiextensions.CustomResourceValidation, noSchema string, path *field.Path) field.ErrorList {
	if len(fields) == 0 {
		return nil
	}
	if v == nil || v.OpenAPIV3Schema == nil {
		return field.ErrorList{field.Invalid(path, "", noSchema)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, f := range fields {
		at := path.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		leaf, err := follow(v.OpenAPIV3Schema, f.JSONPath)
		if err != nil {
			errs = append(errs, field.Invalid(at, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if f.JSONPath == ".metadata" || strings.HasPrefix(f.JSONPath, ".metadata.") {
			errs = append(errs, field.Invalid(at, f.JSONPath, "must not point to fields in metadata"))
		}
		if leaf.Type != "string" && leaf.Type != "boolean" && leaf.Type != "integer" {
			errs = append(errs, field.Invalid(at, f.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if seen.Has(f.JSONPath) {
			errs = append(errs, field.Duplicate(at, f.JSONPath))
		}
		seen.Insert(f.JSONPath)
	}
	if seen.Len() > maxSelectableFields {
		errs = append(errs, field.TooMany(path, seen.Len(), maxSelectableFields))
	}
	return errs
}

// follow goes along a path of properties in dot notation.
func follow(s *apiextensions.JSONSchemaProps, path string) (*apiextensions.JSONSchemaProps, error) {
	if !strings.HasPrefix(path, ".") {
		return nil, fmt.Errorf("must start with a dot")
	}
	for _, name := range strings.Split(path[1:], ".") {
		next, found := s.Properties[name]
		if !found {
			return nil, fmt.Errorf("does not refer to a valid field")
		}
		s = &next
	}
	return s, nil
}
