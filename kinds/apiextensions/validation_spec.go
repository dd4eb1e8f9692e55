package apiextensions

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSpec(spec *apiextensions.CustomResourceDefinitionSpec, l lenience, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	group := path.Child("group")
	if spec.Group == "" {
		errs = append(errs, field.Required(group, ""))
	} else if why := validation.IsDNS1123Subdomain(spec.Group); len(why) > 0 {
		errs = append(errs, field.Invalid(group, spec.Group, strings.Join(why, ",")))
	} else if !strings.Contains(spec.Group, ".") {
		errs = append(errs, field.Invalid(group, spec.Group, "should be a domain with at least one dot"))
	}
	errs = append(errs, requireOneOf(spec.Scope, path.Child("scope"), apiextensions.ClusterScoped, apiextensions.NamespaceScoped)...)
	errs = append(errs, validateSchemasPresent(spec, l, path)...)
	errs = append(errs, validateVersions(spec, l, path.Child("versions"))...)
	for _, name := range []struct{ member, value string }{
		{"plural", spec.Names.Plural}, {"singular", spec.Names.Singular}, {"kind", spec.Names.Kind}, {"listKind", spec.Names.ListKind},
	} {
		if name.value == "" {
			errs = append(errs, field.Required(path.Child("names", name.member), ""))
		}
	}
	errs = append(errs, validateNames(&spec.Names, path.Child("names"))...)
	errs = append(errs, validateSchema(spec.Validation, anyStatus(spec), l, path.Child("validation"))...)
	errs = append(errs, validateSubresources(spec.Subresources, path.Child("subresources"))...)
	for i := range spec.AdditionalPrinterColumns {
		errs = append(errs, validateColumn(&spec.AdditionalPrinterColumns[i], path.Child("additionalPrinterColumns").Index(i))...)
	}
	errs = append(errs, validateSelectable(spec.SelectableFields, spec.Validation, "may only be set when validations.schema is included", path.Child("selectableFields"))...)
	if c := spec.Conversion; c != nil && c.Strategy != apiextensions.NoneConverter && (spec.PreserveUnknownFields == nil || *spec.PreserveUnknownFields) {
		errs = append(errs, field.Invalid(path.Child("conversion", "strategy"), c.Strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	return append(errs, validateConversion(spec.Conversion, l, path.Child("conversion"))...)
}

func requireOneOf[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(known, value):
		return field.ErrorList{field.NotSupported(path, value, known)}
	}
	return nil
}

// validateSchemasPresent wants a schema for each version.
func validateSchemasPresent(spec *apiextensions.CustomResourceDefinitionSpec, l lenience, path *field.Path) field.ErrorList {
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema != nil {
		return nil
	}
	var errs field.ErrorList
	for i, v := range spec.Versions {
		if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			continue
		}
		at := path.Child("versions").Index(i).Child("schema", "openAPIV3Schema")
		switch {
		case !l.noSchema:
			errs = append(errs, field.Required(at, ""))
		case v.Served && !preserves(spec):
			errs = append(errs, field.Required(at, "because otherwise all fields are pruned"))
		}
	}
	return errs
}

func validateVersions(spec *apiextensions.CustomResourceDefinitionSpec, l lenience, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, repeated, storage := sets.New[string](), false, 0
	for i := range spec.Versions {
		v, at := &spec.Versions[i], path.Index(i)
		if v.Storage {
			storage++
		}
		repeated = repeated || names.Has(v.Name)
		names.Insert(v.Name)
		if why := validation.IsDNS1035Label(v.Name); len(why) > 0 {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, strings.Join(why, ",")))
		}
		for _, why := range wrongDeprecation(v.Deprecated, v.DeprecationWarning) {
			errs = append(errs, field.Invalid(at.Child("deprecationWarning"), v.DeprecationWarning, why))
		}
		subresources := v.Subresources
		if spec.Subresources != nil {
			subresources = spec.Subresources
		}
		errs = append(errs, validateSchema(v.Schema, hasStatus(subresources), l, at.Child("schema"))...)
		errs = append(errs, validateSubresources(v.Subresources, at.Child("subresources"))...)
		for i := range v.AdditionalPrinterColumns {
			errs = append(errs, validateColumn(&v.AdditionalPrinterColumns[i], at.Child("additionalPrinterColumns").Index(i))...)
		}
		errs = append(errs, validateSelectable(v.SelectableFields, v.Schema, "may only be set when `version.schema.openAPIV3Schema` is not included", at.Child("selectableFields"))...)
	}
	if repeated {
		errs = append(errs, field.Invalid(path, spec.Versions, "must contain unique version names"))
	}
	if storage != 1 {
		errs = append(errs, field.Invalid(path, spec.Versions, "must have exactly one version marked as storage version"))
	}
	return errs
}

func hasStatus(s *apiextensions.CustomResourceSubresources) bool { return s != nil && s.Status != nil }

func anyStatus(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	return hasStatus(spec.Subresources) || slices.ContainsFunc(spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool {
		return hasStatus(v.Subresources)
	})
}

func wrongDeprecation(deprecated bool, warning *string) []string {
	switch {
	case warning == nil:
		return nil
	case !deprecated:
		return []string{"can only be set for deprecated versions"}
	}
	var why []string
	if len(*warning) > 256 {
		why = append(why, "must be <= 256 characters long")
	}
	if *warning == "" {
		why = append(why, "must not be an empty string")
	}
	for i, r := range *warning {
		if !unicode.IsPrint(r) {
			why = append(why, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
			break
		}
	}
	if !utf8.ValidString(*warning) {
		why = append(why, "must only contain printable UTF-8 characters")
	}
	return why
}

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

func validateColumn(c *apiextensions.CustomResourceColumnDefinition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	oneOf := "must be one of " + strings.Join(columnTypes, ",")
	if c.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), oneOf))
	} else if !slices.Contains(columnTypes, c.Type) {
		errs = append(errs, field.Invalid(path.Child("type"), c.Type, oneOf))
	}
	if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
		errs = append(errs, field.Invalid(path.Child("format"), c.Format, "must be one of "+strings.Join(columnFormats, ",")))
	}
	if c.JSONPath == "" {
		return append(errs, field.Required(path.Child("JSONPath"), ""))
	}
	return append(errs, validateJSONPath(c.JSONPath, path.Child("JSONPath"))...)
}

func validateJSONPath(p string, path *field.Path) field.ErrorList {
	if !strings.HasPrefix(p, ".") {
		return field.ErrorList{field.Invalid(path, p, "must be a simple json path starting with .")}
	}
	return nil
}

func validateSubresources(s *apiextensions.CustomResourceSubresources, path *field.Path) field.ErrorList {
	if s == nil || s.Scale == nil {
		return nil
	}
	errs := validateScalePath(s.Scale.SpecReplicasPath, path.Child("scale.specReplicasPath"), "should be a json path under .spec", ".spec.")
	errs = append(errs, validateScalePath(s.Scale.StatusReplicasPath, path.Child("scale.statusReplicasPath"), "should be a json path under .status", ".status.")...)
	if p := s.Scale.LabelSelectorPath; p != nil && *p != "" {
		errs = append(errs, validateScalePath(*p, path.Child("scale.labelSelectorPath"), "should be a json path under either .spec or .status", ".spec.", ".status.")...)
	}
	return errs
}

func validateScalePath(p string, path *field.Path, detail string, below ...string) field.ErrorList {
	if p == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if errs := validateJSONPath(p, path); len(errs) > 0 {
		return errs
	}
	if !slices.ContainsFunc(below, func(prefix string) bool { return strings.HasPrefix(p, prefix) }) {
		return field.ErrorList{field.Invalid(path, p, detail)}
	}
	return nil
}
