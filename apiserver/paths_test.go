package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/internal/eventually"
)

func TestDiscovery(t *testing.T) {
	s, c, _ := start(t)
	var versions metav1.APIVersions
	c.get("/api").into(&versions)
	if versions.Kind != "APIVersions" || !slices.Equal(versions.Versions, []string{"v1"}) {
		t.Errorf("/api: %+v", versions)
	}
	var groups metav1.APIGroupList
	c.get("/apis").into(&groups)
	var names []string
	for _, g := range groups.Groups {
		names = append(names, g.Name+"="+g.PreferredVersion.GroupVersion)
	}
	if len(names) < 3 || !slices.Equal(names[:3], []string{"apiregistration.k8s.io=apiregistration.k8s.io/v1", "apps=apps/v1", "events.k8s.io=events.k8s.io/v1"}) || !slices.Contains(names, "coordination.k8s.io=coordination.k8s.io/v1") {
		t.Errorf("/apis: %v", names)
	}
	var group metav1.APIGroup
	c.get("/apis/apps").into(&group)
	if group.Kind != "APIGroup" || group.Name != "apps" || group.PreferredVersion.Version != "v1" {
		t.Errorf("/apis/apps: %+v", group)
	}
	var core metav1.APIResourceList
	c.get("/api/v1").into(&core)
	find := func(name string) metav1.APIResource {
		for _, r := range core.APIResources {
			if r.Name == name {
				return r
			}
		}
		t.Fatalf("/api/v1 has no %s", name)
		return metav1.APIResource{}
	}
	if pods := find("pods"); pods.StorageVersionHash != "xPOwRZ+Yhw8=" || pods.SingularName != "pod" || !pods.Namespaced || pods.Kind != "Pod" ||
		!slices.Equal(pods.ShortNames, []string{"po"}) || !slices.Equal(pods.Categories, []string{"all"}) ||
		!slices.Equal(pods.Verbs, []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}) {
		t.Errorf("pods: %+v", pods)
	}
	if ns := find("namespaces"); slices.Contains(ns.Verbs, "deletecollection") || ns.Namespaced {
		t.Errorf("namespaces: %+v", ns)
	}
	find("pods/status")
	var apps metav1.APIResourceList
	c.get("/apis/apps/v1/").into(&apps)
	i := slices.IndexFunc(apps.APIResources, func(r metav1.APIResource) bool { return r.Name == "deployments/scale" })
	if i < 0 || apps.APIResources[i].Kind != "Scale" || apps.APIResources[i].Group != "autoscaling" || apps.APIResources[i].Version != "v1" {
		t.Errorf("apps/v1: %+v", apps)
	}

	t.Run("aggregated", func(t *testing.T) {
		const typ = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		r := c.get("/apis", "Accept: "+typ+",application/json")
		var list apidiscovery.APIGroupDiscoveryList
		r.into(&list)
		etag := r.header.Get("ETag")
		if r.header.Get("Content-Type") != typ || len(etag) != 130 || r.header.Get("Vary") != "Accept" || r.header.Get("Cache-Control") != "public" {
			t.Errorf("header %v", r.header)
		}
		if list.Kind != "APIGroupDiscoveryList" || list.APIVersion != "apidiscovery.k8s.io/v2" || list.Items[0].Name != "apiregistration.k8s.io" || list.Items[0].Versions[0].Freshness != "Current" {
			t.Errorf("got %+v", list)
		}
		if r := c.get("/apis", "Accept: "+typ, "If-None-Match: "+etag); r.code != http.StatusNotModified || len(r.body) != 0 {
			t.Errorf("with the right tag: got %d", r.code)
		}
		if r := c.get("/apis", "Accept: "+typ, `If-None-Match: "X"`); r.code != http.StatusOK {
			t.Errorf("with a wrong tag: got %d", r.code)
		}
		if r := c.get("/apis", "Accept: application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json"); !strings.HasPrefix(string(r.body), `{"kind":"APIGroupList"`) {
			t.Errorf("unknown version: got %.60s", r.body)
		}
		r = c.get("/api", "Accept: application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		var u runtime.Unknown
		if err := u.Unmarshal(r.body[4:]); err != nil {
			t.Fatal(err)
		}
		var coreGroup apidiscovery.APIGroupDiscoveryList
		if err := coreGroup.Unmarshal(u.Raw); err != nil || len(coreGroup.Items) != 1 || coreGroup.Items[0].Name != "" {
			t.Errorf("protobuf: %+v, %v", coreGroup, err)
		}
	})

	t.Run("client-go", func(t *testing.T) {
		d, err := discovery.NewDiscoveryClientForConfig(s.Admin())
		if err != nil {
			t.Fatal(err)
		}
		_, lists, err := d.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, l := range lists {
			for _, r := range l.APIResources {
				found[l.GroupVersion+"/"+r.Name] = true
			}
		}
		for _, k := range s.Table.All() {
			if !found[k.GVK.GroupVersion().String()+"/"+k.Resource] {
				t.Errorf("client-go does not find %s", k.GVK)
			}
		}
		if v, err := d.ServerVersion(); err != nil || v.Major != "1" || v.Minor != "37" || !strings.HasPrefix(v.GitVersion, "v1.37.") {
			t.Errorf("version %+v, %v", v, err)
		}
	})
}

func TestVersion(t *testing.T) {
	_, c, _ := start(t)
	r := c.get("/version")
	var v version.Info
	r.into(&v)
	if !strings.HasPrefix(string(r.body), "{\n  \"major\": \"1\",") || !strings.Contains(v.GitVersion, "+vigil-") {
		t.Errorf("got %s", r.body)
	}
}

func TestIndex(t *testing.T) {
	_, c, _ := start(t)
	var index metav1.RootPaths
	c.get("/").into(&index)
	for _, want := range []string{"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"} {
		if !slices.Contains(index.Paths, want) {
			t.Errorf("/ lacks %s: %v", want, index.Paths)
		}
	}
}

func TestHealth(t *testing.T) {
	// The hook fails once and is tried again; it sees what /readyz says meanwhile.
	var tries int
	var unready response
	hook := apiserver.StartHook{Name: "slow", Run: func(ctx context.Context, s *apiserver.Server) error {
		if tries++; tries == 1 {
			return errors.New("not yet")
		}
		addr, err := s.WaitServing(ctx)
		if err != nil {
			return err
		}
		insecure := rest.Config{Host: "https://" + addr.String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		unready = newClient(t, &insecure).get("/readyz")
		return nil
	}}
	_, c, _ := start(t, func(c *apiserver.Config) { c.StartHooks = []apiserver.StartHook{hook} })
	if unready.code != http.StatusInternalServerError || !strings.Contains(string(unready.body), "[-]poststarthook/slow failed: reason withheld\n") {
		t.Errorf("before the start hook is done: %d %q", unready.code, unready.body)
	}
	for _, tc := range []struct {
		path string
		code int
		body string
	}{
		{"/healthz", 200, "ok"},
		{"/livez", 200, "ok"},
		{"/readyz", 200, "ok"},
		{"/readyz/", 200, "ok"},
		{"/livez?verbose", 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]poststarthook/slow ok\nlivez check passed\n"},
		{"/readyz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n[+]poststarthook/slow ok\n[+]shutdown ok\nreadyz check passed\n"},
		{"/livez?verbose&exclude=etcd", 200, "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]poststarthook/slow ok\nlivez check passed\n"},
		{"/livez?verbose&exclude=foo", 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]poststarthook/slow ok\nwarn: some health checks cannot be excluded: no matches for \"foo\"\nlivez check passed\n"},
		{"/readyz/etcd", 200, "ok"},
		{"/readyz/poststarthook/slow", 200, "ok"},
		{"/readyz/nope", 404, "404 page not found\n"},
	} {
		r := c.get(tc.path)
		body := regexp.MustCompile(`(?m)^\[!].*\n`).ReplaceAllString(string(r.body), "") // of panics that other tests plant
		if r.code != tc.code || body != tc.body {
			t.Errorf("%s: got %d %q, want %d %q", tc.path, r.code, body, tc.code, tc.body)
		}
	}
}

func TestOpenAPI(t *testing.T) {
	s, c, _ := start(t)
	r := c.get("/openapi/v3")
	var root struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	r.into(&root)
	for _, want := range []string{"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} {
		if root.Paths[want].ServerRelativeURL == "" {
			t.Errorf("root lacks %s: %v", want, root)
		}
	}
	if r.header.Get("ETag") == "" || c.get("/openapi/v3", "If-None-Match: "+r.header.Get("ETag")).code != http.StatusNotModified {
		t.Errorf("root: header %v", r.header)
	}
	url := root.Paths["api/v1"].ServerRelativeURL
	r = c.get(url, "Accept: application/json")
	if r.code != 200 || r.header.Get("Cache-Control") != "public, immutable" || r.header.Get("Vary") != "Accept" {
		t.Errorf("with hash: got %d, %v", r.code, r.header)
	}
	if r := c.get(url, "If-None-Match: "+r.header.Get("ETag")); r.code != http.StatusNotModified {
		t.Errorf("with tag: got %d", r.code)
	}
	if r := c.get("/openapi/v3/api/v1"); r.code != 200 || r.header.Get("Cache-Control") != "no-cache, private" {
		t.Errorf("without hash: got %d, %v", r.code, r.header)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if r := c.get("/openapi/v3/api/v1?hash=X"); r.code != http.StatusMovedPermanently || r.header.Get("Location") != url {
		t.Errorf("wrong hash: got %d, %v", r.code, r.header)
	}
	if r := c.get("/openapi/v3/api/v1", "Accept: text/plain"); r.code != http.StatusNotAcceptable {
		t.Errorf("text: got %d", r.code)
	}
	const pb = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	if r := c.get("/openapi/v3/api/v1", "Accept: "+pb); r.code != 200 || r.header.Get("Content-Type") != pb {
		t.Errorf("protobuf: got %d %v", r.code, r.header)
	}

	d, err := discovery.NewDiscoveryClientForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewRoot(d.OpenAPIV3()).GVSpec(schema.GroupVersion{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	patch := doc.Paths.Paths["/api/v1/namespaces/{namespace}/pods/{name}"].Patch
	var gvk map[string]string
	if err := patch.Extensions.GetObject("x-kubernetes-group-version-kind", &gvk); err != nil || gvk["kind"] != "Pod" {
		t.Errorf("patch of pods: %v, %v", patch.Extensions, err)
	}
	found := false
	for _, p := range patch.Parameters {
		found = found || p.Name == "fieldValidation" && p.In == "query"
	}
	if !found || patch.RequestBody.Content["application/strategic-merge-patch+json"] == nil {
		t.Errorf("patch of pods: parameters %v, body %v", patch.Parameters, patch.RequestBody)
	}
	containers := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties["containers"]
	if key, _ := containers.Extensions.GetString("x-kubernetes-patch-merge-key"); key != "name" {
		t.Errorf("containers: %v", containers.Extensions)
	}
	for name, model := range doc.Components.Schemas {
		checkRefs(t, name, model, doc.Components.Schemas)
	}
	if _, err := d.OpenAPISchema(); err != nil {
		t.Errorf("version 2: %v", err)
	}
}

// checkRefs marshals a schema and looks for references that lead nowhere.
func checkRefs[M any](t *testing.T, name string, model M, all map[string]M) {
	t.Helper()
	b, err := json.Marshal(model)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, part := range strings.Split(string(b), `"$ref":"#/components/schemas/`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		if _, ok := all[ref]; !ok {
			t.Errorf("%s refers to %s, which is not there", name, ref)
		}
	}
}

func TestMetrics(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1")
	w := c.watch("/api/v1/namespaces/a/configmaps?watch=true&timeoutSeconds=1&resourceVersion=" + rv)
	configMap(t, k, "a", "c2")
	w.expect("ADDED c2")
	w.expectEnd()
	c.list("/api/v1/configmaps")
	c.get("/api/v1/namespaces/a/configmaps/nope")
	for _, want := range []string{
		`apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 1`,
		`apiserver_watch_events_sizes_count{group="",resource="configmaps",version="v1"} 1`,
		`apiserver_watch_fanout_total{group="",resource="configmaps"} 1`,
		`apiserver_watch_cache_list_duration_seconds_count{group="",resource="configmaps"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 2`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="",group="",resource="configmaps",scope="cluster",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_requests_by_identity_total{identity="admin"}`,
		`apiserver_watch_cache_resource_version`,
		`apiserver_compressed_list_bytes 0`,
	} {
		// A request is counted when it has ended, and its client may know that sooner.
		eventually.True(t, "metrics have "+want, func() bool { return strings.Contains(string(c.get("/metrics").body), want) })
	}
	if r := c.get("/debug/watchcache"); r.code != 200 || !strings.Contains(string(r.body), "configmaps") {
		t.Errorf("debug page: got %d %s", r.code, r.body)
	}
	if r := c.get("/debug/pprof/goroutine?debug=1"); r.code != 200 || !strings.Contains(string(r.body), "goroutine profile") {
		t.Errorf("profile: got %d", r.code)
	}
}

// TestOpenAPIv2_Compressed: the merged document is sent compressed to clients that accept it, in both encodings, and not to others.
func TestOpenAPIv2_Compressed(t *testing.T) {
	_, c, _ := start(t)
	for _, accept := range []string{"application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"} {
		plain := c.get("/openapi/v2", "Accept: "+accept, "Accept-Encoding: identity")
		if got := plain.header.Get("Content-Encoding"); got != "" || plain.code != 200 {
			t.Fatalf("%s: %d, encoding %q", accept, plain.code, got)
		}
		zipped := c.get("/openapi/v2", "Accept: "+accept, "Accept-Encoding: gzip")
		if got := zipped.header.Get("Content-Encoding"); got != "gzip" || !slices.Contains(zipped.header.Values("Vary"), "Accept-Encoding") {
			t.Fatalf("%s: encoding %q, %v", accept, got, zipped.header)
		}
		r, err := gzip.NewReader(bytes.NewReader(zipped.body))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(r); err != nil || !bytes.Equal(body, plain.body) {
			t.Errorf("%s: the compressed document is another one: %d bytes, %v", accept, len(body), err)
		}
		if len(zipped.body)*4 > len(plain.body) {
			t.Errorf("%s: %d bytes compressed, %d plain", accept, len(zipped.body), len(plain.body))
		}
		etag := zipped.header.Get("ETag")
		if r := c.get("/openapi/v2", "Accept: "+accept, "Accept-Encoding: gzip", "If-None-Match: "+etag); r.code != 304 || len(r.body) != 0 {
			t.Errorf("%s: asked again: %d, %d bytes", accept, r.code, len(r.body))
		}
	}
}

// TestMetrics_SLIs: what the health checks find is counted.
func TestMetrics_SLIs(t *testing.T) {
	_, c, _ := start(t)
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/readyz", "/readyz/etcd"} {
		if r := c.get(path); r.code != 200 {
			t.Fatalf("%s: %d %s", path, r.code, r.body)
		}
	}
	body := string(c.get("/metrics/slis").body)
	for _, want := range []string{
		`kubernetes_healthcheck{name="etcd",type="healthz"} 1`,
		`kubernetes_healthchecks_total{name="etcd",status="success",type="livez"} 1`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("%s is missing: %s", want, body)
		}
	}
}
