package containerd_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
)

// dockerSave makes of the demo image what docker save would write of it under another name.
func dockerSave(t *testing.T, name string) string {
	t.Helper()
	archive, err := os.Open(filepath.Join(containerdtest.BinDir(t), "images", "demo.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	blobs := map[string][]byte{}
	var layer, config string
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		hash := filepath.Base(header.Name)
		switch {
		case len(content) > 1<<20:
			layer = hash
		case bytes.Contains(content, []byte("rootfs")):
			config = hash
		}
		blobs[hash] = content
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": config + ".json", "RepoTags": []string{name}, "Layers": []string{layer + "/layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, entry := range []struct {
		name    string
		content []byte
	}{{layer + "/layer.tar", blobs[layer]}, {config + ".json", blobs[config]}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: entry.name, Mode: 0o644, Size: int64(len(entry.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(entry.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved.tar")
	if err := os.WriteFile(saved, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return saved
}

func TestImport(t *testing.T) {
	config := containerdtest.Config(t)
	c := connect(t, containerdtest.StartWith(t, config))
	d, err := containerd.Find(config.RootDir) // as `vigil image` does it, in another process
	if err != nil {
		t.Fatal(err)
	}
	names, err := d.Import(testContext(t), dockerSave(t, "a.test/team/saved:7"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.test/team/saved:7"}; !slices.Equal(names, want) {
		t.Errorf("imported %q, want %q", names, want)
	}
	_, container := c.runDemo(t, "a.test/team/saved:7", "sleep", "1000")
	c.started(t, container)
	list, err := d.List(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range list {
		if slices.Contains(image.RepoTags, names[0]) && len(image.RepoTags) == 1 && image.Pinned {
			t.Error("an imported image is pinned")
		}
	}

	names, err = d.Import(testContext(t), filepath.Join(config.BinDir, "images", "demo.tar")) // again
	if err != nil || !slices.Equal(names, []string{"demo:1", "demo:2", "demo:3", "demo"}) {
		t.Errorf("imported %q, %v", names, err)
	}

	truncated := filepath.Join(t.TempDir(), "truncated.tar")
	whole, err := os.ReadFile(dockerSave(t, "a.test/truncated:1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(truncated, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Import(testContext(t), truncated); err == nil || !strings.Contains(err.Error(), truncated) {
		t.Errorf("import of half an archive: %v", err)
	}
}
