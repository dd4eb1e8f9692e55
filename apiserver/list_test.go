package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver"
)

func token(rv int64, start string) string {
	b, _ := json.Marshal(map[string]any{"v": "meta.k8s.io/v1", "rv": rv, "start": start})
	return base64.RawURLEncoding.EncodeToString(b)
}

func plain(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// TestList_Options goes through the rows of docs/list-watch.md section 4.
func TestList_Options(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	namespace(t, k, "b")
	first := configMap(t, k, "a", "c1", "app=x")
	configMap(t, k, "a", "c2", "app=y")
	configMap(t, k, "a", "c3", "app=x")
	last := configMap(t, k, "b", "c1", "app=x")
	const all = "a/c1 a/c2 a/c3 b/c1"
	number := func(rv string) int64 {
		n, err := strconv.ParseInt(rv, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	for _, tc := range []struct {
		name, query string
		want        string
		rv          string // expected resourceVersion, "" for at least last
		next        string // start key of the continue token
		remaining   int64  // -1: none
	}{
		{"consistent", "", all, "", "", -1},
		{"consistent page", "limit=2", "a/c1 a/c2", "", "a/c2\x00", 2},
		{"limit as large as the list", "limit=4", all, "", "", -1},
		{"negative limit", "limit=-1", all, "", "", -1},
		{"any, limit ignored", "resourceVersion=0&limit=2", all, "", "", -1},
		{"any, not older, limit ignored", "resourceVersion=0&limit=2&resourceVersionMatch=NotOlderThan", all, "", "", -1},
		{"not older than N", "resourceVersion=" + first, all, "", "", -1},
		{"not older than N, explicit, paged", "resourceVersion=" + first + "&resourceVersionMatch=NotOlderThan&limit=3", "a/c1 a/c2 a/c3", "", "a/c3\x00", 1},
		{"page of N is exactly N", "resourceVersion=" + first + "&limit=10", "a/c1", first, "", -1},
		{"exactly N", "resourceVersion=" + first + "&resourceVersionMatch=Exact", "a/c1", first, "", -1},
		{"exactly N, paged", "resourceVersion=" + last + "&resourceVersionMatch=Exact&limit=1", "a/c1", last, "a/c1\x00", 3},
		{"continued at N", "limit=2&continue=" + token(number(last), "a/c1\x00"), "a/c2 a/c3", last, "a/c3\x00", 1},
		{"continued at N, rest", "continue=" + token(number(last), "a/c1\x00"), "a/c2 a/c3 b/c1", last, "", -1},
		{"continued at old N", "continue=" + token(number(first), "a/c0\x00"), "a/c1", first, "", -1},
		{"continued with leading slash", "continue=" + token(number(last), "/a/c1\x00"), "a/c2 a/c3 b/c1", last, "", -1},
		{"continued at newest", "continue=" + token(-1, "a/c1\x00"), "a/c2 a/c3 b/c1", "", "", -1},
		{"continued at newest with RV 0", "resourceVersion=0&limit=2&continue=" + token(-1, "a/c1\x00"), "a/c2 a/c3", "", "a/c3\x00", 1},
		{"labels", "labelSelector=app%3Dx", "a/c1 a/c3 b/c1", "", "", -1},
		{"labels paged have no count", "labelSelector=app%3Dx&limit=1", "a/c1", "", "a/c1\x00", -1},
		{"labels paged are filled", "labelSelector=app%3Dx&limit=2", "a/c1 a/c3", "", "a/c3\x00", -1},
		{"labels in", "labelSelector=app+in+(y,z)", "a/c2", "", "", -1},
		{"labels not", "labelSelector=!app", "", "", "", -1},
		{"field name", "fieldSelector=metadata.name%3Dc1", "a/c1 b/c1", "", "", -1},
		{"field namespace", "fieldSelector=metadata.namespace%3Db", "b/c1", "", "", -1},
		{"field not", "fieldSelector=metadata.name!%3Dc1", "a/c2 a/c3", "", "", -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := c.list("/api/v1/configmaps?" + tc.query)
			if got := l.names(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.rv != "" && l.Metadata.ResourceVersion != tc.rv {
				t.Errorf("resourceVersion %s, want %s", l.Metadata.ResourceVersion, tc.rv)
			}
			if number(l.Metadata.ResourceVersion) < number(last) && tc.rv == "" {
				t.Errorf("resourceVersion %s, want at least %s", l.Metadata.ResourceVersion, last)
			}
			if tc.next == "" != (l.Metadata.Continue == "") {
				t.Errorf("continue %q, want start %q", l.Metadata.Continue, tc.next)
			} else if want := token(number(l.Metadata.ResourceVersion), tc.next); tc.next != "" {
				var got, expected map[string]any
				b, _ := base64.RawURLEncoding.DecodeString(l.Metadata.Continue)
				w, _ := base64.RawURLEncoding.DecodeString(want)
				if json.Unmarshal(b, &got) != nil || json.Unmarshal(w, &expected) != nil || !cmp.Equal(got, expected) {
					t.Errorf("continue %s, want %s", b, w)
				}
			}
			switch {
			case tc.remaining < 0 && l.Metadata.RemainingItemCount != nil:
				t.Errorf("remaining %d, want none", *l.Metadata.RemainingItemCount)
			case tc.remaining >= 0 && (l.Metadata.RemainingItemCount == nil || *l.Metadata.RemainingItemCount != tc.remaining):
				t.Errorf("remaining %v, want %d", l.Metadata.RemainingItemCount, tc.remaining)
			}
		})
	}

	t.Run("in a namespace", func(t *testing.T) {
		l := c.list("/api/v1/namespaces/a/configmaps?limit=1")
		if l.names() != "a/c1" {
			t.Errorf("got %q", l.names())
		}
		b, _ := base64.RawURLEncoding.DecodeString(l.Metadata.Continue)
		if want := `"start":"c1\u0000"`; !strings.Contains(string(b), want) {
			t.Errorf("token %s, want %s", b, want)
		}
		rest := c.list("/api/v1/namespaces/a/configmaps?continue=" + l.Metadata.Continue)
		if rest.names() != "a/c2 a/c3" || rest.Metadata.ResourceVersion != l.Metadata.ResourceVersion {
			t.Errorf("got %q at %s, want the rest at %s", rest.names(), rest.Metadata.ResourceVersion, l.Metadata.ResourceVersion)
		}
	})

	t.Run("empty list has items", func(t *testing.T) {
		if body := string(c.get("/api/v1/namespaces/nope/configmaps").body); !strings.Contains(body, `"items":[]`) || !strings.HasSuffix(body, "\n") {
			t.Errorf("got %s", body)
		}
	})

	t.Run("items have no kind", func(t *testing.T) {
		l := c.list("/api/v1/configmaps")
		if l.Kind != "ConfigMapList" || l.APIVersion != "v1" || l.Items[0].Kind != "" || l.Items[0].APIVersion != "" {
			t.Errorf("got %s/%s, item %q/%q", l.APIVersion, l.Kind, l.Items[0].APIVersion, l.Items[0].Kind)
		}
	})
}

// smallWindow makes the server forget quickly: outgrow is enough.
func smallWindow(c *apiserver.Config) { c.Window.MaxEvents = 8 }

// outgrow changes a config map until all that happened before has left a small window.
func outgrow(t *testing.T, k *kubernetes.Clientset, namespace, name string) (rv string) {
	t.Helper()
	for i := range 20 {
		rv = relabel(t, k, namespace, name, fmt.Sprintf("i=%d", i))
	}
	return rv
}

// unknownFields is what kinds with field labels of their own say of others: upstream's AddFieldLabelConversionFunc of each kind. The rest
// says the same, which names the two labels that every kind has.
var unknownFields = map[string]string{
	"pods": "field label not supported: spec.foo", "nodes": "field label not supported: spec.foo", "namespaces": "field label not supported: spec.foo",
	"services": "field label not supported: spec.foo", "secrets": "field label not supported: spec.foo", "replicationcontrollers": "field label not supported: spec.foo",
	"events": "field label not supported: spec.foo", "events.events.k8s.io": "field label not supported: spec.foo",
	"certificatesigningrequests.certificates.k8s.io": "field label not supported: spec.foo",
	"clustertrustbundles.certificates.k8s.io":        "field label not supported: spec.foo",
	"podcertificaterequests.certificates.k8s.io":     "field label not supported: spec.foo",
	"jobs.batch":                     `field label "spec.foo" not supported for Job`,
	"resourceslices.resource.k8s.io": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.foo",
}

// Every kind is asked for a field label that it does not have, some for labels that others have.
func TestList_UnknownFields(t *testing.T) {
	t.Parallel()
	s, c, _ := start(t, smallWindow)
	check := func(path, label, message string) {
		t.Helper()
		r := c.get(path + "?fieldSelector=" + label + "%3Dx")
		switch {
		case message == "" && r.code != http.StatusOK:
			t.Errorf("%s by %s: got %d %s", path, label, r.code, r.body)
		case message != "" && (r.code != http.StatusBadRequest || r.status().Message != message):
			t.Errorf("%s by %s: got %d %s, want %q", path, label, r.code, r.body, message)
		}
	}
	asked := map[string]bool{}
	for _, k := range s.Table.All() {
		if k.NewList == nil {
			continue
		}
		path, name := "/api/v1/"+k.Resource, k.Resource
		if k.GVK.Group != "" {
			path, name = "/apis/"+k.GVK.Group+"/"+k.GVK.Version+"/"+k.Resource, k.Resource+"."+k.GVK.Group
		}
		message, ok := unknownFields[name]
		if !ok {
			message = `"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"`
		}
		check(path, "spec.foo", message)
		asked[name] = true
	}
	for name := range unknownFields {
		if !asked[name] {
			t.Errorf("there is no %s", name)
		}
	}
	for _, tc := range []struct{ path, label, message string }{
		{"/api/v1/pods", "metadata.namespace", ""},
		{"/api/v1/configmaps", "metadata.namespace", ""},
		{"/api/v1/persistentvolumes", "metadata.namespace", ""},
		{"/apis/resource.k8s.io/v1/resourceslices", "spec.pool.name", ""},
		{"/api/v1/nodes", "metadata.namespace", "field label not supported: metadata.namespace"},
		{"/api/v1/namespaces", "metadata.namespace", "field label not supported: metadata.namespace"},
		{"/apis/certificates.k8s.io/v1/certificatesigningrequests", "metadata.namespace", "field label not supported: metadata.namespace"},
		{"/apis/certificates.k8s.io/v1/certificatesigningrequests", "spec.username", "field label not supported: spec.username"},
		{"/apis/apps/v1/deployments", "status.replicas", `"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"/apis/events.k8s.io/v1/events", "involvedObject.name", "field label not supported: involvedObject.name"},
		{"/api/v1/events", "regarding.name", "field label not supported: regarding.name"},
	} {
		check(tc.path, tc.label, tc.message)
	}
}

// TestList_Errors goes through the tables of docs/list-watch.md sections 2, 4 and 5.
func TestList_Errors(t *testing.T) {
	t.Parallel()
	_, c, k := start(t, smallWindow)
	namespace(t, k, "a")
	configMap(t, k, "a", "c1")
	rv := outgrow(t, k, "a", "c1")
	const invalid = "ListOptions.meta.k8s.io \"\" is invalid: "

	for _, tc := range []struct {
		query   string
		code    int
		reason  metav1.StatusReason
		message string
	}{
		{"resourceVersionMatch=Exact", 422, "Invalid", invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"resourceVersionMatch=Exact&resourceVersion=5&continue=x", 422, "Invalid", invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"},
		{"resourceVersionMatch=X&resourceVersion=5", 422, "Invalid", invalid + `resourceVersionMatch: Unsupported value: "X": supported values: "Exact", "NotOlderThan", ""`},
		{"resourceVersionMatch=Exact&resourceVersion=0", 422, "Invalid", invalid + `resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"sendInitialEvents=true", 422, "Invalid", invalid + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"},
		{"sendInitialEvents=false", 422, "Invalid", invalid + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"},
		{"resourceVersionMatch=X", 422, "Invalid", invalid + `[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, ` +
			`resourceVersionMatch: Unsupported value: "X": supported values: "Exact", "NotOlderThan", ""]`},
		{"limit=abc", 400, "BadRequest", `strconv.ParseInt: parsing "abc": invalid syntax`},
		{"timeoutSeconds=1.5", 400, "BadRequest", `strconv.ParseInt: parsing "1.5": invalid syntax`},
		{"fieldSelector=spec.foo%3Dbar", 400, "BadRequest", `"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"fieldSelector=nonsense", 400, "BadRequest", `invalid selector: 'nonsense'; can't understand 'nonsense'`},
		{"labelSelector=%3Dx", 400, "BadRequest", "found '=', expected: !, identifier, or 'end of string'"},
		{"resourceVersion=abc", 400, "BadRequest", `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{"resourceVersion=-1", 400, "BadRequest", `invalid resource version: resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax`},
		{"resourceVersion=5&continue=" + token(5, "a"), 400, "BadRequest", "specifying resource version is not allowed when using continue"},
		{"continue=" + plain("nope"), 400, "BadRequest", "invalid continue token: continue key is not valid: invalid character 'o' in literal null (expecting 'u')"},
		{"continue=!!!", 400, "BadRequest", "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"},
		{"continue=" + plain(`{"v":"v2","rv":5,"start":"a"}`), 400, "BadRequest", "invalid continue token: continue key is not valid: server does not recognize this encoded version v2"},
		{"continue=" + token(0, "a"), 400, "BadRequest", "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"},
		{"continue=" + token(5, ""), 400, "BadRequest", "invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"},
		{"continue=" + token(5, "../secrets/a"), 400, "BadRequest", "invalid continue token: continue key is not valid: ../secrets/a"},
		{"timeout=abc", 400, "BadRequest", `invalid timeout specified in the request URL - time: invalid duration "abc"`},
		{"resourceVersion=1&resourceVersionMatch=Exact", 410, "Expired", "The resourceVersion for the provided list is too old."},
		{"includeObject=Bad", 200, "", ""}, // of tables only
	} {
		t.Run(tc.query, func(t *testing.T) {
			r := c.get("/api/v1/configmaps?" + tc.query)
			if r.code != tc.code {
				t.Fatalf("got %d %s, want %d", r.code, r.body, tc.code)
			}
			if tc.code == http.StatusOK {
				return
			}
			s := r.status()
			if s.Message != tc.message || s.Reason != tc.reason || int(s.Code) != tc.code || s.Status != "Failure" {
				t.Errorf("got %+v\nwant %s: %s", s, tc.reason, tc.message)
			}
			if tc.code == 422 && (s.Details == nil || s.Details.Group != "meta.k8s.io" || s.Details.Kind != "ListOptions" || len(s.Details.Causes) == 0) {
				t.Errorf("details %+v", s.Details)
			}
		})
	}

	t.Run("continue is too old", func(t *testing.T) {
		r := c.get("/api/v1/configmaps?continue=" + token(1, "a/c0\x00"))
		s := r.status()
		if r.code != http.StatusGone || s.Reason != metav1.StatusReasonExpired || !strings.HasPrefix(s.Message, "The provided continue parameter is too old to display a consistent list result.") {
			t.Fatalf("got %d %+v", r.code, s)
		}
		if l := c.list("/api/v1/configmaps?continue=" + s.Continue); l.names() != "a/c1" {
			t.Errorf("inconsistent continuation: got %q", l.names())
		}
	})

	t.Run("version ahead", func(t *testing.T) {
		n, _ := strconv.Atoi(rv)
		paths := []string{
			fmt.Sprintf("/api/v1/configmaps?resourceVersion=%d", n+1000000),
			fmt.Sprintf("/api/v1/configmaps?resourceVersion=%d&resourceVersionMatch=Exact", n+1000000),
			fmt.Sprintf("/api/v1/namespaces/a/configmaps/c1?resourceVersion=%d", n+1000000),
		}
		answers := make([]response, len(paths))
		var wg sync.WaitGroup
		for i, path := range paths { // each waits for 3 s
			wg.Go(func() { answers[i] = c.get(path) })
		}
		wg.Wait()
		for i, path := range paths {
			r := answers[i]
			s := r.status()
			if r.code != http.StatusGatewayTimeout || s.Reason != metav1.StatusReasonTimeout || !strings.HasPrefix(s.Message, fmt.Sprintf("Timeout: Too large resource version: %d, current: ", n+1000000)) {
				t.Fatalf("%s: got %d %+v", path, r.code, s)
			}
			if r.header.Get("Retry-After") != "1" || s.Details == nil || s.Details.RetryAfterSeconds != 1 || len(s.Details.Causes) != 1 ||
				s.Details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge || s.Details.Causes[0].Message != "Too large resource version" {
				t.Errorf("%s: Retry-After %q, details %+v", path, r.header.Get("Retry-After"), s.Details)
			}
		}
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1")
	for _, tc := range []struct {
		path    string
		code    int
		message string
	}{
		{"/api/v1/namespaces/a/configmaps/c1", 200, ""},
		{"/api/v1/namespaces/a/configmaps/c1?resourceVersion=0", 200, ""},
		{"/api/v1/namespaces/a/configmaps/c1?resourceVersion=" + rv, 200, ""},
		{"/api/v1/namespaces/a/configmaps/c1?watch=true", 200, ""},
		{"/api/v1/namespaces/a/configmaps/c1?resourceVersion=abc", 400, `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{"/api/v1/namespaces/a/configmaps/nope", 404, `configmaps "nope" not found`},
		{"/apis/apps/v1/namespaces/a/deployments/nope", 404, `deployments.apps "nope" not found`},
	} {
		r := c.get(tc.path)
		if r.code != tc.code {
			t.Errorf("%s: got %d %s, want %d", tc.path, r.code, r.body, tc.code)
			continue
		}
		if tc.code != 200 {
			s := r.status()
			if s.Message != tc.message {
				t.Errorf("%s: got %q, want %q", tc.path, s.Message, tc.message)
			}
			continue
		}
		if r.header.Get("Content-Type") != "application/json" || r.header.Get("Content-Length") != strconv.Itoa(len(r.body)) ||
			r.header.Get("Cache-Control") != "no-cache, private" || r.header.Get("Audit-Id") == "" {
			t.Errorf("%s: header %v", tc.path, r.header)
		}
		if want := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c1","namespace":"a","uid":"`; !strings.HasPrefix(string(r.body), want) || !strings.HasSuffix(string(r.body), "}\n") {
			t.Errorf("%s: got %s", tc.path, r.body)
		}
	}
	if s := c.get("/apis/apps/v1/namespaces/a/deployments/nope").status(); s.Details == nil || s.Details.Name != "nope" || s.Details.Group != "apps" || s.Details.Kind != "deployments" {
		t.Errorf("details of a 404: %+v", s.Details)
	}
	if r := c.do(http.MethodHead, "/api/v1/namespaces/a/configmaps/c1", ""); r.code != 200 || len(r.body) != 0 || r.header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: got %d, %d bytes, %v", r.code, len(r.body), r.header)
	}
	if r := c.get("/api/v1/namespaces/a/configmaps/c1", "Audit-Id: mine"); r.header.Get("Audit-Id") != "mine" {
		t.Errorf("Audit-Id %q, want that of the request", r.header.Get("Audit-Id"))
	}
}

// TestRoutes looks at paths and methods that nothing serves.
func TestRoutes(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	configMap(t, k, "a", "c1")
	const (
		notAllowed = "the server does not allow this method on the requested resource"
		noResource = "the server could not find the requested resource"
	)
	for _, tc := range []struct {
		method, path string
		code         int
		message      string // of the Status; "" for other bodies
	}{
		{"GET", "/api/v1/nonsense", 404, noResource},
		{"GET", "/api/v1/nonsense?watch=true", 404, noResource},
		{"GET", "/api/v1/namespaces/a/nonsense", 404, noResource},
		{"POST", "/apis/apps/v1/namespaces/a/nonsense", 404, noResource},
		{"GET", "/apis/nonsense/v1/things", 404, ""},
		{"GET", "/apis/nonsense", 404, ""},
		{"GET", "/nonsense", 404, ""},
		{"GET", "/api/v1/namespaces/a/nodes", 404, noResource},
		{"GET", "/api/v1/configmaps/c1", 404, noResource},
		{"GET", "/api/v1/namespaces/a/configmaps/c1/nonsense", 404, noResource},
		{"GET", "/api/v1/namespaces/a/configmaps/c1/status", 404, noResource},
		{"POST", "/api/v1/configmaps", 405, notAllowed},
		{"DELETE", "/api/v1/configmaps", 405, notAllowed},
		{"POST", "/api/v1/namespaces/a/configmaps/c1", 405, notAllowed},
		{"PUT", "/api/v1/namespaces/a/configmaps", 405, notAllowed},
		{"PATCH", "/api/v1/namespaces/a/configmaps", 405, notAllowed},
		{"OPTIONS", "/api/v1/namespaces/a/configmaps", 405, notAllowed},
		{"POST", "/api/v1/watch/configmaps", 405, notAllowed},
		{"DELETE", "/api/v1/namespaces", 405, notAllowed},
		{"POST", "/version", 405, notAllowed},
		{"GET", "/api/v1/watch", 400, "unable to determine kind and namespace from url, /api/v1/watch"},
		{"GET", "/api/v1/namespaces/a", 200, ""},
		{"GET", "/api/v1/namespaces/a/status", 200, ""},
	} {
		r := c.do(tc.method, tc.path, "")
		if r.code != tc.code {
			t.Errorf("%s %s: got %d %s, want %d", tc.method, tc.path, r.code, r.body, tc.code)
		} else if tc.message != "" && r.status().Message != tc.message {
			t.Errorf("%s %s: got %q, want %q", tc.method, tc.path, r.status().Message, tc.message)
		}
	}
	if r := c.get("/nonsense"); !strings.Contains(string(r.body), `"paths"`) {
		t.Errorf("unknown path: got %s, want the index", r.body)
	}
}
