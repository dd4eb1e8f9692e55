package abac_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/authz/abac"
)

func load(t *testing.T, lines ...string) (abac.Policies, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return abac.Load(path)
}

const head = `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":`

var lines = []string{
	"# people", "",
	head + `{"user":"alice","namespace":"*","resource":"*","apiGroup":"*"}}`,
	head + `{"user":"bob","namespace":"web","resource":"pods","readonly":true}}`,
	head + `{"group":"ops","nonResourcePath":"/metrics*"}}`,
	head + `{"user":"carol","group":"ops","namespace":"*","resource":"nodes"}}`,
	head + `{"user":"*","nonResourcePath":"/version","readonly":true}}`,
	`{"user":"old"}`,
	`{"group":"readers","readonly":true,"namespace":"web"}`,
}

func TestAuthorize(t *testing.T) {
	policies, err := load(t, lines...)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		user, groups, verb, group, resource, namespace, path string
		allowed                                              bool
	}{
		{"alice", "", "delete", "apps", "deployments", "x", "", true},
		{"alice", "", "get", "", "", "", "/metrics", false},
		{"bob", "", "get", "", "pods", "web", "", true},
		{"bob", "", "watch", "", "pods", "web", "", true},
		{"bob", "", "create", "", "pods", "web", "", false},
		{"bob", "", "get", "", "pods", "other", "", false},
		{"bob", "", "get", "", "pods", "", "", false},
		{"bob", "", "get", "metrics.k8s.io", "pods", "web", "", false},
		{"dora", "ops", "get", "", "", "", "/metrics/slis", true},
		{"dora", "ops", "get", "", "", "", "/healthz", false},
		{"dora", "ops", "get", "", "nodes", "", "", false},
		{"carol", "ops", "get", "", "nodes", "", "", true},
		{"carol", "", "get", "", "nodes", "", "", false},
		{"eve", "system:authenticated", "get", "", "", "", "/version", true},
		{"eve", "system:authenticated", "post", "", "", "", "/version", false},
		{"system:anonymous", "system:unauthenticated", "get", "", "", "", "/version", false},
		{"old", "", "delete", "apps", "deployments", "x", "", true},
		{"old", "", "post", "", "", "", "/anything", true},
		{"x", "readers", "list", "apps", "deployments", "web", "", true},
		{"x", "readers", "get", "", "", "", "/version", false},
	} {
		attr := &authz.Attributes{
			User: &authn.User{Name: tc.user, Groups: strings.Fields(tc.groups)}, Verb: tc.verb,
			Group: tc.group, Resource: tc.resource, Namespace: tc.namespace, Path: tc.path,
		}
		allowed, reason, err := policies.Authorize(t.Context(), attr)
		if allowed != tc.allowed || err != nil || !allowed && reason != "No policy matched." {
			t.Errorf("%+v: got %t %q %v", tc, allowed, reason, err)
		}
	}
}

func TestRulesFor(t *testing.T) {
	policies, err := load(t, lines...)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policies.RulesFor(t.Context(), &authn.User{Name: "bob", Groups: []string{"ops"}}, "web")
	if err != nil || len(rules.Resource) != 1 || len(rules.NonResource) != 1 || rules.Incomplete {
		t.Fatalf("got %+v, %v", rules, err)
	}
	if r := rules.Resource[0]; strings.Join(r.Verbs, " ") != "get list watch" || r.Resources[0] != "pods" {
		t.Errorf("got %+v", r)
	}
	if r := rules.NonResource[0]; r.Verbs[0] != "*" || r.NonResourceURLs[0] != "/metrics*" {
		t.Errorf("got %+v", r)
	}
}

func TestLoad_Broken(t *testing.T) {
	for line, want := range map[string]string{
		`{"user":`: "line 2", head + `{}`: "line 2", `{"kind":"Policy","apiVersion":"v9"}`: `no kind "Policy" is registered for version "v9"`,
	} {
		if _, err := load(t, "# first", line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
	if _, err := abac.Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was loaded")
	}
}
