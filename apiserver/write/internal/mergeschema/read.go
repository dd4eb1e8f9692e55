package mergeschema

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Read returns the types of a text. They share its memory, and what never changes.
func Read(text string) ([]schema.TypeDef, error) {
	r := reader{names: make([]string, 0, strings.Count(text, "@"))}
	types := make([]schema.TypeDef, 0, strings.Count(text, "\n")-strings.Count(text, "\n\t"))
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		name, form, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("a type without a form: %q", line)
		}
		def := schema.TypeDef{Name: name}
		if r.atom(form, &def.Atom) != "" || r.err != nil {
			return nil, fmt.Errorf("cannot understand %q: %v", line, r.err)
		}
		if text = rest; strings.HasPrefix(text, "\t") {
			if def.Map == nil {
				return nil, fmt.Errorf("%s has fields and is no map", name)
			}
			text = r.fields(text, def.Map)
			if r.err != nil {
				return nil, fmt.Errorf("%s: %w", name, r.err)
			}
		}
		types = append(types, def)
	}
	return types, nil
}

// reader keeps what it made so far, and its first error.
type reader struct {
	names []string // which references point at: one allocation for all of them
	err   error
}

// Scalars and relationships are shared by all that refer to them.
var (
	scalars   = [...]schema.Scalar{schema.String, schema.Numeric, schema.Boolean, schema.Untyped}
	relations = [...]schema.ElementRelationship{schema.Associative, schema.Atomic, schema.Separable}
	empty     = map[any]any{}
)

func (r *reader) fail(format string, args ...any) string {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	return ""
}

// fields takes the indented lines at the beginning of text and returns what follows them.
func (r *reader) fields(text string, m *schema.Map) (rest string) {
	n := 0
	for after := text; strings.HasPrefix(after, "\t"); n++ {
		_, after, _ = strings.Cut(after, "\n")
	}
	m.Fields = make([]schema.StructField, 0, n)
	for strings.HasPrefix(text, "\t") {
		var line string
		line, text, _ = strings.Cut(text[1:], "\n")
		if union, ok := strings.CutPrefix(line, "|"); ok {
			m.Unions = append(m.Unions, r.union(union))
			continue
		}
		name, form, _ := strings.Cut(line, " ")
		m.Fields = append(m.Fields, schema.StructField{Name: name})
		field := &m.Fields[len(m.Fields)-1]
		rest := r.reference(form, &field.Type)
		if value, ok := strings.CutPrefix(rest, " ="); ok {
			field.Default = r.value(value)
		} else if rest != "" {
			r.fail("cannot understand %q", line)
		}
	}
	return text
}

func (r *reader) union(line string) schema.Union {
	var u schema.Union
	words := strings.Split(line, " ")
	if words[0] != "" {
		u.Discriminator = &words[0]
	}
	for _, word := range words[1:] {
		field, value, _ := strings.Cut(word, "=")
		u.Fields = append(u.Fields, schema.UnionField{FieldName: field, DiscriminatorValue: value})
	}
	return u
}

// reference takes a named type or another one from the beginning of form and returns what follows.
func (r *reader) reference(form string, into *schema.TypeRef) (rest string) {
	named, ok := strings.CutPrefix(form, "@")
	if !ok {
		return r.atom(form, &into.Inlined)
	}
	end := strings.IndexAny(named, "!]} ")
	if end < 0 {
		end = len(named)
	}
	r.names = append(r.names, named[:end])
	into.NamedType = &r.names[len(r.names)-1]
	if rest = named[end:]; strings.HasPrefix(rest, "!") {
		var relation *schema.ElementRelationship
		relation, rest = r.relation(rest[1:])
		into.ElementRelationship = relation
	}
	return rest
}

// relation takes a relationship from the beginning of form; none is "".
func (r *reader) relation(form string) (*schema.ElementRelationship, string) {
	for i := range relations {
		if rest, ok := strings.CutPrefix(form, string(relations[i])); ok {
			return &relations[i], rest
		}
	}
	return new(schema.ElementRelationship), form
}

// atom takes all forms of a type from the beginning of form and returns what follows.
func (r *reader) atom(form string, into *schema.Atom) (rest string) {
	for i := range scalars {
		if after, ok := strings.CutPrefix(form, string(scalars[i])); ok {
			into.Scalar, form = &scalars[i], after
			break
		}
	}
	if after, ok := strings.CutPrefix(form, "["); ok {
		into.List = &schema.List{}
		relation, after := r.relation(after)
		into.List.ElementRelationship = *relation
		keys, after, ok := strings.Cut(after, ":")
		if !ok {
			return r.fail("a list without elements: %q", form)
		}
		if keys != "" {
			into.List.Keys = strings.Split(keys[1:], ",")
		}
		if form, ok = strings.CutPrefix(r.reference(after, &into.List.ElementType), "]"); !ok {
			return r.fail("a list without an end")
		}
	}
	if after, ok := strings.CutPrefix(form, "{"); ok {
		into.Map = &schema.Map{}
		relation, after := r.relation(after)
		into.Map.ElementRelationship = *relation
		if elements, ok := strings.CutPrefix(after, ":"); ok {
			if after, ok = strings.CutPrefix(r.reference(elements, &into.Map.ElementType), "}"); !ok {
				return r.fail("a map without an end")
			}
		}
		form = after
	}
	return form
}

// value reads a default, as YAML would have it.
func (r *reader) value(text string) any {
	switch text {
	case "{}":
		return empty
	case `""`:
		return ""
	case "0":
		return 0
	case "false":
		return false
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		r.fail("default %s: %w", text, err)
	}
	return asYAML(v)
}

// asYAML turns what JSON has made of a value into what YAML makes of it.
func asYAML(v any) any {
	switch v := v.(type) {
	case float64:
		return int(v)
	case map[string]any:
		m := make(map[any]any, len(v))
		for key, value := range v {
			m[key] = asYAML(value)
		}
		return m
	}
	return v
}
