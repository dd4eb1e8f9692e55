package watchcache

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"vigil/object"
)

// Selection is what a list or a watch selects. The zero value selects everything. Name and the exact terms of Fields for
// metadata.name, metadata.namespace and indexed fields lead directly to the objects; the rest is tried on each.
type Selection struct {
	Namespace string          // "" is all
	Name      string          // "" is all
	Labels    labels.Selector // nil is all
	Fields    fields.Selector // nil is all; labels that the type does not have never match a value

	// As is the type that what is selected is returned as, a view of the cache's; nil is the cache's own.
	As *object.Type
}

// plan is a Selection made ready for one cache: where to look, and what is left to try there. It never changes.
type plan struct {
	prefix string // all selected keys start with it: the resource's prefix, with the namespace if one is selected
	key    string // the only key that can be selected; "" when there may be several
	empty  bool   // contradictory: selects nothing
	index  int    // the index that leads to the objects, or -1
	value  string // what is looked up in it

	branch branchKey
	as     *object.Type // nil: as it is

	// The rest is to be tried on each object found.
	byPrefix bool // an index leads across prefix
	fields   fields.Requirements
	labels   labels.Selector
	needs    digest // of labels
	trivial  bool   // nothing is left to try
	filtered bool   // as asked by the client: by labels or fields beyond the namespace
}

func (c *Cache) plan(sel Selection) *plan {
	p := &plan{prefix: c.res.Prefix, index: -1, branch: branchKey{by: byAll}, as: sel.As}
	if sel.Labels != nil && !sel.Labels.Empty() {
		p.labels, p.needs, p.filtered = sel.Labels, c.server.digester.needs(sel.Labels), true
	}
	namespace, name := sel.Namespace, sel.Name
	pin := func(to *string, value string) {
		p.empty = p.empty || value == "" || *to != "" && *to != value
		*to = value
	}
	if sel.Fields != nil && !sel.Fields.Empty() {
		p.filtered = true
		for _, req := range sel.Fields.Requirements() {
			exact := req.Operator == selection.Equals || req.Operator == selection.DoubleEquals
			switch {
			case exact && req.Field == "metadata.name":
				pin(&name, req.Value)
			case exact && req.Field == "metadata.namespace" && c.res.Type.Namespaced:
				pin(&namespace, req.Value)
			case exact && p.index < 0 && c.indexOf(req.Field) >= 0:
				p.index, p.value = c.indexOf(req.Field), req.Value
			default:
				p.fields = append(p.fields, req)
			}
		}
	}
	if namespace != "" && c.res.Type.Namespaced {
		p.prefix += namespace + "/"
		p.branch = branchKey{byNamespace, namespace}
	}
	if name != "" {
		if c.res.Type.Namespaced && namespace == "" {
			p.fields = append(p.fields, fields.Requirement{Field: "metadata.name", Operator: selection.Equals, Value: name})
		} else {
			p.key = p.prefix + name
			p.branch = branchKey{byKey, p.key}
		}
	}
	switch {
	case p.index < 0:
	case p.key != "":
		// The key leads further than the index.
		p.fields = append(p.fields, fields.Requirement{Field: c.res.Indexes[p.index], Operator: selection.Equals, Value: p.value})
		p.index = -1
	default:
		p.byPrefix = p.prefix != c.res.Prefix
		p.branch = branchKey{byIndex + branchKind(p.index), p.value}
	}
	p.trivial = !p.byPrefix && len(p.fields) == 0 && p.labels == nil
	if p.empty {
		p.branch, p.key, p.index = branchKey{byKey, ""}, "", -1 // where no event ever comes
	}
	return p
}

func (c *Cache) indexOf(label string) int {
	for i, l := range c.res.Indexes {
		if l == label {
			return i
		}
	}
	return -1
}

// tries reports whether an object that was found where the plan leads is selected.
func (p *plan) tries(v item) bool {
	if !v.labels.may(p.needs) || p.byPrefix && !strings.HasPrefix(v.Key(), p.prefix) {
		return false
	}
	for i := range p.fields {
		req := &p.fields[i]
		if v.FieldIs(req.Field, req.Value) == (req.Operator == selection.NotEquals) {
			return false
		}
	}
	return p.labels == nil || p.labels.Matches(v.Labels())
}

// show returns a selected version as the plan's user wants it.
func (p *plan) show(v *object.Version) (*object.Version, error) {
	if p.as == nil {
		return v, nil
	}
	shown, err := v.As(p.as)
	if err != nil {
		return nil, &BrokenError{Keys: []string{v.Key()}, Cause: err}
	}
	return shown, nil
}

// covers reports whether a key that cannot be looked into may be one of the selected.
func (p *plan) covers(key string) bool {
	if p.empty {
		return false
	}
	if p.key != "" {
		return key == p.key
	}
	return strings.HasPrefix(key, p.prefix)
}
