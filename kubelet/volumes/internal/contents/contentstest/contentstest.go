// Package contentstest looks at volumes as their readers do.
package contentstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files returns what a reader of a volume sees: the contents of files by path, with symlinks followed, and without what begins with "..".
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	var walk func(string)
	walk = func(relative string) {
		entries, err := os.ReadDir(filepath.Join(dir, relative))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			path := filepath.Join(relative, entry.Name())
			if strings.HasPrefix(path, "..") {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(path)
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			seen[path] = string(content)
		}
	}
	walk("")
	return seen
}
