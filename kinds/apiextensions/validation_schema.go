package apiextensions

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lenience are the rules that the stored definition breaks: rules of today that old definitions need not keep.
type lenience struct {
	noSchema       bool // a version had no schema
	nonStructural  bool // a schema was not structural
	reviewVersions bool // no known version of ConversionReview
}

// newLenience finds out what a stored definition breaks; nil breaks nothing.
func newLenience(old *apiextensions.CustomResourceDefinition) lenience {
	if old == nil {
		return lenience{}
	}
	var l lenience
	l.noSchema = len(validateSchemasPresent(&old.Spec, lenience{}, nil)) > 0
	all := []*apiextensions.CustomResourceValidation{old.Spec.Validation}
	for i := range old.Spec.Versions {
		all = append(all, old.Spec.Versions[i].Schema)
	}
	for _, v := range all {
		if v == nil || v.OpenAPIV3Schema == nil {
			continue
		}
		s, err := schema.NewStructural(v.OpenAPIV3Schema)
		if err != nil || len(schema.ValidateStructural(nil, s)) > 0 {
			l.nonStructural = true
		}
	}
	if c := old.Spec.Conversion; c != nil && len(c.ConversionReviewVersions) > 0 {
		l.reviewVersions = !slices.ContainsFunc(c.ConversionReviewVersions, isReviewVersion)
	}
	return l
}

// atRoot are the members that a root schema may have beside a status subresource: they say nothing that gets lost when the
// schema of status is taken out of it.
var atRoot = []string{
	"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength",
	"Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
	"XPreserveUnknownFields", "XValidations",
}

func validateSchema(v *apiextensions.CustomResourceValidation, status bool, l lenience, path *field.Path) field.ErrorList {
	if v == nil || v.OpenAPIV3Schema == nil {
		return nil
	}
	var errs field.ErrorList
	root, path := v.OpenAPIV3Schema, path.Child("openAPIV3Schema")
	if status {
		errs = append(errs, validateRoot(root, path)...)
	}
	if root.Nullable {
		errs = append(errs, field.Forbidden(path.Child("nullable"), "nullable cannot be true at the root"))
	}
	var unconvertible field.ErrorList
	if !l.nonStructural {
		s, err := schema.NewStructural(root)
		if err != nil {
			unconvertible = field.ErrorList{field.Invalid(path, "", err.Error())}
		} else {
			errs = append(errs, schema.ValidateStructural(path, s)...)
		}
	}
	errs = append(errs, (&walker{root: true}).walk(root, path)...)
	if len(errs) == 0 {
		return unconvertible
	}
	return errs
}

func validateRoot(root *apiextensions.JSONSchemaProps, path *field.Path) field.ErrorList {
	value := reflect.ValueOf(root).Elem()
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		switch {
		case value.Field(i).IsZero():
		case name == "Type" && root.Type != "object":
			return field.ErrorList{field.Invalid(path.Child("type"), root.Type, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
		case !slices.Contains(atRoot, name):
			return field.ErrorList{field.Invalid(path, *root, fmt.Sprintf(`only %v fields are allowed at the root of the schema if the status subresource is enabled`, atRoot))}
		}
	}
	return nil
}

// walker goes through a schema and its parts.
type walker struct {
	root       bool   // at the root
	inMeta     bool   // in apiVersion, kind or metadata
	noDefaults string // why there may be no defaults, "" if there may
}

func (w walker) inside() *walker {
	w.root = false
	return &w
}

var types = []string{"array", "boolean", "integer", "number", "object", "string"}

func (w *walker) walk(s *apiextensions.JSONSchemaProps, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := w.validateMembers(s, path)
	errs = append(errs, validateListType(s, path)...)
	errs = append(errs, validateRules(s.XValidations, path.Child("x-kubernetes-validations"))...)

	in := w.inside()
	if a := s.AdditionalProperties; a != nil {
		if len(s.Properties) > 0 && (!a.Allows || a.Schema != nil) {
			errs = append(errs, field.Forbidden(path.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
		below := *in
		if w.inMeta {
			below.noDefaults = "inside additionalProperties applying to object metadata"
		}
		errs = append(errs, below.walk(a.Schema, path.Child("additionalProperties"))...)
	}
	for _, name := range sets.List(sets.KeySet(s.Properties)) {
		below, property := *in, s.Properties[name]
		if (w.root || s.XEmbeddedResource) && (name == "metadata" || name == "kind" || name == "apiVersion") {
			below.inMeta = true
			if w.root {
				below.noDefaults = "in top-level " + name
			}
		}
		errs = append(errs, below.walk(&property, path.Child("properties").Key(name))...)
	}
	errs = append(errs, in.walk(s.Not, path.Child("not"))...)
	for _, junctor := range []struct {
		name string
		of   []apiextensions.JSONSchemaProps
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range junctor.of {
			errs = append(errs, in.walk(&junctor.of[i], path.Child(junctor.name).Index(i))...)
		}
	}
	if s.Items != nil {
		errs = append(errs, in.walk(s.Items.Schema, path.Child("items"))...)
	}
	return errs
}

// validateMembers refuses what OpenAPI knows and Kubernetes does not.
func (w *walker) validateMembers(s *apiextensions.JSONSchemaProps, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Type != "" && !slices.Contains(types, s.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type, types))
	}
	if s.Default != nil && w.noDefaults != "" {
		errs = append(errs, field.Forbidden(path.Child("default"), "must not be set "+w.noDefaults))
	}
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"id", s.ID != ""},
		{"additionalItems", s.AdditionalItems != nil},
		{"patternProperties", len(s.PatternProperties) > 0},
		{"definitions", len(s.Definitions) > 0},
		{"dependencies", s.Dependencies != nil},
		{"$ref", s.Ref != nil},
	} {
		if m.given {
			errs = append(errs, field.Forbidden(path.Child(m.name), m.name+" is not supported"))
		}
	}
	if s.Type == "null" {
		errs = append(errs, field.Forbidden(path.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		errs = append(errs, field.Forbidden(path.Child("items"), "items must be a schema object and not an array"))
	}
	if w.inMeta && s.XEmbeddedResource {
		errs = append(errs, field.Forbidden(path.Child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))
	}
	if s.UniqueItems {
		errs = append(errs, field.Forbidden(path.Child("uniqueItems"), "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	if p := s.XPreserveUnknownFields; p != nil && !*p {
		errs = append(errs, field.Invalid(path.Child("x-kubernetes-preserve-unknown-fields"), *p, "must be true or undefined"))
	}
	return errs
}

// validateListType checks x-kubernetes-map-type, x-kubernetes-list-type and what comes with them.
func validateListType(s *apiextensions.JSONSchemaProps, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mapType, listType := path.Child("x-kubernetes-map-type"), path.Child("x-kubernetes-list-type")
	if s.XMapType != nil {
		errs = append(errs, requireType(s, "object", "x-kubernetes-map-type", path)...)
		if known := []string{"atomic", "granular"}; !slices.Contains(known, *s.XMapType) {
			errs = append(errs, field.NotSupported(mapType, *s.XMapType, known))
		}
	}
	list := ""
	if s.XListType != nil {
		list = *s.XListType
		errs = append(errs, requireType(s, "array", "x-kubernetes-list-type", path)...)
		if known := []string{"atomic", "set", "map"}; !slices.Contains(known, list) {
			errs = append(errs, field.NotSupported(listType, list, known))
		}
	}
	var items *apiextensions.JSONSchemaProps
	if s.Items != nil {
		items = s.Items.Schema
	}
	if list == "set" && s.Type == "array" && items != nil {
		const detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
		switch {
		case items.Type == "array" && items.XListType != nil && *items.XListType != "atomic":
			errs = append(errs, field.Invalid(path.Child("items", "x-kubernetes-list-type"), items.XListType, detail))
		case items.Type == "object" && (items.XMapType == nil || *items.XMapType != "atomic"):
			errs = append(errs, field.Invalid(path.Child("items", "x-kubernetes-map-type"), items.XListType, detail))
		}
	}
	if len(s.XListMapKeys) > 0 {
		const detail = "must be map if x-kubernetes-list-map-keys is non-empty"
		if s.XListType == nil {
			errs = append(errs, field.Required(listType, detail))
		} else if list != "map" {
			errs = append(errs, field.Invalid(listType, list, detail))
		}
	}
	if list == "map" {
		errs = append(errs, validateMapKeys(s, items, path)...)
	}
	if (list == "map" || list == "set") && items != nil && items.Nullable {
		errs = append(errs, field.Forbidden(path.Child("items", "nullable"), "cannot be nullable when x-kubernetes-list-type is "+list))
	}
	return errs
}

func requireType(s *apiextensions.JSONSchemaProps, want, extension string, path *field.Path) field.ErrorList {
	detail := fmt.Sprintf("must be %s if %s is specified", want, extension)
	switch s.Type {
	case want:
		return nil
	case "":
		return field.ErrorList{field.Required(path.Child("type"), detail)}
	}
	return field.ErrorList{field.Invalid(path.Child("type"), s.Type, detail)}
}

// validateMapKeys checks a list whose items are told apart by keys.
func validateMapKeys(s, items *apiextensions.JSONSchemaProps, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	keys, at := path.Child("x-kubernetes-list-map-keys"), path.Child("items")
	if len(s.XListMapKeys) == 0 {
		errs = append(errs, field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	switch {
	case s.Items == nil:
		return append(errs, field.Required(at, "must have a schema if x-kubernetes-list-type is map"))
	case items == nil:
		return append(errs, field.Invalid(at, s.Items, "must only have a single schema if x-kubernetes-list-type is map"))
	case items.Type != "object":
		return append(errs, field.Invalid(at.Child("type"), items.Type, "must be object if parent array's x-kubernetes-list-type is map"))
	}
	seen := sets.New[string]()
	for _, key := range s.XListMapKeys {
		property, found := items.Properties[key]
		at := at.Child("properties").Key(key)
		switch {
		case !found:
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		case property.Type == "array" || property.Type == "object":
			errs = append(errs, field.Invalid(at.Child("type"), items.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if seen.Has(key) {
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
		seen.Insert(key)
		if found && property.Default == nil && !slices.Contains(items.Required, key) {
			errs = append(errs, field.Required(at.Child("default"), "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if found && property.Nullable {
			errs = append(errs, field.Forbidden(at.Child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return errs
}

var ruleReasons = []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}

// validateRules checks the form of validation rules, not their expressions.
func validateRules(rules apiextensions.ValidationRules, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range rules {
		path := path.Index(i)
		rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
		switch {
		case rule == "":
			errs = append(errs, field.Required(path.Child("rule"), "rule is not specified"))
		case r.Message != "" && message == "":
			errs = append(errs, field.Invalid(path.Child("message"), r.Message, "must be non-empty if specified"))
		case hasNewlines(message):
			errs = append(errs, field.Invalid(path.Child("message"), r.Message, "must not contain line breaks"))
		case hasNewlines(rule) && message == "":
			errs = append(errs, field.Required(path.Child("message"), "message must be specified if rule contains line breaks"))
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			errs = append(errs, field.Required(path.Child("messageExpression"), "messageExpression must be non-empty if specified"))
		}
		if r.Reason != nil && !slices.Contains(ruleReasons, string(*r.Reason)) {
			errs = append(errs, field.NotSupported(path.Child("reason"), string(*r.Reason), ruleReasons))
		}
		if r.FieldPath != "" && strings.TrimSpace(r.FieldPath) == "" {
			errs = append(errs, field.Invalid(path.Child("fieldPath"), r.FieldPath, "must be non-empty if specified"))
		}
		if hasNewlines(r.FieldPath) {
			errs = append(errs, field.Invalid(path.Child("fieldPath"), r.FieldPath, "must not contain line breaks"))
		}
	}
	return errs
}

func hasNewlines(s string) bool { return strings.ContainsAny(s, "\n\r") }
