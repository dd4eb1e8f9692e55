package patch

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"vigil/apiserver/decode"
)

// A strategic patch replaces most of the fields that it names: numbers, texts, lists without a merge key. Such a field is decoded into
// the object as it is. Only what merges (conditions, say) takes the way through unstructured fields, and with it only the fields of
// the object that it merges with.

// parts are the fields of a strategic patch by section: {"status": {"phase": "Running"}}.
type parts map[string]map[string]json.RawMessage

// partsOf returns nil when a section is no object, or a field is there twice.
func partsOf(body []byte) parts {
	var all parts
	if problems, err := kjson.UnmarshalStrict(body, &all); err != nil || len(problems) > 0 {
		return nil
	}
	for _, fields := range all {
		if fields == nil {
			return nil
		}
	}
	return all
}

// place is a field of a section of a Go struct, by their indexes.
type place struct{ section, field int }

// applyParts applies a strategic patch by its parts. It returns false, with obj untouched, when the patch has to be applied otherwise.
func (p *Patch) applyParts(source Source, gvk schema.GroupVersionKind, obj runtime.Object) (warnings []string, ok bool) {
	from := reflect.ValueOf(source.Object).Elem()
	replaced, merged := parts{}, parts{}
	var replacedAt, mergedAt []place
	var whole []int // sections that are merged as a whole
	for name, fields := range p.parts {
		section, found := fieldNamed(from.Type(), name)
		if !found {
			return nil, false
		}
		field := from.Type().Field(section)
		if field.Type.Kind() != reflect.Struct || strings.Contains(field.Tag.Get("patchStrategy"), "retainKeys") {
			whole = append(whole, section)
			merged[name] = fields
			continue
		}
		for key, value := range fields {
			of, order := strings.CutPrefix(key, "$setElementOrder/")
			at, found := fieldNamed(field.Type, of)
			switch {
			case !found, order && field.Type.Field(at).Tag.Get("patchStrategy") == "":
				return nil, false // a directive for the section or of no sense, or an unknown field
			case replaces(field.Type.Field(at), key, value):
				replaced.add(name, key, value)
				replacedAt = append(replacedAt, place{section, at})
			default:
				merged.add(name, key, value)
				mergedAt = append(mergedAt, place{section, at})
			}
		}
	}
	if len(replacedAt) == 0 {
		return nil, false
	}
	decoded := reflect.New(from.Type())
	if !replaced.decode(decoded.Interface().(runtime.Object)) {
		return nil, false
	}
	patched := reflect.New(from.Type())
	if len(merged) > 0 {
		part := reflect.New(from.Type())
		for _, section := range whole {
			part.Elem().Field(section).Set(from.Field(section))
		}
		for _, at := range mergedAt {
			part.Elem().Field(at.section).Field(at.field).Set(from.Field(at.section).Field(at.field))
		}
		body, err := json.Marshal(merged)
		if err != nil {
			return nil, false
		}
		rest := &Patch{kind: p.kind, body: body, validation: p.validation}
		if warnings, err = rest.applyStrategic(Source{Object: part.Interface().(runtime.Object)}, gvk, patched.Interface().(runtime.Object)); err != nil {
			return nil, false
		}
	}
	into := reflect.ValueOf(obj).Elem()
	into.Set(reflect.ValueOf(source.Object.DeepCopyObject()).Elem())
	for _, section := range whole {
		into.Field(section).Set(patched.Elem().Field(section))
	}
	for _, at := range mergedAt {
		into.Field(at.section).Field(at.field).Set(patched.Elem().Field(at.section).Field(at.field))
	}
	for _, at := range replacedAt {
		into.Field(at.section).Field(at.field).Set(decoded.Elem().Field(at.section).Field(at.field))
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return warnings, true
}

func (p parts) add(section, key string, value json.RawMessage) {
	if p[section] == nil {
		p[section] = map[string]json.RawMessage{}
	}
	p[section][key] = value
}

// decode decodes the fields into obj. It returns false when they are not what obj's type has, or not good.
func (p parts) decode(obj runtime.Object) bool {
	data, err := json.Marshal(p)
	if err != nil || decode.CheckJSON(data, obj) != nil {
		return false
	}
	problems, err := kjson.UnmarshalStrict(data, obj)
	return err == nil && len(problems) == 0
}

// fieldNamed finds the field of a struct by its name in JSON. Fields that are inline have none.
func fieldNamed(typ reflect.Type, name string) (index int, ok bool) {
	for i := range typ.NumField() {
		if has, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); has != "" && has == name {
			return i, true
		}
	}
	return 0, false
}

// replaces says that a patch with key: value in it puts value in the place of what field has.
func replaces(field reflect.StructField, key string, value json.RawMessage) bool {
	if strings.HasPrefix(key, "$") {
		return false
	}
	typ := field.Type
	if value[0] == '[' {
		directive := bytes.Contains(value, []byte(`"$`)) || bytes.Contains(value, []byte(`\u0024`))
		return typ.Kind() == reflect.Slice && field.Tag.Get("patchStrategy") == "" && !directive
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.String:
		return value[0] == '"'
	case reflect.Bool:
		return value[0] == 't' || value[0] == 'f'
	case reflect.Int32, reflect.Int64:
		return value[0] == '-' || '0' <= value[0] && value[0] <= '9'
	}
	return false
}
