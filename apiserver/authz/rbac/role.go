package rbac

import (
	"math/bits"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"vigil/apiserver/authz"
)

// roleKey names a role; namespace is empty for a ClusterRole.
type roleKey struct{ namespace, name string }

// role is what a Role or ClusterRole allows, compiled.
type role struct {
	rules     []rbacv1.PolicyRule
	resources map[resource][]grant
	paths     []pathRule
}

// resource is what a rule's resources and a request's are compared by. "pods/status" is {resource: "pods", sub: "status"},
// "*/scale" is {"*", "scale"} and "*", which includes subresources, is {"*", "*"}.
type resource struct{ group, resource, sub string }

// grant is what a rule allows to do with a resource.
type grant struct {
	verbs verbs
	names []string // of objects; empty: all
}

type pathRule struct {
	verbs verbs
	path  string // without the star
	tree  bool   // a star follows
}

// verbs is a set of verbs: the usual ones as bits.
type verbs struct {
	bits  uint32
	other []string
}

const everyVerb = 1 << 31

var usualVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"bind", "escalate", "impersonate", "approve", "sign", "attest", "use", "proxy", "post", "put", "head", "options"}

func verbBit(verb string) uint32 {
	if verb == "*" {
		return everyVerb
	}
	if i := slices.Index(usualVerbs, verb); i >= 0 {
		return 1 << i
	}
	return 0
}

func verbsOf(list []string) verbs {
	var v verbs
	for _, verb := range list {
		if bit := verbBit(verb); bit != 0 {
			v.bits |= bit
		} else {
			v.other = append(v.other, verb)
		}
	}
	return v
}

// has says whether a verb is in the set; bit is its verbBit.
func (v verbs) has(verb string, bit uint32) bool {
	return v.bits&(bit|everyVerb) != 0 || (bits.OnesCount32(bit) == 0 && slices.Contains(v.other, verb))
}

func compile(rules []rbacv1.PolicyRule) *role {
	r := &role{rules: rules, resources: map[resource][]grant{}}
	for i := range rules {
		rule := &rules[i]
		g := grant{verbs: verbsOf(rule.Verbs), names: rule.ResourceNames}
		for _, group := range rule.APIGroups {
			for _, name := range rule.Resources {
				key := resourceOf(group, name)
				r.resources[key] = append(r.resources[key], g)
			}
		}
		for _, path := range rule.NonResourceURLs {
			p := pathRule{verbs: g.verbs, path: path}
			if strings.HasSuffix(path, "*") {
				p.path, p.tree = strings.TrimRight(path, "*"), true
			}
			r.paths = append(r.paths, p)
		}
	}
	return r
}

func resourceOf(group, name string) resource {
	if name == rbacv1.ResourceAll {
		return resource{group, "*", "*"}
	}
	res, sub, _ := strings.Cut(name, "/")
	return resource{group, res, sub}
}

// ask is a question in the form that roles answer.
type ask struct {
	verb     string
	bit      uint32
	resource resource // resource.resource is empty for a path
	name     string
	path     string
}

// allows says whether the role answers a question with yes.
func (r *role) allows(q *ask) bool {
	if q.resource.resource == "" {
		for i := range r.paths {
			if p := &r.paths[i]; (p.path == q.path || p.tree && strings.HasPrefix(q.path, p.path)) && p.verbs.has(q.verb, q.bit) {
				return true
			}
		}
		return false
	}
	if len(r.resources) == 0 {
		return false
	}
	return r.group(q, q.resource.group) || r.group(q, rbacv1.APIGroupAll)
}

func (r *role) group(q *ask, group string) bool {
	if granted(r.resources[resource{group, q.resource.resource, q.resource.sub}], q) {
		return true
	}
	if q.resource.sub != "" && granted(r.resources[resource{group, "*", q.resource.sub}], q) {
		return true
	}
	return granted(r.resources[resource{group, "*", "*"}], q)
}

func granted(list []grant, q *ask) bool {
	for i := range list {
		if g := &list[i]; g.verbs.has(q.verb, q.bit) && (len(g.names) == 0 || slices.Contains(g.names, q.name)) {
			return true
		}
	}
	return false
}

// Rules are rules that are held without a binding.
type Rules struct{ role *role }

// Compile prepares rules for [Rules.Allow].
func Compile(rules []rbacv1.PolicyRule) *Rules { return &Rules{compile(rules)} }

// Allow says whether one of the rules allows what is asked for.
func (r *Rules) Allow(attr *authz.Attributes) bool {
	q := askOf(attr)
	return r.role.allows(&q)
}

func askOf(attr *authz.Attributes) ask {
	q := ask{verb: attr.Verb, bit: verbBit(attr.Verb), name: attr.Name}
	if attr.Resource != "" {
		q.resource = resource{attr.Group, attr.Resource, attr.Subresource}
	} else {
		q.path = attr.Path
	}
	return q
}
