package containerd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
)

// readRegistries writes a file and reads it.
func readRegistries(t *testing.T, text string) (*containerd.Registries, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "registries.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return containerd.ReadRegistries(file)
}

// pull has a daemon with such a file pull an image.
func pull(t *testing.T, registries, image string, auth *runtimeapi.AuthConfig) error {
	t.Helper()
	config := containerdtest.Config(t)
	var err error
	if config.Registries, err = readRegistries(t, registries); err != nil {
		t.Fatal(err)
	}
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, config) })
	if err := d.Start(testContext(t)); err != nil { // no images are loaded, so that layers too must come from the registry
		t.Fatal(err)
	}
	_, err = connect(t, d).PullImage(testContext(t), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}, Auth: auth})
	return err
}

func TestPull(t *testing.T) {
	basic := containerdtest.RegistryOptions{Username: "someone", Password: "secret"}
	bearer := basic
	bearer.Bearer = true
	basicTLS, bearerTLS := basic, bearer
	basicTLS.TLS, bearerTLS.TLS = true, true

	// In registries and image, HOST, URL and CA are the registry's, DEFAULT is where images without a host are.
	tests := []struct {
		name       string
		options    containerdtest.RegistryOptions
		registries string
		image      string
		auth       *runtimeapi.AuthConfig
		fails      string // what the error says; "": it does not fail
	}{
		{name: "plain, on this machine", image: "HOST/team/demo:2"},
		{name: "no such image", image: "HOST/team/demo:9", fails: "not found"},
		{
			name: "mirror", image: "registry.test/team/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['URL']}}",
		},
		{
			name: "mirror with a path", image: "registry.test/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['URL/v2/cache']}}",
		},
		{
			name: "first mirror is away", image: "registry.test/team/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['http://127.0.0.1:1', 'URL']}}",
		},
		{
			name: "mirror of all others", image: "registry.test:5000/team/demo:2",
			registries: "mirrors: {'*': {endpoint: ['URL']}}",
		},
		{
			name: "mirror of all others, the default registry too", image: "team/demo:2",
			registries: "mirrors: {'*': {endpoint: ['URL']}}",
		},
		{
			name: "mirror of the default registry", image: "team/demo:2",
			registries: "mirrors: {DEFAULT: {endpoint: ['URL']}}\nconfigs: {DEFAULT: {auth: {username: a, password: b}}}",
		},
		{
			name: "unknown authority", options: containerdtest.RegistryOptions{TLS: true}, image: "registry.test/team/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['URL']}}", fails: "registry.test", // goes on to the registry itself
		},
		{
			name: "own authority", options: containerdtest.RegistryOptions{TLS: true}, image: "registry.test/team/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['URL']}}\nconfigs: {'HOST': {tls: {ca_file: 'CA'}}}",
		},
		{
			name: "own authority without mirror", options: containerdtest.RegistryOptions{TLS: true}, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {tls: {ca_file: 'CA'}}}",
		},
		{
			name: "certificate not looked at", options: containerdtest.RegistryOptions{TLS: true}, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {tls: {insecure_skip_verify: true}}}",
		},
		{name: "no credentials", options: basic, image: "HOST/team/demo:2", fails: "no basic auth credentials"},
		{
			name: "wrong password", options: basic, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {auth: {username: someone, password: wrong}}}", fails: "401",
		},
		{
			name: "password", options: basic, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {auth: {username: someone, password: secret}}}",
		},
		{
			name: "password in base64", options: basic, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {auth: {auth: c29tZW9uZTpzZWNyZXQ=}}}",
		},
		{
			name: "pull secret before the file", options: basic, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {auth: {username: someone, password: wrong}}}",
			auth:       &runtimeapi.AuthConfig{Username: "someone", Password: "secret"},
		},
		{
			name: "token", options: bearer, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {auth: {username: someone, password: secret}}}",
		},
		{
			name: "token refused", options: bearer, image: "HOST/team/demo:2",
			registries: "configs: {'HOST': {auth: {username: someone, password: wrong}}}", fails: "401",
		},
		{
			name: "mirror with authority and token", options: bearerTLS, image: "registry.test/team/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['URL']}}\nconfigs: {'HOST': {tls: {ca_file: 'CA'}, auth: {username: someone, password: secret}}}",
		},
		{
			name: "mirror with authority and password", options: basicTLS, image: "registry.test/team/demo:2",
			registries: "mirrors: {registry.test: {endpoint: ['URL']}}\nconfigs: {'HOST': {tls: {ca_file: 'CA'}, auth: {username: someone, password: secret}}}",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			registry := containerdtest.StartRegistry(t, test.options)
			fill := strings.NewReplacer("DEFAULT", containerd.DefaultRegistry(), "HOST", registry.Host, "URL", registry.URL, "CA", registry.CAFile).Replace
			err := pull(t, fill(test.registries), fill(test.image), test.auth)
			switch {
			case test.fails == "" && err != nil:
				t.Errorf("%v\nrequests: %q", err, registry.Requests())
			case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
				t.Errorf("error is %v, want %q in it", err, test.fails)
			}
			if requests := strings.Join(registry.Requests(), "\n"); test.fails == "" && strings.Count(requests, "GET /v2/") < 3 {
				t.Errorf("the image did not come from the registry, but for:\n%s", requests)
			}
		})
	}
}

func TestReadRegistries_Mistakes(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"mirror: {}", `unknown field "mirror"`},
		{"mirrors: {a.test: {endpoint: [b.test]}}", `endpoint "b.test" is not a URL`},
		{"mirrors: {'http://a.test': {}}", `"http://a.test" is not a host`},
		{"configs: {'*': {}}", `"*" is not a host`},
		{"configs: {a.test: {tls: {ca_file: ca.crt}}}", "not an absolute path"},
		{"configs: {a.test: {tls: {ca_file: /none/ca.crt}}}", "no such file"},
		{"configs: {a.test: {tls: {cert_file: /proc/self/stat}}}", "belong together"},
		{"configs: [", "registries.yaml"},
	} {
		t.Run(test.text, func(t *testing.T) {
			if r, err := readRegistries(t, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error with %q", fmt.Sprint(r), err, test.want)
			}
		})
	}
	if _, err := containerd.ReadRegistries("/none/registries.yaml"); err == nil {
		t.Error("no error for a file that is not there")
	}
}
