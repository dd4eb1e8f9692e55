package request

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePath(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		want         Info
		scope        string
	}{
		{"GET", "/healthz", Info{Verb: "get"}, ""},
		{"HEAD", "/healthz", Info{Verb: "head"}, ""},
		{"OPTIONS", "/", Info{Verb: "options"}, ""},
		{"GET", "/api", Info{Verb: "get"}, ""},
		{"GET", "/api/v1", Info{Verb: "get"}, ""},
		{"GET", "/api/v1/", Info{Verb: "get"}, ""},
		{"GET", "/apis/apps", Info{Verb: "get"}, ""},
		{"GET", "/apis/apps/v1", Info{Verb: "get"}, ""},
		{"GET", "/api/v1/pods", Info{Verb: "list", Version: "v1", Resource: "pods"}, "cluster"},
		{"GET", "/api/v1/pods/", Info{Verb: "list", Version: "v1", Resource: "pods"}, "cluster"},
		{"HEAD", "/api/v1/pods", Info{Verb: "list", Version: "v1", Resource: "pods"}, "cluster"},
		{"GET", "/api/v1/namespaces", Info{Verb: "list", Version: "v1", Resource: "namespaces"}, "cluster"},
		{"GET", "/api/v1/namespaces/n", Info{Verb: "get", Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n"}, "resource"},
		{"PUT", "/api/v1/namespaces/n/finalize", Info{Verb: "update", Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n", Subresource: "finalize"}, "resource"},
		{"PATCH", "/api/v1/namespaces/n/status", Info{Verb: "patch", Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n", Subresource: "status"}, "resource"},
		{"GET", "/api/v1/namespaces/n/pods", Info{Verb: "list", Version: "v1", Resource: "pods", Namespace: "n", InNamespace: true}, "namespace"},
		{"POST", "/api/v1/namespaces/n/pods", Info{Verb: "create", Version: "v1", Resource: "pods", Namespace: "n", InNamespace: true}, "resource"},
		{"DELETE", "/api/v1/namespaces/n/pods", Info{Verb: "deletecollection", Version: "v1", Resource: "pods", Namespace: "n", InNamespace: true}, "namespace"},
		{"DELETE", "/api/v1/namespaces/n/pods/p", Info{Verb: "delete", Version: "v1", Resource: "pods", Namespace: "n", Name: "p", InNamespace: true}, "resource"},
		{"GET", "/apis/apps/v1/namespaces/n/deployments/d/scale", Info{Verb: "get", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n", Name: "d", Subresource: "scale", InNamespace: true}, "resource"},
		{"GET", "/api/v1/namespaces/n/pods/p/proxy/a/b", Info{Verb: "get", Version: "v1", Resource: "pods", Namespace: "n", Name: "p", Subresource: "proxy", Rest: "/a/b", InNamespace: true}, "resource"},
		{"GET", "/api/v1/nodes/x", Info{Verb: "get", Version: "v1", Resource: "nodes", Name: "x"}, "resource"},
		{"GET", "/api/v1/watch/pods", Info{Verb: "watch", Version: "v1", Resource: "pods", Legacy: true}, "cluster"},
		{"GET", "/apis/apps/v1/watch/namespaces/n/deployments/d", Info{Verb: "watch", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n", Name: "d", Legacy: true, InNamespace: true}, "resource"},
		{"GET", "/api/v1/watch/namespaces/n", Info{Verb: "watch", Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n", Legacy: true}, "resource"},
		{"BREW", "/api/v1/pods", Info{Verb: "", Version: "v1", Resource: "pods"}, "cluster"},
	} {
		got, err := ParsePath(tc.method, tc.path)
		if err != nil {
			t.Errorf("%s %s: %v", tc.method, tc.path, err)
		}
		tc.want.Path = tc.path
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.method, tc.path, diff)
		}
		if got.Scope() != tc.scope {
			t.Errorf("%s %s: scope %q, want %q", tc.method, tc.path, got.Scope(), tc.scope)
		}
	}
	if _, err := ParsePath(http.MethodGet, "/api/v1/watch"); err == nil {
		t.Error("a watch of nothing is accepted")
	}
}

func TestApplyList(t *testing.T) {
	for _, tc := range []struct{ query, verb, name string }{
		{"", "list", ""},
		{"watch=true", "watch", ""},
		{"watch", "watch", ""},
		{"watch=false", "list", ""},
		{"fieldSelector=metadata.name%3Dx", "list", "x"},
		{"watch=1&fieldSelector=metadata.name%3Dx,spec.nodeName=y", "watch", "x"},
		{"fieldSelector=metadata.name%3Da%2Fb", "list", ""},
		{"fieldSelector=metadata.name%3D..", "list", ""},
	} {
		info, err := ParsePath(http.MethodGet, "/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		opts, err := ParseList(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		if info.ApplyList(&opts); info.Verb != tc.verb || info.Name != tc.name {
			t.Errorf("%q: %s %q, want %s %q", tc.query, info.Verb, info.Name, tc.verb, tc.name)
		}
	}
}

func TestParsePath_Allocations(t *testing.T) {
	const path, query = "/apis/apps/v1/namespaces/default/deployments/web", "resourceVersion=0&watch=false&limit=500"
	if n := testing.AllocsPerRun(100, func() {
		if info, err := ParsePath("GET", path); err != nil || info.Name != "web" {
			t.Fatal(info, err)
		}
		if opts, err := ParseList(query); err != nil || opts.Limit != 500 {
			t.Fatal(opts, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParsePath(f *testing.F) {
	for _, path := range []string{"/api/v1/namespaces/n/pods/p/proxy/x", "/apis/apps/v1/watch/deployments", "//api//v1//", "/apis/"} {
		f.Add("GET", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		info, err := ParsePath(method, path)
		if err != nil {
			return
		}
		for _, part := range []string{info.Group, info.Version, info.Resource, info.Namespace, info.Name, info.Subresource} {
			if strings.Contains(part, "/") || !strings.Contains(path, part) {
				t.Errorf("%q: %+v", path, info)
			}
		}
		if info.Resource == "" && (info.Name != "" || info.Namespace != "" || info.Subresource != "") {
			t.Errorf("%q: parts without resource: %+v", path, info)
		}
	})
}

func FuzzParseList(f *testing.F) {
	for _, q := range []string{"watch=1&limit=5", "labelSelector=a+in+(b,c)&fieldSelector=a%3Db", "continue=%zz&a;b=c&&=", "timeoutSeconds=99999999999999999999"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		opts, err := ParseList(query)
		if err == nil && (opts.Limit < 0 || opts.TimeoutSeconds < 0) {
			t.Errorf("%q: %+v", query, opts)
		}
		// Whatever was read, the check does not panic and gives a start to every watch.
		if opts.Complete() == nil && opts.Watch && opts.ResourceVersion == "" && opts.SendInitialEvents == nil {
			t.Errorf("%q: a watch without start: %+v", query, opts)
		}
	})
}
