package cri

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/eventually"
	"vigil/kubelet"
)

// pushLarge is push with one layer of its own, of so many bytes and nothing that could be compressed. It returns how large the parts of the
// image are together.
func (r *registry) pushLarge(t *testing.T, name string, bytesOfFile int) (image, layer string, total int64) {
	t.Helper()
	content := make([]byte, bytesOfFile)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "noise", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(archive.Bytes())
	layer = "sha256:" + hex.EncodeToString(sum[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[layer] = archive.Bytes()
	config, manifest := maps.Clone(r.config), maps.Clone(r.demo)
	config["rootfs"] = map[string]any{"type": "layers", "diff_ids": []string{layer}}
	delete(config, "history")
	descriptor := maps.Clone(r.demo["config"].(map[string]any))
	digest, size := r.put(config)
	descriptor["digest"], descriptor["size"] = digest, size
	manifest["config"] = descriptor
	manifest["layers"] = []map[string]any{{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer, "size": archive.Len()}}
	whole, _ := r.put(manifest)
	r.blobs[name] = r.blobs[whole]
	return r.host + "/" + name, layer, int64(archive.Len() + size)
}

// Two pulls stand still in the middle of their layers at once, and of each is told how much of it is there, not of both.
func TestPullProgress(t *testing.T) {
	n := startNode(t, nil)
	n.images.content.first = 20 * time.Millisecond
	r := startRegistry(t)
	r.half = map[string]chan struct{}{}
	type progress struct{ done, total int64 }
	var pulls sync.WaitGroup
	for _, test := range []struct {
		name  string
		bytes int
	}{{"team/one:1", 8 << 20}, {"team/two:1", 12 << 20}} {
		image, layer, total := r.pushLarge(t, test.name, test.bytes)
		release := make(chan struct{})
		r.mu.Lock()
		r.half[layer] = release
		r.mu.Unlock()
		pulls.Go(func() {
			told := make(chan progress, 100)
			ended := make(chan error, 1)
			go func() {
				pod := newPod("pulls", nil)
				pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, corev1.PullAlways
				_, err := n.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: &pod.Spec.Containers[0], Progress: func(done, total int64) {
					select {
					case told <- progress{done, total}:
					default:
					}
				}})
				ended <- err
			}()
			deadline := time.After(eventually.Limit)
			for half := false; !half; {
				select {
				case p := <-told:
					if p.total != total || p.done > total/2+4096 {
						t.Errorf("%s: told of %d of %d bytes, of which a half has come, and that is of %d", test.name, p.done, p.total, total)
					}
					half = p.done >= total/4
				case <-deadline:
					t.Errorf("%s: not told of", test.name)
					half = true
				}
			}
			close(release)
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		})
	}
	pulls.Wait()
}
