package patch

import (
	"encoding/json"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Most patches are about one section of an object: labels (metadata), a condition (status). Only the sections that
// a patch names take the expensive way through JSON or unstructured fields and back; the others are copied. The outcome is
// the same, which a fuzz test proves. Whatever is unusual takes the whole way, errors included, whose texts show
// the whole object.

// applySections does that. It returns false, with obj untouched, when the patch has to be applied to the whole object.
func (p *Patch) applySections(source Source, gvk schema.GroupVersionKind, obj runtime.Object) (warnings []string, ok bool) {
	from, into := reflect.ValueOf(source.Object), reflect.ValueOf(obj)
	if len(p.sections) == 0 || from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct || from.Type() != into.Type() {
		return nil, false
	}
	fields, ok := sectionFields(from.Type().Elem(), p.sections)
	if !ok {
		return nil, false
	}
	if p.parts != nil {
		if warnings, ok := p.applyParts(source, gvk, obj); ok {
			return warnings, true
		}
	}
	part, patched := reflect.New(from.Type().Elem()), reflect.New(from.Type().Elem())
	for _, f := range fields {
		part.Elem().Field(f).Set(from.Elem().Field(f))
	}
	partial := part.Interface().(runtime.Object)
	warnings, err := p.applyWhole(Source{
		Object: partial,
		JSON:   func() ([]byte, error) { return json.Marshal(partial) },
	}, gvk, patched.Interface().(runtime.Object))
	if err != nil {
		return nil, false
	}
	into.Elem().Set(reflect.ValueOf(source.Object.DeepCopyObject()).Elem())
	for _, f := range fields {
		into.Elem().Field(f).Set(patched.Elem().Field(f))
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return warnings, true
}

// sectionFields finds the struct fields of sections. It returns false when one is not a field of its own.
func sectionFields(typ reflect.Type, sections []string) (fields []int, ok bool) {
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue // inline: kind and apiVersion
		}
		for _, section := range sections {
			if section == name {
				fields = append(fields, i)
			}
		}
	}
	return fields, len(fields) == len(sections)
}

// operationSections are the sections that the operations of a JSON patch read or write; nil when that may be any.
func operationSections(ops jsonpatch.Patch) []string {
	var sections []string
	for _, op := range ops {
		for _, place := range []string{"path", "from"} {
			raw, ok := op[place]
			if !ok && place == "from" {
				continue
			}
			var pointer string
			if raw == nil || json.Unmarshal(*raw, &pointer) != nil {
				return nil
			}
			pointer, ok = strings.CutPrefix(pointer, "/")
			section, rest, _ := strings.Cut(pointer, "/")
			if !ok || rest == "" || strings.Contains(section, "~") {
				return nil
			}
			sections = appendNew(sections, section)
		}
	}
	return sections
}

// fieldSections are the sections that a merge patch has fields for; nil when it has directives for the whole object.
func fieldSections[T any](fields map[string]T) []string {
	var sections []string
	for name := range fields {
		if strings.HasPrefix(name, "$") {
			return nil
		}
		sections = append(sections, name)
	}
	return sections
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
