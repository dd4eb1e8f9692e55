package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTar packs as `kubectl cp` does and unpacks again.
func TestTar(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "sub", "file"), []byte("content"), 0o640); err != nil {
		t.Fatal(err)
	}
	var packed, errOut bytes.Buffer
	if code := command([]string{"tar", "cf", "-", "-C", from, "sub"}, nil, &packed, &errOut); code != 0 {
		t.Fatalf("pack: %d %s", code, &errOut)
	}
	if code := command([]string{"tar", "--no-same-owner", "-xmf", "-", "-C", to}, &packed, &errOut, &errOut); code != 0 {
		t.Fatalf("unpack: %d %s", code, &errOut)
	}
	got, err := os.ReadFile(filepath.Join(to, "sub", "file"))
	if err != nil || string(got) != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	if code := command([]string{"tar", "cf", "-", filepath.Join(from, "none")}, nil, &packed, &errOut); code != 1 {
		t.Errorf("of nothing: %d", code)
	}
	if code := command([]string{"tar"}, nil, &packed, &errOut); code != 1 {
		t.Errorf("without arguments: %d", code)
	}
}
