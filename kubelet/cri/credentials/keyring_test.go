package credentials

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		registry, repository string
		want                 bool
	}{
		{"registry.example.com", "registry.example.com/a/b", true},
		{"registry.example.com", "registry.example.org/a", false},
		{"registry.example.com/team", "registry.example.com/team/app", true},
		{"registry.example.com/team", "registry.example.com/teams", true}, // a prefix is enough for upstream
		{"registry.example.com/team", "registry.example.com/other", false},
		{"*.example.com", "registry.example.com/a", true},
		{"*.example.com", "example.com/a", false},
		{"*.example.com", "a.b.example.com/a", false},
		{"registry.*.com", "registry.example.com/a", true},
		{"r*y.example.com", "registry.example.com/a", true},
		{"*.example.com:5000", "registry.example.com:5000/a", true},
		{"*.example.com:5000", "registry.example.com/a", false},
		{"registry.example.com", "registry.example.com:5000/a", false},
		{"[", "registry.example.com/a", false},
	}
	for _, test := range tests {
		if got := Match(test.registry, test.repository); got != test.want {
			t.Errorf("Match(%q, %q) = %t", test.registry, test.repository, got)
		}
	}
}

func TestLookup(t *testing.T) {
	var k Keyring
	for registry, user := range map[string]string{
		"https://index.docker.io/v1/": "hub", "quay.example.com": "host", "https://quay.example.com/v2/coreos": "path", "http://*.example.com/": "glob", "not a registry": "none",
	} {
		k.Add(registry, Login{Username: user}, Source{})
	}
	tests := []struct{ repository, want string }{
		{"quay.example.com/coreos/etcd", "path host glob"},
		{"quay.example.com/other", "host glob"},
		{"docker.io/library/nginx", "hub"},
		{"nginx", "hub"},
		{"team/app", "hub"},
		{"registry.example.net/app", ""},
		{"localhost:5000/app", ""},
	}
	for _, test := range tests {
		var users []string
		for _, c := range k.Lookup(test.repository) {
			users = append(users, c.Username)
		}
		if got := strings.Join(users, " "); got != test.want {
			t.Errorf("Lookup(%q) = %q, want %q", test.repository, got, test.want)
		}
	}
	var empty Keyring
	if found := empty.Lookup("nginx"); found != nil {
		t.Errorf("an empty keyring has %v", found)
	}
}

func TestAddSecret(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("ann:b:c"))
	secret := func(kind corev1.SecretType, key, data string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pull", UID: "u"}, Type: kind, Data: map[string][]byte{key: []byte(data)}}
	}
	tests := []struct {
		name   string
		secret *corev1.Secret
		want   Login
		fails  string
	}{
		{"json", secret(corev1.SecretTypeDockerConfigJson, ".dockerconfigjson", `{"auths": {"r.example.com": {"username": "x", "password": "y"}}}`), Login{"x", "y"}, ""},
		{"auth counts", secret(corev1.SecretTypeDockerConfigJson, ".dockerconfigjson", `{"auths": {"r.example.com": {"username": "x", "auth": "`+auth+`"}}}`), Login{"ann", "b:c"}, ""},
		{"unpadded", secret(corev1.SecretTypeDockercfg, ".dockercfg", `{"r.example.com": {"auth": "`+strings.TrimRight(auth, "=")+`"}}`), Login{"ann", "b:c"}, ""},
		{"another type", secret(corev1.SecretTypeOpaque, ".dockerconfigjson", `{}`), Login{}, ""},
		{"no JSON", secret(corev1.SecretTypeDockercfg, ".dockercfg", `no`), Login{}, "secret ns/pull: invalid character"},
		{"no colon", secret(corev1.SecretTypeDockercfg, ".dockercfg", `{"r.example.com": {"auth": "YQ=="}}`), Login{}, "must be formatted as base64(username:password)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var k Keyring
			err := k.AddSecret(test.secret)
			if test.fails == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Fatalf("failed with %v", err)
			}
			found := k.Lookup("r.example.com/app")
			if test.want == (Login{}) {
				if len(found) > 0 {
					t.Errorf("found %v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Login != test.want || found[0].Source != (Source{"ns", "pull", "u"}) {
				t.Errorf("found %+v", found)
			}
		})
	}
}
