// Package built finds for tests what make has built: the program and the container runtime.
package built

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Program returns the path of the vigil that is tested.
func Program(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("VIGIL"); path != "" {
		return there(t, path, "make build")
	}
	return there(t, filepath.Join(root(t), "bin", "vigil"), "make build")
}

// RuntimeDir returns the directory with the programs of the container runtime: $VIGIL_RUNTIME, else bin/runtime.
func RuntimeDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("VIGIL_RUNTIME")
	if dir == "" {
		dir = filepath.Join(root(t), "bin", "runtime")
	}
	return filepath.Dir(filepath.Dir(there(t, filepath.Join(dir, "images", "demo.tar"), "make runtime")))
}

// there wants a file, which some command makes, and returns its absolute path.
func there(t testing.TB, path, made string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("nothing to test with: %v (run %s)", err, made)
	}
	return path
}

// root returns the repository's directory. Tests run in directories below it.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.HasPrefix(string(text), "module vigil\n") {
			return at
		}
	}
	t.Fatalf("%s is not in the repository", dir)
	return ""
}
