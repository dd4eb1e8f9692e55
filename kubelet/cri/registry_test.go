package cri

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"vigil/kubelet/containerd/containerdtest"
)

// registry serves variants of the demo image. Who may read which repository is a user name and password by its first part.
type registry struct {
	host   string
	logins map[string]string // "team" to "user:password"; other repositories are public

	mu         sync.Mutex
	blobs      map[string][]byte // by digest, and manifests by repository:tag
	demo       map[string]any    // the manifest
	config     map[string]any
	half       map[string]chan struct{} // by digest: of these blobs only a half is served before the channel is closed
	gate       chan struct{}            // when not nil, a manifest is served once it can be received from
	waiting    int
	mostAtOnce int
}

func startRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{logins: map[string]string{}, blobs: map[string][]byte{}}
	r.load(t, filepath.Join(containerdtest.BinDir(t), "images", "demo.tar"))
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

func (r *registry) load(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var index struct{ Manifests []struct{ Digest string } }
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "index.json" {
			err = json.Unmarshal(data, &index)
		} else if name, found := strings.CutPrefix(header.Name, "blobs/sha256/"); found {
			r.blobs["sha256:"+name] = data
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(r.blobs[index.Manifests[0].Digest], &r.demo); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.blobs[r.demo["config"].(map[string]any)["digest"].(string)], &r.config); err != nil {
		t.Fatal(err)
	}
}

// push puts an image like demo, with an ID of its own, under a name without the host: "team/app:1". It returns the whole name.
func (r *registry) push(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	config, manifest := maps.Clone(r.config), maps.Clone(r.demo)
	config["author"] = name
	descriptor := maps.Clone(r.demo["config"].(map[string]any))
	descriptor["digest"], descriptor["size"] = r.put(config)
	manifest["config"] = descriptor
	digest, _ := r.put(manifest)
	r.blobs[name] = r.blobs[digest]
	return r.host + "/" + name
}

func (r *registry) put(value any) (digest string, size int) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(data)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	r.blobs[digest] = data
	return digest, len(data)
}

func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	parts := strings.Split(strings.TrimPrefix(request.URL.Path, "/v2/"), "/")
	if login := r.logins[parts[0]]; login != "" {
		user, password, _ := request.BasicAuth()
		if user+":"+password != login {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
	}
	at := slices.IndexFunc(parts, func(p string) bool { return p == "manifests" || p == "blobs" })
	if at < 0 || at != len(parts)-2 {
		return // the version check
	}
	key := parts[at+1]
	if parts[at] == "manifests" {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		if !strings.HasPrefix(key, "sha256:") {
			key = strings.Join(parts[:at], "/") + ":" + key
			r.wait()
		}
	}
	r.mu.Lock()
	data, found := r.blobs[key]
	release := r.half[key]
	r.mu.Unlock()
	if !found {
		http.NotFound(w, request)
		return
	}
	if parts[at] == "manifests" {
		sum := sha256.Sum256(data)
		w.Header().Set("Docker-Content-Digest", "sha256:"+hex.EncodeToString(sum[:]))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if release != nil && request.Method == http.MethodGet {
		_, _ = w.Write(data[:len(data)/2])
		w.(http.Flusher).Flush()
		<-release
		data = data[len(data)/2:]
	}
	_, _ = w.Write(data)
}

// wait lets one request through the gate.
func (r *registry) wait() {
	r.mu.Lock()
	gate := r.gate
	r.waiting++
	r.mostAtOnce = max(r.mostAtOnce, r.waiting)
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
}
