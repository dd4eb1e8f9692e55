package credentials

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// provider writes a plug-in that counts its runs in a file and answers with a cache key type.
func provider(t *testing.T, dir, name, cacheKey string) (runs func() int) {
	t.Helper()
	count := filepath.Join(t.TempDir(), "runs")
	script := fmt.Sprintf(`#!/bin/sh
request=$(cat)
echo run >> %s
case "$request" in *'"image":"registry.example.com/'*) ;; *) echo "cannot do $request" >&2; exit 3 ;; esac
echo '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "%s",
  "auth": {"*.example.com": {"username": "'$1'", "password": "'$SECRET'"}}}'
`, count, cacheKey)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return func() int {
		data, _ := os.ReadFile(count)
		return strings.Count(string(data), "run")
	}
}

func configuration(t *testing.T, providers string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"+providers), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const one = `
- name: one
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example.com"]
  defaultCacheDuration: 1m
  args: [ann]
  env: [{name: SECRET, value: hush}]
`

func TestPlugins(t *testing.T) {
	tests := []struct {
		cacheKey string
		runs     int // for two images of a registry, one of them twice
	}{{"Image", 2}, {"Registry", 1}, {"Global", 1}}
	for _, test := range tests {
		t.Run(test.cacheKey, func(t *testing.T) {
			dir := t.TempDir()
			runs := provider(t, dir, "one", test.cacheKey)
			plugins, err := LoadPlugins(configuration(t, one), dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, image := range []string{"registry.example.com/a", "registry.example.com/b", "registry.example.com/a", "elsewhere.org/c"} {
				var k Keyring
				if err := plugins.AddTo(t.Context(), &k, image); err != nil {
					t.Fatal(err)
				}
				found := k.Lookup(image)
				if strings.HasPrefix(image, "elsewhere") {
					if len(found) > 0 {
						t.Errorf("%s: %+v", image, found)
					}
				} else if len(found) != 1 || found[0].Login != (Login{"ann", "hush"}) || found[0].Source != (Source{}) {
					t.Errorf("%s: %+v", image, found)
				}
			}
			if got := runs(); got != test.runs {
				t.Errorf("the plug-in ran %d times", got)
			}
			var k Keyring
			if test.cacheKey == "Image" {
				err = plugins.AddTo(t.Context(), &k, "other.example.com/a")
				if err == nil || !strings.Contains(err.Error(), "error execing credential provider plugin one for image other.example.com/a: exit status 3: cannot do") {
					t.Errorf("a plug-in that fails: %v", err)
				}
			}
		})
	}
}

func TestLoadPlugins_Invalid(t *testing.T) {
	dir := t.TempDir()
	provider(t, dir, "one", "Image")
	tests := []struct{ name, providers, want string }{
		{"none", "", "at least 1 provider is required"},
		{"no such program", strings.Replace(one, "name: one", "name: two", 1), "find the program"},
		{"a path", strings.Replace(one, "name: one", "name: ../one", 1), "the name is the file name of a program"},
		{"no images", strings.Replace(one, `["*.example.com"]`, "[]", 1), "matchImages is required"},
		{"no duration", strings.Replace(one, "defaultCacheDuration: 1m", "", 1), "defaultCacheDuration is required"},
		{"unknown version", strings.Replace(one, "k8s.io/v1", "k8s.io/v9", 1), `unsupported apiVersion "credentialprovider.kubelet.k8s.io/v9"`},
		{"unknown field", one + "  colour: red\n", "unknown field"},
		{"twice", one + one, "is there twice"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := LoadPlugins(configuration(t, test.providers), dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("failed with %v", err)
			}
		})
	}
}
