package discovery

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
)

func kind(group, version, name, plural string, change func(*kinds.Kind)) *kinds.Kind {
	k := &kinds.Kind{GVK: schema.GroupVersionKind{Group: group, Version: version, Kind: name}, Resource: plural, Singular: plural[:len(plural)-1], Namespaced: true}
	if change != nil {
		change(k)
	}
	return k
}

func rows() []*kinds.Kind {
	return []*kinds.Kind{
		kind("zoo.example.io", "v1alpha1", "Lion", "lions", nil),
		kind("zoo.example.io", "v1", "Lion", "lions", func(k *kinds.Kind) { k.ShortNames = []string{"ln"}; k.NoDeleteCollection = true }),
		kind("zoo.example.io", "v2beta1", "Lion", "lions", nil),
		kind("aaa.example.io", "v1", "Ant", "ants", func(k *kinds.Kind) { k.Unstored = true; k.Verbs = []string{"create"} }),
		kind("apps", "v1", "Web", "webs", func(k *kinds.Kind) {
			k.Subresources = []kinds.Subresource{
				{Name: "status", Verbs: []string{"get"}},
				{Name: "scale", Verbs: []string{"get"}, GVK: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}},
			}
		}),
		kind("", "v1", "Room", "rooms", func(k *kinds.Kind) { k.Namespaced = false }),
	}
}

func get(t *testing.T, d *Documents, path string, header map[string]string, into any) *httptest.ResponseRecorder {
	t.Helper()
	if !d.Has(path) {
		t.Fatalf("no document at %s", path)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v in %s", path, err, w.Body)
		}
	}
	return w
}

// TestDocuments_Order: clients that know only a name take the first group and its first version, so the order is upstream's: the core's
// groups as it ranks them, others by name, versions with the stable and newest first.
func TestDocuments_Order(t *testing.T) {
	d := Build(rows(), nil)
	var list metav1.APIGroupList
	get(t, d, "/apis", nil, &list)
	var groups, versions []string
	for _, g := range list.Groups {
		groups = append(groups, g.Name)
	}
	zoo := list.Groups[len(list.Groups)-1]
	for _, v := range zoo.Versions {
		versions = append(versions, v.GroupVersion)
	}
	if !slices.Equal(groups, []string{"apps", "aaa.example.io", "zoo.example.io"}) {
		t.Errorf("groups %v", groups)
	}
	if !slices.Equal(versions, []string{"zoo.example.io/v1", "zoo.example.io/v2beta1", "zoo.example.io/v1alpha1"}) || zoo.PreferredVersion.Version != "v1" {
		t.Errorf("versions %v, preferred %s", versions, zoo.PreferredVersion.Version)
	}
	if d.Has("/apis/") != true || d.Has("/apis/zoo.example.io/v3") || d.Has("/api/v2") {
		t.Error("documents are there that should not be, or the other way round")
	}
}

// TestDocuments_Resources: a resource says what can be done with it, a subresource of which kind its body is, and only what is stored has a hash.
func TestDocuments_Resources(t *testing.T) {
	d := Build(rows(), nil)
	resources := func(path string) map[string]metav1.APIResource {
		var list metav1.APIResourceList
		get(t, d, path, nil, &list)
		found := map[string]metav1.APIResource{}
		for _, r := range list.APIResources {
			found[r.Name] = r
		}
		return found
	}
	lions := resources("/apis/zoo.example.io/v1")["lions"]
	if slices.Contains(lions.Verbs, "deletecollection") || !slices.Contains(lions.Verbs, "watch") || !slices.Equal(lions.ShortNames, []string{"ln"}) || lions.StorageVersionHash == "" || !lions.Namespaced {
		t.Errorf("lions: %+v", lions)
	}
	if ants := resources("/apis/aaa.example.io/v1")["ants"]; ants.StorageVersionHash != "" || !slices.Equal(ants.Verbs, []string{"create"}) {
		t.Errorf("ants: %+v", ants)
	}
	webs := resources("/apis/apps/v1")
	if s := webs["webs/scale"]; s.Group != "autoscaling" || s.Version != "v1" || s.Kind != "Scale" {
		t.Errorf("webs/scale: %+v", s)
	}
	if s := webs["webs/status"]; s.Group != "" || s.Version != "" || s.Kind != "Web" {
		t.Errorf("webs/status: %+v", s)
	}
	if rooms := resources("/api/v1")["rooms"]; rooms.Namespaced {
		t.Errorf("rooms: %+v", rooms)
	}
}

// TestDocuments_Aggregated: the aggregated document says the same at once, and who has it already gets 304.
func TestDocuments_Aggregated(t *testing.T) {
	d := Build(rows(), nil)
	accept := map[string]string{"Accept": AggregatedType + ",application/json"}
	var list apidiscovery.APIGroupDiscoveryList
	w := get(t, d, "/apis", accept, &list)
	if w.Header().Get("Content-Type") != AggregatedType || w.Header().Get("Vary") != "Accept" {
		t.Errorf("headers %v", w.Header())
	}
	if len(list.Items) != 3 || list.Items[0].Name != "apps" || list.Items[0].Versions[0].Resources[0].Subresources[0].Subresource != "scale" {
		t.Errorf("items %+v", list.Items)
	}
	etag := w.Header().Get("ETag")
	for header, code := range map[string]int{etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200, "": 200} {
		accept["If-None-Match"] = header
		if w := get(t, d, "/apis", accept, nil); w.Code != code || code == 304 && w.Body.Len() > 0 {
			t.Errorf("If-None-Match: %q: %d with %d bytes, want %d", header, w.Code, w.Body.Len(), code)
		}
	}
	if w := get(t, d, "/apis", map[string]string{"Accept": "text/html"}, nil); w.Code != http.StatusNotAcceptable {
		t.Errorf("HTML: %d, want 406", w.Code)
	}
	less := Build(rows()[1:], nil)
	if w := get(t, less, "/apis", map[string]string{"Accept": AggregatedType}, nil); w.Header().Get("ETag") == etag {
		t.Error("another state has the same ETag")
	}
}

// TestDocuments_Shared: a change of what is served makes those documents anew that it changes, and no others.
func TestDocuments_Shared(t *testing.T) {
	before := rows()
	d := Build(before, nil)
	next := Build(append(before, kind("zoo.example.io", "v1", "Zebra", "zebras", nil)), d)
	for path, shared := range map[string]bool{
		"/api": true, "/api/v1": true, "/apis/apps": true, "/apis/apps/v1": true, "/apis/zoo.example.io/v1alpha1": true,
		"/apis": false, "/apis/zoo.example.io": false, "/apis/zoo.example.io/v1": false,
	} {
		if (d.paths[path] == next.paths[path]) != shared {
			t.Errorf("%s is shared: %v, want %v", path, !shared, shared)
		}
	}
	var list metav1.APIResourceList
	get(t, next, "/apis/zoo.example.io/v1", nil, &list)
	if len(list.APIResources) != 2 {
		t.Errorf("resources %+v", list.APIResources)
	}
	if get(t, d, "/apis/zoo.example.io/v1", nil, &list); len(list.APIResources) != 1 {
		t.Errorf("the documents of before have changed: %+v", list.APIResources)
	}
}
