package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// archiveOf writes a tar of names and contents in turn.
func archiveOf(t *testing.T, namesAndContents ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(namesAndContents); i += 2 {
		content := namesAndContents[i+1]
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: namesAndContents[i], Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file(t, out.Bytes())
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive.tar")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRead(t *testing.T) {
	const (
		manifest = `{"config":{"digest":"sha256:c0"}}`
		index    = `{"manifests":[
			{"digest":"sha256:arm","platform":{"os":"linux","architecture":"arm64"}},
			{"digest":"sha256:amd","platform":{"os":"linux","architecture":"amd64"}}]}`
	)
	standard, err := Normalise("demo:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		files []string
		want  []Image
	}{
		{
			name: "OCI layout with containerd's name",
			files: []string{"oci-layout", "{}", "blobs/sha256/m", manifest, "index.json",
				`{"manifests":[{"digest":"sha256:m","annotations":{"io.containerd.image.name":"demo:1","org.opencontainers.image.ref.name":"1"}}]}`},
			want: []Image{{standard, "sha256:c0"}},
		},
		{
			name: "OCI layout with a full reference",
			files: []string{"blobs/sha256/m", manifest, "./index.json",
				`{"manifests":[{"digest":"sha256:m","annotations":{"org.opencontainers.image.ref.name":"a.test/b:2"}}]}`},
			want: []Image{{"a.test/b:2", "sha256:c0"}},
		},
		{
			name: "OCI layout with a tag alone",
			files: []string{"blobs/sha256/m", manifest, "index.json",
				`{"manifests":[{"digest":"sha256:m","annotations":{"org.opencontainers.image.ref.name":"latest"}}]}`},
			want: []Image{{"", "sha256:c0"}},
		},
		{
			name: "several architectures",
			files: []string{"index.json", `{"manifests":[{"digest":"sha256:i","annotations":{"io.containerd.image.name":"a.test/b"}}]}`,
				"blobs/sha256/i", index, "blobs/sha256/arm", `{"config":{"digest":"sha256:c1"}}`, "blobs/sha256/amd", manifest},
			want: []Image{{"a.test/b:latest", "sha256:c0"}},
		},
		{
			name:  "an index that names itself",
			files: []string{"index.json", `{"manifests":[{"digest":"sha256:i"}]}`, "blobs/sha256/i", `{"manifests":[{"digest":"sha256:i"}]}`},
			want:  []Image{{"", ""}},
		},
		{
			name:  "docker save",
			files: []string{"manifest.json", `[{"Config":"c0.json","RepoTags":["a.test/b:1","a.test/b:2"],"Layers":["l/layer.tar"]}]`, "c0.json", "{}"},
			want:  []Image{{"a.test/b:1", "sha256:c0"}, {"a.test/b:2", "sha256:c0"}},
		},
		{
			name:  "docker save of an ID",
			files: []string{"manifest.json", `[{"Config":"blobs/sha256/c0","RepoTags":null}]`},
			want:  []Image{{"", "sha256:c0"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plain := archiveOf(t, test.files...)
			content, err := os.ReadFile(plain)
			if err != nil {
				t.Fatal(err)
			}
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{plain, file(t, packed.Bytes())} {
				got, err := Read(name, "amd64")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestRead_Failures(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"missing", "/none/a.tar", "no such file"},
		{"empty", file(t, nil), "is empty"},
		{"no tar", file(t, []byte(strings.Repeat("no tar at all ", 100))), "not an image archive"},
		{"broken gzip", file(t, []byte{0x1f, 0x8b, 0, 0}), "not an image archive"},
		{"another tar", archiveOf(t, "readme", "{}"), "neither index.json"},
		{"no images", archiveOf(t, "index.json", `{"manifests":[]}`), "no images are in it"},
		{"bad index", archiveOf(t, "index.json", `{"manifests":1}`), "index.json"},
		{"bad name", archiveOf(t, "manifest.json", `[{"RepoTags":["a//b:1"]}]`), `"a//b:1"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := Read(test.file, "amd64"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	var seed bytes.Buffer
	w := tar.NewWriter(&seed)
	content := `{"manifests":[{"digest":"sha256:m","annotations":{"io.containerd.image.name":"demo:1"}}]}`
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "index.json", Size: int64(len(content))})
	_, _ = w.Write([]byte(content))
	_ = w.Close()
	f.Add(seed.Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		if images, err := read(bytes.NewReader(content), "amd64"); err == nil && len(images) == 0 {
			t.Error("neither images nor an error")
		}
	})
}
