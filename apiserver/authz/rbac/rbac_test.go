package rbac

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

var seedFlag = flag.Uint64("seed", 1, "of the random policies")

// policy is roles and bindings as they are written, for the obvious evaluation.
type policy struct {
	roles    map[roleKey][]rbacv1.PolicyRule
	bindings map[bindingKey]*binding
}

// allowed walks over all bindings, as upstream's authorizer does.
func (p *policy) allowed(attr *authz.Attributes) bool {
	for _, b := range p.bindings {
		if b.key.namespace != "" && b.key.namespace != attr.Namespace {
			continue
		}
		if !slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool { return applies(b, s, attr.User) }) {
			continue
		}
		for _, rule := range p.roles[b.role()] {
			if ruleAllows(rule, attr) {
				return true
			}
		}
	}
	return false
}

func (p *policy) clone() *policy { return &policy{maps.Clone(p.roles), maps.Clone(p.bindings)} }

func applies(b *binding, s rbacv1.Subject, user *authn.User) bool {
	switch s.Kind {
	case rbacv1.GroupKind:
		return slices.Contains(user.Groups, s.Name)
	case rbacv1.UserKind:
		return user.Name == s.Name
	}
	namespace := s.Namespace
	if namespace == "" {
		namespace = b.key.namespace
	}
	return namespace != "" && user.Name == "system:serviceaccount:"+namespace+":"+s.Name
}

func ruleAllows(rule rbacv1.PolicyRule, attr *authz.Attributes) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	if !has(rule.Verbs, attr.Verb) {
		return false
	}
	if attr.Resource == "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			return url == attr.Path || strings.HasSuffix(url, "*") && strings.HasPrefix(attr.Path, strings.TrimRight(url, "*"))
		})
	}
	full := attr.Resource
	if attr.Subresource != "" {
		full += "/" + attr.Subresource
	}
	return has(rule.APIGroups, attr.Group) &&
		(has(rule.Resources, full) || attr.Subresource != "" && slices.Contains(rule.Resources, "*/"+attr.Subresource)) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, attr.Name))
}

var (
	someVerbs      = []string{"get", "list", "watch", "create", "bind", "nonsense", "*"}
	someGroups     = []string{"", "apps", "*"}
	someResources  = []string{"pods", "pods/status", "*/status", "deployments", "*", "secrets"}
	someURLs       = []string{"/healthz", "/healthz/*", "*", "/api/*", "/metrics"}
	someNames      = []string{"a", "b", "c"}
	someNamespaces = []string{"n1", "n2", "n3"}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func some(r *rand.Rand, list []string) []string {
	out := []string{pick(r, list)}
	for r.IntN(3) == 0 {
		out = append(out, pick(r, list))
	}
	return out
}

func randomRules(r *rand.Rand) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for range 1 + r.IntN(3) {
		rule := rbacv1.PolicyRule{Verbs: some(r, someVerbs)}
		if r.IntN(4) == 0 {
			rule.NonResourceURLs = some(r, someURLs)
		} else {
			rule.APIGroups, rule.Resources = some(r, someGroups), some(r, someResources)
			if r.IntN(3) == 0 {
				rule.ResourceNames = some(r, someNames)
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

func randomBinding(r *rand.Rand, key bindingKey) *binding {
	b := &binding{key: key, ref: rbacv1.RoleRef{Kind: "ClusterRole", Name: pick(r, someNames)}}
	if key.namespace != "" && r.IntN(2) == 0 {
		b.ref.Kind = "Role"
	}
	for range r.IntN(3) {
		s := rbacv1.Subject{Kind: []string{"User", "Group", "ServiceAccount"}[r.IntN(3)], Name: pick(r, someNames)}
		if s.Kind == "ServiceAccount" && r.IntN(2) == 0 {
			s.Namespace = pick(r, someNamespaces)
		}
		b.subjects = append(b.subjects, s)
	}
	return b
}

func randomAttributes(r *rand.Rand) *authz.Attributes {
	user := &authn.User{Name: pick(r, someNames)}
	if r.IntN(3) == 0 {
		user.Name = "system:serviceaccount:" + pick(r, someNamespaces) + ":" + pick(r, someNames)
	}
	if r.IntN(2) == 0 {
		user.Groups = some(r, someNames)
	}
	attr := &authz.Attributes{User: user, Verb: pick(r, someVerbs[:6])}
	if r.IntN(4) == 0 {
		attr.Path = pick(r, []string{"/healthz", "/healthz/etcd", "/api/v1", "/metrics", "/"})
		return attr
	}
	attr.Group = pick(r, someGroups[:2])
	attr.Resource, attr.Subresource, _ = strings.Cut(pick(r, []string{"pods", "pods/status", "deployments", "deployments/scale", "secrets"}), "/")
	if r.IntN(3) != 0 {
		attr.Namespace = pick(r, someNamespaces)
	}
	if r.IntN(2) == 0 {
		attr.Name = pick(r, someNames)
	}
	return attr
}

// TestIndex_LikeTheObviousEvaluation edits random policies at random, many edits to an index and one, and asks both.
func TestIndex_LikeTheObviousEvaluation(t *testing.T) {
	t.Logf("seed %d", *seedFlag)
	r := rand.New(rand.NewPCG(*seedFlag, 0))
	p := &policy{map[roleKey][]rbacv1.PolicyRule{}, map[bindingKey]*binding{}}
	a, old := New(nil), p.clone()
	yes := 0
	for round := range 2000 {
		e := newEdit(a.index.Load())
		for range r.IntN(4) {
			namespace := ""
			if r.IntN(2) == 0 {
				namespace = pick(r, someNamespaces)
			}
			role, bound := roleKey{namespace, pick(r, someNames)}, bindingKey{namespace, pick(r, someNames)}
			switch r.IntN(5) {
			case 0, 1:
				p.roles[role] = randomRules(r)
				e.setRole(role, p.roles[role])
			case 2, 3:
				p.bindings[bound] = randomBinding(r, bound)
				e.setBinding(p.bindings[bound])
			default:
				delete(p.roles, role)
				e.dropRole(role)
				delete(p.bindings, bound)
				e.dropBinding(bound)
			}
		}
		before, attr := New(nil), randomAttributes(r)
		before.index.Store(a.index.Load())
		kept := old.allowed(attr)
		if got, _, _ := before.Authorize(context.Background(), attr); got != kept {
			t.Fatalf("round %d: an edit has changed the index that it was made from", round)
		}
		old = p.clone()
		a.index.Store(e.done())
		for range 10 {
			attr := randomAttributes(r)
			got, reason, err := a.Authorize(context.Background(), attr)
			if err != nil {
				t.Fatal(err)
			}
			if want := p.allowed(attr); got != want {
				t.Fatalf("round %d: %+v of %+v: allowed %v (%s), want %v", round, attr, attr.User, got, reason, want)
			}
			if got {
				yes++
			}
		}
	}
	if yes < 100 || yes > 19900 {
		t.Fatalf("%d of 20000 questions were answered with yes: nothing has been tested", yes)
	}
}

func TestAuthorize_Reasons(t *testing.T) {
	a := New(nil)
	e := newEdit(nil)
	e.setRole(roleKey{"", "reader"}, []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}})
	e.setBinding(&binding{bindingKey{"", "b"}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, []rbacv1.Subject{{Kind: "Group", Name: "devs"}}})
	e.setBinding(&binding{bindingKey{"ns", "c"}, rbacv1.RoleRef{Kind: "Role", Name: "gone"}, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sa"}}})
	e.setBinding(&binding{bindingKey{"ns", "d"}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "ok", Namespace: "other"}}})
	a.index.Store(e.done())
	for _, test := range []struct {
		user    authn.User
		allowed bool
		reason  string
	}{
		{authn.User{Name: "x", Groups: []string{"devs"}}, true, `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to Group "devs"`},
		{authn.User{Name: "system:serviceaccount:ns:sa"}, false, `RBAC: roles.rbac.authorization.k8s.io "gone" not found`},
		{authn.User{Name: "system:serviceaccount:other:ok"}, true, `RBAC: allowed by RoleBinding "d/ns" of ClusterRole "reader" to ServiceAccount "ok/other"`},
		{authn.User{Name: "nobody"}, false, ""},
	} {
		allowed, reason, err := a.Authorize(context.Background(), &authz.Attributes{User: &test.user, Verb: "get", Resource: "pods", Namespace: "ns", Name: "p"})
		if err != nil || allowed != test.allowed || reason != test.reason {
			t.Errorf("%s: %v, %q, %v; want %v, %q", test.user.Name, allowed, reason, err, test.allowed, test.reason)
		}
	}
}

// tenants is n bindings: of a view role in a namespace for a team and its service account, and cluster-wide ones for everybody.
func tenants(n int) *policy {
	p := &policy{map[roleKey][]rbacv1.PolicyRule{}, map[bindingKey]*binding{}}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("resource%d", i))
	}
	p.roles[roleKey{"", "view"}] = []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"", "apps", "batch"}, Resources: append(many, "pods", "pods/log")},
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"networking.k8s.io"}, Resources: many},
	}
	p.roles[roleKey{"", "discovery"}] = []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*"}}}
	p.roles[roleKey{"", "basic"}] = []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews"}}}
	for _, name := range []string{"discovery", "basic"} {
		key := bindingKey{"", name}
		p.bindings[key] = &binding{key, rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, []rbacv1.Subject{{Kind: "Group", Name: "system:authenticated"}}}
	}
	for i := range n - 2 {
		key := bindingKey{fmt.Sprintf("team-%d", i/2), fmt.Sprintf("view-%d", i%2)}
		p.bindings[key] = &binding{key, rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, []rbacv1.Subject{
			{Kind: "Group", Name: fmt.Sprintf("team-%d", i/2)}, {Kind: "ServiceAccount", Name: fmt.Sprintf("sa-%d", i%2)},
		}}
	}
	return p
}

func (p *policy) compiled() *Authorizer {
	a, e := New(nil), newEdit(nil)
	for key, rules := range p.roles {
		e.setRole(key, rules)
	}
	for _, b := range p.bindings {
		e.setBinding(b)
	}
	a.index.Store(e.done())
	return a
}

func question() *authz.Attributes {
	return &authz.Attributes{
		User: &authn.User{Name: "system:serviceaccount:team-4000:sa-1", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:team-4000", "system:authenticated"}},
		Verb: "get", Version: "v1", Resource: "pods", Subresource: "log", Namespace: "team-4000", Name: "p",
	}
}

// BenchmarkAuthorize asks among 10,000 bindings: the index, and the obvious walk over all of them.
func BenchmarkAuthorize(b *testing.B) {
	p := tenants(10000)
	a := p.compiled()
	no := question()
	no.Verb = "delete"
	for _, test := range []struct {
		name string
		attr *authz.Attributes
		want bool
	}{{"allowed", question(), true}, {"refused", no, false}} {
		b.Run("index/"+test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if ok, _, _ := a.Authorize(context.Background(), test.attr); ok != test.want {
					b.Fatal("wrong answer")
				}
			}
		})
		b.Run("linear/"+test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.allowed(test.attr) != test.want {
					b.Fatal("wrong answer")
				}
			}
		})
	}
}

// BenchmarkEdit changes one of 10,000 bindings.
func BenchmarkEdit(b *testing.B) {
	p := tenants(10000)
	a := p.compiled()
	one := p.bindings[bindingKey{"team-7", "view-1"}]
	b.ReportAllocs()
	for b.Loop() {
		e := newEdit(a.index.Load())
		e.setBinding(one)
		a.index.Store(e.done())
	}
}
