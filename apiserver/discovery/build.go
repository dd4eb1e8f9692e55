package discovery

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
)

// Build makes the documents for a set of kinds. It shares those with previous, which may be nil, that are about the same rows.
func Build(rows []*kinds.Kind, previous *Documents) *Documents {
	groups := collect(rows)
	d := &Documents{paths: map[string]*document{}, previous: previous}
	var core, rest []group
	for _, g := range groups {
		for _, v := range g.versions {
			d.add(v.path(g.name), v.rows, func() runtime.Object { return resourceList(g.name, v) }, nil)
		}
		if g.name == "" {
			core = append(core, g)
			continue
		}
		rest = append(rest, g)
		d.add("/apis/"+g.name, g.rows(), func() runtime.Object {
			group := apiGroup(g)
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return &group
		}, nil)
	}
	d.add("/api", allRows(core), apiVersions, func() runtime.Object { return aggregatedList(core) })
	d.add("/apis", allRows(rest), func() runtime.Object { return groupList(rest) }, func() runtime.Object { return aggregatedList(rest) })
	d.previous = nil
	return d
}

func apiVersions() runtime.Object {
	return &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"},
		// No address: clients go on with the one they have.
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}
}

func groupList(groups []group) *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, g := range groups {
		list.Groups = append(list.Groups, apiGroup(g))
	}
	return list
}

func aggregatedList(groups []group) *apidiscovery.APIGroupDiscoveryList {
	list := &apidiscovery.APIGroupDiscoveryList{TypeMeta: aggregatedType}
	for _, g := range groups {
		list.Items = append(list.Items, aggregated(g))
	}
	return list
}

var aggregatedType = metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}

type group struct {
	name     string
	versions []version // preferred first
}

// rows are those of all versions.
func (g group) rows() []*kinds.Kind {
	var rows []*kinds.Kind
	for _, v := range g.versions {
		rows = append(rows, v.rows...)
	}
	return rows
}

func allRows(groups []group) []*kinds.Kind {
	var rows []*kinds.Kind
	for _, g := range groups {
		rows = append(rows, g.rows()...)
	}
	return rows
}

type version struct {
	name string
	rows []*kinds.Kind // by resource name
}

func (v version) path(group string) string {
	if group == "" {
		return "/api/" + v.name
	}
	return "/apis/" + group + "/" + v.name
}

func collect(rows []*kinds.Kind) []group {
	byGV := map[schema.GroupVersion][]*kinds.Kind{}
	var gvs []schema.GroupVersion
	for _, k := range rows {
		gv := k.GVK.GroupVersion()
		if byGV[gv] == nil {
			gvs = append(gvs, gv)
		}
		byGV[gv] = append(byGV[gv], k)
	}
	slices.SortFunc(gvs, func(a, b schema.GroupVersion) int {
		if n := compareGroups(a.Group, b.Group); n != 0 {
			return n
		}
		return compareVersions(a.Version, b.Version)
	})
	var groups []group
	for _, gv := range gvs {
		if len(groups) == 0 || groups[len(groups)-1].name != gv.Group {
			groups = append(groups, group{name: gv.Group})
		}
		g := &groups[len(groups)-1]
		in := byGV[gv]
		slices.SortFunc(in, func(a, b *kinds.Kind) int { return strings.Compare(a.Resource, b.Resource) })
		g.versions = append(g.versions, version{name: gv.Version, rows: in})
	}
	return groups
}

func apiGroup(g group) metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v.name, Version: v.name})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

func resourceList(groupName string, v version) *metav1.APIResourceList {
	gv := schema.GroupVersion{Group: groupName, Version: v.name}
	out := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, k := range v.rows {
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name:               k.Resource,
			SingularName:       k.Singular,
			Namespaced:         k.Namespaced,
			Kind:               k.GVK.Kind,
			Verbs:              Verbs(k),
			ShortNames:         k.ShortNames,
			Categories:         k.Categories,
			StorageVersionHash: storageVersionHash(k),
		})
		for _, s := range subresources(k) {
			r := metav1.APIResource{Name: k.Resource + "/" + s.Name, Namespaced: k.Namespaced, Kind: k.GVK.Kind, Verbs: s.Verbs}
			if gvk := bodyKind(k, &s); gvk != k.GVK {
				r.Kind = gvk.Kind
				if gvk.GroupVersion() != gv {
					r.Group, r.Version = gvk.Group, gvk.Version
				}
			}
			out.APIResources = append(out.APIResources, r)
		}
	}
	return out
}

func aggregated(g group) apidiscovery.APIGroupDiscovery {
	out := apidiscovery.APIGroupDiscovery{}
	out.Name = g.name
	for _, v := range g.versions {
		av := apidiscovery.APIVersionDiscovery{Version: v.name, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		for _, k := range v.rows {
			r := apidiscovery.APIResourceDiscovery{
				Resource:         k.Resource,
				ResponseKind:     ref(k.GVK),
				Scope:            apidiscovery.ScopeCluster,
				SingularResource: k.Singular,
				Verbs:            Verbs(k),
				ShortNames:       k.ShortNames,
				Categories:       k.Categories,
			}
			if k.Namespaced {
				r.Scope = apidiscovery.ScopeNamespace
			}
			for _, s := range subresources(k) {
				r.Subresources = append(r.Subresources, apidiscovery.APISubresourceDiscovery{
					Subresource: s.Name, ResponseKind: ref(bodyKind(k, &s)), Verbs: s.Verbs,
				})
			}
			av.Resources = append(av.Resources, r)
		}
		out.Versions = append(out.Versions, av)
	}
	return out
}

// subresources are those of a kind by name.
func subresources(k *kinds.Kind) []kinds.Subresource {
	subs := slices.Clone(k.Subresources)
	for name, connection := range k.Connections {
		subs = append(subs, kinds.Subresource{Name: name, GVK: k.GVK.GroupVersion().WithKind(connection.Kind), Verbs: connection.Verbs})
	}
	slices.SortFunc(subs, func(a, b kinds.Subresource) int { return strings.Compare(a.Name, b.Name) })
	return subs
}

// Verbs are the verbs of a kind's main resource, in discovery's order.
func Verbs(k *kinds.Kind) []string {
	verbs := k.Verbs
	if verbs == nil {
		verbs = kinds.AllVerbs
	}
	if k.NoDeleteCollection {
		verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == "deletecollection" })
	}
	return verbs
}

func bodyKind(k *kinds.Kind, s *kinds.Subresource) schema.GroupVersionKind {
	if s.GVK.Empty() {
		return k.GVK
	}
	return s.GVK
}

func ref(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// storageVersionHash lets storage migration notice that the stored form changed: the first 8 bytes of the SHA-256 of
// group/version/kind. What is not stored has none.
func storageVersionHash(k *kinds.Kind) string {
	if k.Unstored {
		return ""
	}
	k = k.Stored()
	sum := sha256.Sum256([]byte(k.GVK.Group + "/" + k.GVK.Version + "/" + k.GVK.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
