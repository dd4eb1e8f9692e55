package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"sigs.k8s.io/yaml"
)

// Registries says how registries are reached: through which mirrors, with which certificates and credentials. Its file has the form of
// k3s's registries.yaml:
//
//	mirrors:
//	  registry.example.com:            # a host as image names have it; "*" stands for all others
//	    endpoint:                      # tried in this order, then the registry itself
//	    - https://mirror.example.com:5000
//	configs:
//	  mirror.example.com:5000:         # a host that is asked: a registry or a mirror
//	    auth: {username: someone, password: secret}   # or auth: BASE64, or identity_token
//	    tls:
//	      ca_file: /etc/ssl/own-ca.crt
//	      cert_file: /etc/ssl/client.crt              # for registries that want one
//	      key_file: /etc/ssl/client.key
//	      insecure_skip_verify: false
//
// Image pull secrets of pods go before these credentials.
type Registries struct {
	Mirrors map[string]Mirror         `json:"mirrors,omitempty"`
	Configs map[string]RegistryConfig `json:"configs,omitempty"`
}

// Mirror is where the images of a registry are looked for first.
type Mirror struct {
	Endpoints []string `json:"endpoint,omitempty"` // URLs; a path replaces /v2
}

// RegistryConfig is about a host that is asked for images.
type RegistryConfig struct {
	Auth *RegistryAuth `json:"auth,omitempty"`
	TLS  *RegistryTLS  `json:"tls,omitempty"`
}

// RegistryAuth are credentials: a user with a password, both as base64 of "user:password", or a token for the token server.
type RegistryAuth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identity_token,omitempty"`
}

// RegistryTLS names files by absolute paths.
type RegistryTLS struct {
	CAFile             string `json:"ca_file,omitempty"`
	CertFile           string `json:"cert_file,omitempty"`
	KeyFile            string `json:"key_file,omitempty"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

// everyHost stands for all registries that are not named.
const everyHost = "*"

// ReadRegistries reads a file of registries. Fields that it does not know are errors: a mistyped one would be a mirror that is not used.
func ReadRegistries(file string) (*Registries, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read registries: %w", err)
	}
	var r Registries
	if err := yaml.UnmarshalStrict(content, &r); err != nil {
		return nil, fmt.Errorf("read registries from %s: %w", file, err)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("registries in %s: %w", file, err)
	}
	return &r, nil
}

func (r *Registries) validate() error {
	var all []error
	for _, host := range slices.Sorted(maps.Keys(r.Mirrors)) {
		if host != everyHost {
			all = append(all, checkHost("mirrors", host))
		}
		for _, endpoint := range r.Mirrors[host].Endpoints {
			u, err := url.Parse(endpoint)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				all = append(all, fmt.Errorf("mirrors.%s: endpoint %q is not a URL with http or https", host, endpoint))
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(r.Configs)) {
		all = append(all, checkHost("configs", host))
		if t := r.Configs[host].TLS; t != nil {
			for _, file := range []string{t.CAFile, t.CertFile, t.KeyFile} {
				if file == "" {
					continue
				}
				if !filepath.IsAbs(file) {
					all = append(all, fmt.Errorf("configs.%s.tls: %s is not an absolute path", host, file))
				} else if _, err := os.Stat(file); err != nil {
					all = append(all, fmt.Errorf("configs.%s.tls: %w", host, err))
				}
			}
			if (t.CertFile == "") != (t.KeyFile == "") {
				all = append(all, fmt.Errorf("configs.%s.tls: cert_file and key_file belong together", host))
			}
		}
	}
	return errors.Join(all...)
}

func checkHost(field, host string) error {
	if host == "" || strings.ContainsAny(host, "/ *") {
		return fmt.Errorf("%s: %q is not a host with or without a port", field, host)
	}
	return nil
}

// namedAuth is the credentials for a host.
type namedAuth struct {
	Host string
	RegistryAuth
}

// auths are the credentials in the order of their hosts.
func (r *Registries) auths() []namedAuth {
	var all []namedAuth
	for _, host := range slices.Sorted(maps.Keys(r.Configs)) {
		if auth := r.Configs[host].Auth; auth != nil {
			all = append(all, namedAuth{Host: asked(host), RegistryAuth: *auth})
		}
	}
	return all
}

// asked is the host that is asked for images of a registry. They are the same, but for the default registry, whose well-known name
// in image names is not the host that serves them (containerd, core/remotes/docker.DefaultHost).
func asked(host string) string {
	if host == defaultRegistry() {
		return "registry-1." + host
	}
	return host
}

// defaultRegistry is where images are whose names have no host.
func defaultRegistry() string {
	named, err := reference.ParseNormalizedNamed("image")
	if err != nil {
		return ""
	}
	return reference.Domain(named)
}

// write makes the directory that containerd looks into at every pull: a directory for each host, with hosts.toml in it
// (containerd, docs/hosts.md). A nil r leaves it empty.
func (r *Registries) write(dir string) error {
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear registries: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write registries: %w", err)
	}
	if r == nil {
		return nil
	}
	hosts := map[string]bool{}
	for host := range r.Mirrors {
		hosts[host] = true
	}
	for host, config := range r.Configs {
		if config.TLS != nil {
			hosts[host] = true
		}
	}
	for host := range hosts {
		name := host
		if host == everyHost {
			name = "_default"
		}
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("write registries: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "hosts.toml"), r.hosts(host), 0o600); err != nil {
			return fmt.Errorf("write registries: %w", err)
		}
	}
	return nil
}

// hosts is hosts.toml for a registry.
func (r *Registries) hosts(registry string) []byte {
	var out bytes.Buffer
	if registry != everyHost {
		fmt.Fprintf(&out, "server = %s\n", quote("https://"+asked(registry)))
		r.tls(&out, registry)
	}
	for _, endpoint := range r.Mirrors[registry].Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			continue // validate has seen it
		}
		fmt.Fprintf(&out, "\n[host.%s]\ncapabilities = [\"pull\", \"resolve\"]\n", quote(endpoint))
		if path := strings.TrimSuffix(u.Path, "/"); path != "" && path != "/v2" {
			fmt.Fprintln(&out, "override_path = true")
		}
		r.tls(&out, u.Host)
	}
	return out.Bytes()
}

// tls writes what is said about the certificates of a host.
func (r *Registries) tls(out *bytes.Buffer, host string) {
	t := r.Configs[host].TLS
	if t == nil {
		return
	}
	if t.CAFile != "" {
		fmt.Fprintf(out, "ca = %s\n", quote(t.CAFile))
	}
	if t.CertFile != "" {
		fmt.Fprintf(out, "client = [[%s, %s]]\n", quote(t.CertFile), quote(t.KeyFile))
	}
	if t.InsecureSkipVerify {
		fmt.Fprintln(out, "skip_verify = true")
	}
}
