// Package source writes the schema of client-go's apply configurations as the text that package mergeschema reads.
package source

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Types returns client-go's schema.
func Types() ([]schema.TypeDef, error) {
	pod := &corev1.Pod{} // what is made of an object knows the whole schema
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	value, err := applyconfigurations.NewTypeConverter(scheme.Scheme).ObjectToTyped(pod)
	if err != nil {
		return nil, err
	}
	return value.Schema().Types, nil
}

// Write returns the text of types. It fails when they have something that the text cannot say.
func Write(types []schema.TypeDef) (string, error) {
	var w writer
	for _, t := range types {
		w.print(t.Name, " ")
		w.atom(t.Atom, true)
		w.print("\n")
		if t.Map == nil {
			continue
		}
		for _, f := range t.Map.Fields {
			w.print("\t", f.Name, " ")
			w.reference(f.Type)
			if f.Default != nil {
				w.print(" =", w.json(f.Default))
			}
			w.print("\n")
		}
		for _, u := range t.Map.Unions {
			w.union(u)
		}
	}
	return w.text.String(), w.err
}

type writer struct {
	text strings.Builder
	err  error // the first
}

func (w *writer) print(parts ...string) {
	for _, part := range parts {
		w.text.WriteString(part)
	}
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *writer) reference(r schema.TypeRef) {
	switch {
	case r.Nullable:
		w.fail("a type that may be null: %+v", r)
	case r.NamedType != nil:
		w.print("@", *r.NamedType)
		if r.ElementRelationship != nil {
			w.print("!", string(*r.ElementRelationship))
		}
	case r.ElementRelationship != nil:
		w.fail("a relationship of a type without a name: %+v", r)
	default:
		w.atom(r.Inlined, false)
	}
}

// atom writes all forms of a type. Only named ones may have fields.
func (w *writer) atom(a schema.Atom, named bool) {
	if a.Scalar != nil {
		w.print(string(*a.Scalar))
	}
	if a.List != nil {
		w.print("[", string(a.List.ElementRelationship))
		for _, key := range a.List.Keys {
			w.print(",", key)
		}
		w.print(":")
		w.reference(a.List.ElementType)
		w.print("]")
	}
	if a.Map != nil {
		w.print("{", string(a.Map.ElementRelationship))
		if a.Map.ElementType != (schema.TypeRef{}) {
			w.print(":")
			w.reference(a.Map.ElementType)
			w.print("}")
		}
		if !named && len(a.Map.Fields)+len(a.Map.Unions) > 0 {
			w.fail("fields of a type without a name")
		}
	}
}

func (w *writer) union(u schema.Union) {
	if u.DeduceInvalidDiscriminator {
		w.fail("a union that deduces its discriminator")
	}
	w.print("\t|")
	if u.Discriminator != nil {
		w.print(*u.Discriminator)
	}
	for _, f := range u.Fields {
		w.print(" ", f.FieldName, "=", f.DiscriminatorValue)
	}
	w.print("\n")
}

// json writes a default. It may be a string, a number, a truth value or a map of these.
func (w *writer) json(v any) string {
	text, err := json.Marshal(withStringKeys(v))
	if err != nil {
		w.fail("default %v: %w", v, err)
	}
	return string(text)
}

// withStringKeys turns the maps that YAML makes into those that JSON can write.
func withStringKeys(v any) any {
	m, ok := v.(map[any]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, value := range m {
		out[fmt.Sprint(key)] = withStringKeys(value)
	}
	return out
}
