package openapi

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"vigil/apiserver/openapi/internal/markers"
)

// modelName is implemented by all types of k8s.io/api: "io.k8s.api.core.v1.Pod".
type modelName interface{ OpenAPIModelName() string }

// schemaType is implemented by types whose JSON is not that of their fields: times, quantities.
type schemaType interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

type oneOfTypes interface{ OpenAPIV3OneOfTypes() []string }

type swaggerDoc interface{ SwaggerDoc() map[string]string }

// schemas collects the schema of each type once, by its model name.
type schemas struct {
	refPrefix string // "#/components/schemas/" in version 3, "#/definitions/" in version 2
	v3        bool
	models    map[string]*spec.Schema
}

func newSchemas(v3 bool) *schemas {
	s := &schemas{refPrefix: "#/definitions/", v3: v3, models: map[string]*spec.Schema{}}
	if v3 {
		s.refPrefix = "#/components/schemas/"
	}
	return s
}

// kind adds the model of an object and marks it with its group, version and kind. It returns the model's name.
func (s *schemas) kind(obj any, gvk schema.GroupVersionKind) string {
	t := reflect.TypeOf(obj).Elem()
	s.of(t)
	name := modelNameOf(t)
	if m := s.models[name]; m != nil {
		marks, _ := m.Extensions["x-kubernetes-group-version-kind"].([]any)
		if mark := gvkMap(gvk); !slices.ContainsFunc(marks, func(other any) bool { return maps.Equal(other.(map[string]any), mark) }) {
			m.AddExtension("x-kubernetes-group-version-kind", append(marks, mark))
		}
	}
	return name
}

// Models are the schemas of an object of kind gvk and of everything in it, by the names with which they refer to each other.
func Models(obj any, gvk schema.GroupVersionKind) map[string]*spec.Schema {
	s := newSchemas(true)
	s.kind(obj, gvk)
	return s.models
}

func gvkMap(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

func modelNameOf(t reflect.Type) string {
	if m, ok := reflect.Zero(t).Interface().(modelName); ok {
		return m.OpenAPIModelName()
	}
	return ""
}

// of returns the schema of a Go type: a reference for those with a model name.
func (s *schemas) of(t reflect.Type) spec.Schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := modelNameOf(t); name != "" {
		if s.models[name] == nil {
			m := new(spec.Schema)
			s.models[name] = m // before its fields: types refer to themselves
			*m = s.define(t)
		}
		return *spec.RefSchema(s.refPrefix + name)
	}
	return s.define(t)
}

func (s *schemas) define(t reflect.Type) spec.Schema {
	zero := reflect.Zero(t).Interface()
	known := markers.Of(t)
	out := spec.Schema{SchemaProps: spec.SchemaProps{Description: known.Doc}}
	mapType(&out, known.MapType)
	if doc, ok := zero.(swaggerDoc); ok {
		out.Description = doc.SwaggerDoc()[""]
	}
	if own, ok := zero.(schemaType); ok {
		if oneOf, ok := zero.(oneOfTypes); ok && s.v3 {
			for _, typ := range oneOf.OpenAPIV3OneOfTypes() {
				out.OneOf = append(out.OneOf, spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{typ}}})
			}
		} else {
			out.Type = own.OpenAPISchemaType()
		}
		out.Format = own.OpenAPISchemaFormat()
		return out
	}
	switch t.Kind() {
	case reflect.Bool:
		out.Type = []string{"boolean"}
	case reflect.Int32, reflect.Uint32, reflect.Int16, reflect.Uint16, reflect.Int8, reflect.Uint8:
		out.Type, out.Format = []string{"integer"}, "int32"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		out.Type, out.Format = []string{"integer"}, "int64"
	case reflect.Float32, reflect.Float64:
		out.Type, out.Format = []string{"number"}, "double"
	case reflect.String:
		out.Type = []string{"string"}
		for _, v := range known.Enum {
			out.Enum = append(out.Enum, v.Value)
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			out.Type, out.Format = []string{"string"}, "byte"
			break
		}
		item := s.of(t.Elem())
		out.Type, out.Items = []string{"array"}, &spec.SchemaOrArray{Schema: &item}
	case reflect.Map:
		value := s.of(t.Elem())
		out.Type, out.AdditionalProperties = []string{"object"}, &spec.SchemaOrBool{Allows: true, Schema: &value}
	case reflect.Struct:
		out.Type = []string{"object"}
		s.fields(t, &out)
	}
	return out
}

// fields adds the properties of a struct, those of embedded structs included.
func (s *schemas) fields(t reflect.Type, out *spec.Schema) {
	known := markers.Of(t)
	var docs map[string]string
	if doc, ok := reflect.Zero(t).Interface().(swaggerDoc); ok {
		docs = doc.SwaggerDoc()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
			continue
		case name == "" && f.Anonymous:
			s.fields(f.Type, out)
			continue
		case name == "":
			continue
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		out.SetProperty(name, s.property(f, optional, firstOf(docs[name], known.Fields[name].Doc), known.Fields[name]))
		if !optional {
			out.Required = append(out.Required, name)
		}
	}
}

// property is the schema of a field: its type's, with what is said about the field itself.
func (s *schemas) property(f reflect.StructField, optional bool, doc string, known markers.Field) spec.Schema {
	property := s.of(f.Type)
	if property.Ref.String() != "" && s.v3 {
		// Whatever stands beside a reference is ignored: wrap it.
		property = spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{property}}}
	}
	if doc != "" {
		property.Description = doc
	}
	property.Description += possible(f.Type)
	property.Default = zeroDefault(f.Type, optional)
	if len(known.Default) > 0 {
		// The marker is JSON, else it would not be in the file.
		_ = json.Unmarshal(known.Default, &property.Default)
	}
	if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
		property.AddExtension("x-kubernetes-patch-strategy", strategy)
	}
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		property.AddExtension("x-kubernetes-patch-merge-key", key)
	}
	if known.ListType != "" {
		property.AddExtension("x-kubernetes-list-type", known.ListType)
	}
	if len(known.MapKeys) > 0 {
		keys := make([]any, len(known.MapKeys))
		for i, key := range known.MapKeys {
			keys[i] = key
		}
		property.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	mapType(&property, known.MapType)
	return property
}

// zeroDefault is what a field that is not a pointer has when nothing is said: an empty struct, and if it is always there, the zero of a
// scalar. It is nil for all others.
func zeroDefault(t reflect.Type, optional bool) any {
	if _, ok := reflect.Zero(t).Interface().(schemaType); ok || t == reflect.TypeFor[runtime.RawExtension]() {
		return nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		return map[string]any{}
	case optional:
		return nil
	case kind == reflect.Bool:
		return false
	case kind == reflect.String:
		return ""
	case kind >= reflect.Int && kind <= reflect.Float64:
		return 0
	}
	return nil
}

func mapType(out *spec.Schema, mapType string) {
	if mapType != "" {
		out.AddExtension("x-kubernetes-map-type", mapType)
	}
}

// possible describes the values of a field whose type is an enum.
func possible(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	values := markers.Of(t).Enum
	if t.Kind() != reflect.String || len(values) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nPossible enum values:")
	for _, v := range values {
		b.WriteString("\n - `" + strconv.Quote(v.Value) + "`")
		if v.Doc != "" {
			b.WriteString(" " + v.Doc)
		}
	}
	return b.String()
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
