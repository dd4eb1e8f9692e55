package main

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

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// read gives the files of a tar by name.
func read(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.IsZero() && header.ModTime.Unix() != 0 {
			t.Errorf("%s has a time: %s", header.Name, header.ModTime)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "hello")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	for _, name := range []string{"one.tar", "two.tar"} {
		output := filepath.Join(dir, name)
		err := run([]string{"--output", output, "--program", program, "--furnish", "--arch", "arm64", "--user", "1000:1000", "--port", "8080",
			"--env", "VERSION={{tag}}", "hello:1", "a.test/hello"})
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same input makes different archives")
	}

	files := read(t, archives[0])
	blob := func(d digest.Digest, into any) []byte {
		content := files["blobs/sha256/"+d.Encoded()]
		if digest.FromBytes(content) != d {
			t.Fatalf("blob %s is not there, or something else", d)
		}
		if into != nil {
			if err := json.Unmarshal(content, into); err != nil {
				t.Fatal(err)
			}
		}
		return content
	}
	var index ocispec.Index
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != 2 || files["oci-layout"] == nil {
		t.Fatalf("the layout has %d images", len(index.Manifests))
	}
	names := []string{"hello:1", "a.test/hello:latest"}
	for i, entry := range index.Manifests {
		if name := entry.Annotations["io.containerd.image.name"]; !strings.HasSuffix(name, names[i]) || !strings.Contains(name, ".") {
			t.Errorf("image %d is called %s, want a registry and %s", i, name, names[i])
		}
		var manifest ocispec.Manifest
		var config ocispec.Image
		blob(entry.Digest, &manifest)
		blob(manifest.Config.Digest, &config)
		layer := read(t, blob(manifest.Layers[0].Digest, nil))
		if string(layer["hello"]) != "a program" || layer["etc/passwd"] == nil {
			t.Errorf("the layer has %d files", len(layer))
		}
		if config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest || config.Architecture != "arm64" || config.Config.User != "1000:1000" {
			t.Errorf("configuration %+v", config)
		}
		if tag := []string{"1", "latest"}[i]; !slices.Contains(config.Config.Env, "VERSION="+tag) {
			t.Errorf("environment %q does not say version %s", config.Config.Env, tag)
		}
	}
}

func TestRun_Failures(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out.tar")
	for _, args := range [][]string{
		{},
		{"--output", output, "--program", "/none/program", "a"},
		{"--output", output, "--program", "/proc/self/exe"},
		{"--output", output, "--program", "/proc/self/exe", "a//b"},
		{"--output", output + "/none/x", "--program", "/proc/self/exe", "a"},
	} {
		if err := run(args); err == nil {
			t.Errorf("no error for %q", args)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(output)); err != nil || len(entries) != 0 {
		t.Errorf("failures leave %v (%v)", entries, err)
	}
}
