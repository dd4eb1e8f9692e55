package containerdtest

import (
	"archive/tar"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// RegistryOptions says what a registry wants of its clients.
type RegistryOptions struct {
	TLS                bool   // HTTPS with a certificate that only Registry.CAFile vouches for
	Username, Password string // "": everyone may pull
	Bearer             bool   // credentials are exchanged for a token, instead of being sent along
	// Intercept, when not nil, sees each request first, and answers it if it returns true.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
}

// Registry serves the images that come with the runtime after the OCI distribution specification, for pulling: each under every
// repository that ends with its name, so that registry/anything/demo:1 is demo:1.
type Registry struct {
	Host   string // 127.0.0.1:port
	URL    string
	CAFile string // of a registry with TLS

	options RegistryOptions
	blobs   map[string][]byte // by digest, manifests too
	types   map[string]string // media types of manifests by digest
	tags    map[string]string // digests by last part of the repository and tag: "demo:1"

	mu       sync.Mutex
	requests []string
}

// token is what the token server gives to those who may pull.
const token = "a-token-of-the-test"

// StartRegistry serves until the test ends.
func StartRegistry(t testing.TB, options RegistryOptions) *Registry {
	t.Helper()
	r := &Registry{options: options, blobs: map[string][]byte{}, types: map[string]string{}, tags: map[string]string{}}
	archives, err := filepath.Glob(filepath.Join(BinDir(t), "images", "*.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, archive := range archives {
		if err := r.load(archive); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewUnstartedServer(r)
	if options.TLS {
		server.StartTLS()
		r.CAFile = filepath.Join(t.TempDir(), "ca.crt")
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := os.WriteFile(r.CAFile, ca, 0o644); err != nil {
			t.Fatal(err)
		}
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	r.URL = server.URL
	r.Host = server.Listener.Addr().String()
	return r
}

// Requests are those that have been answered, as "GET /v2/...", in their order.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// load reads an OCI image layout.
func (r *Registry) load(archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var index struct {
		Manifests []struct {
			MediaType, Digest string
			Annotations       map[string]string
		}
	}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		if header.Name == "index.json" {
			if err := json.Unmarshal(content, &index); err != nil {
				return err
			}
		} else if hash, ok := strings.CutPrefix(header.Name, "blobs/sha256/"); ok {
			r.blobs["sha256:"+hash] = content
		}
	}
	for _, m := range index.Manifests {
		r.types[m.Digest] = m.MediaType
		r.tags[path.Base(m.Annotations["io.containerd.image.name"])] = m.Digest
	}
	return nil
}

// ServeHTTP answers GET and HEAD of manifests and blobs, and of tokens.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, request.Method+" "+request.URL.Path)
	r.mu.Unlock()
	if r.options.Intercept != nil && r.options.Intercept(w, request) {
		return
	}
	if request.URL.Path == "/token" {
		r.giveToken(w, request)
		return
	}
	if !r.authorized(request) {
		w.Header().Set("WWW-Authenticate", r.challenge(request))
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return
	}
	name, ok := strings.CutPrefix(request.URL.Path, "/v2/")
	if !ok || name == "" {
		w.WriteHeader(http.StatusOK) // whether this is a registry
		return
	}
	if before, digest, ok := cutLast(name, "/blobs/"); ok && before != "" && r.blobs[digest] != nil {
		r.send(w, "application/octet-stream", digest)
	} else if before, reference, ok := cutLast(name, "/manifests/"); ok {
		digest := reference
		if !strings.Contains(reference, ":") {
			digest = r.tags[path.Base(before)+":"+reference]
		}
		if r.types[digest] == "" {
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
			return
		}
		r.send(w, r.types[digest], digest)
	} else {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
	}
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}

func (r *Registry) send(w http.ResponseWriter, mediaType, digest string) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", fmt.Sprint(len(r.blobs[digest])))
	_, _ = w.Write(r.blobs[digest])
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, reason, strings.ToLower(strings.ReplaceAll(reason, "_", " ")))
}

// authorized says whether a request may pull.
func (r *Registry) authorized(request *http.Request) bool {
	if r.options.Username == "" {
		return true
	}
	if r.options.Bearer {
		return request.Header.Get("Authorization") == "Bearer "+token
	}
	return r.known(request)
}

func (r *Registry) known(request *http.Request) bool {
	user, password, _ := request.BasicAuth()
	return user == r.options.Username && password == r.options.Password
}

func (r *Registry) challenge(request *http.Request) string {
	if !r.options.Bearer {
		return `Basic realm="test"`
	}
	scheme := "http"
	if request.TLS != nil {
		scheme = "https"
	}
	return fmt.Sprintf(`Bearer realm="%s://%s/token",service="test"`, scheme, request.Host)
}

// giveToken is the token server: GET with the credentials, or a POST of OAuth2 with them in a form.
func (r *Registry) giveToken(w http.ResponseWriter, request *http.Request) {
	byForm := request.PostFormValue("username") == r.options.Username && request.PostFormValue("password") == r.options.Password
	if !r.known(request) && !byForm {
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"token":%q,"access_token":%q,"expires_in":300}`, token, token)
}
