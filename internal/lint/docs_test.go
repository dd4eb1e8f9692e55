package lint

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// pages are the documents of the repository, by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		switch {
		case d.IsDir() && (name == ".git" || name == "bin" || d.Name() == "out" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(path)
			found[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Fatalf("found only %d pages", len(found))
	}
	return found
}

var (
	link   = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	quoted = regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+)/?`")
)

// A page links to files that exist, and what it names as a file or package below a top-level folder exists.
func TestPagesNameWhatExists(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			top, _, _ := strings.Cut(m[1], "/")
			if top == "bin" || !isFolder(filepath.Join(root, top)) {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !isSymbol(m[1]) {
				t.Errorf("%s names %s: %v", name, m[1], err)
			}
		}
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isSymbol reports whether the path names something in a package that exists: watchcache/internal.Tree.
func isSymbol(path string) bool {
	dir, symbol, ok := strings.Cut(path[strings.LastIndex(path, "/")+1:], ".")
	return ok && symbol != "" && symbol[0] >= 'A' && symbol[0] <= 'Z' && isFolder(filepath.Join(root, filepath.Dir(path), dir))
}

var page = regexp.MustCompile(`\b(?:[a-z]+/)*[A-Za-z-]+\.md\b`)

// Comments of the program name pages that exist, by their path from the root or beside the file.
func TestCommentsNamePagesThatExist(t *testing.T) {
	others := map[string]string{ // pages of others
		"hosts.md":    "containerd's",
		"features.md": "the Container Runtime Interface's",
	}
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				_, comment, ok := strings.Cut(line, "//")
				if !ok || strings.Contains(line, "://") {
					continue
				}
				for _, name := range page.FindAllString(comment, -1) {
					if others[filepath.Base(name)] != "" {
						continue
					}
					_, fromRoot := os.Stat(filepath.Join(root, name))
					_, beside := os.Stat(filepath.Join(p.Dir, name))
					if fromRoot != nil && beside != nil {
						t.Errorf("%s/%s names %s, which does not exist", p.ImportPath, file, name)
					}
				}
			}
		}
	}
}

// Every top-level folder and every package below internal/ has a row in ARCHITECTURE.md.
func TestFoldersAreOnTheMap(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, above := range []string{"", "internal/"} {
		entries, err := os.ReadDir(filepath.Join(root, above))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := e.Name(); e.IsDir() && name[0] != '.' && name != "bin" && name != "internal" {
				folders = append(folders, above+name)
			}
		}
	}
	for _, folder := range folders {
		if !strings.Contains(string(text), "| `"+folder) {
			t.Errorf("ARCHITECTURE.md has no row for %s", folder)
		}
	}
}

// docs/dependencies.md says of each direct dependency why it is there, and of nothing else.
func TestDependenciesHaveReasons(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], " module ") || strings.HasPrefix(cells[1], " --") {
			continue
		}
		if strings.TrimSpace(cells[3]) == "" {
			t.Errorf("no reason for%s", cells[1])
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			listed = append(listed, strings.TrimSpace(name))
		}
	}
	output, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	direct := strings.Fields(string(output))
	for _, name := range direct {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/dependencies.md does not say why %s is needed", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(direct, name) {
			t.Errorf("docs/dependencies.md lists %s, which go.mod does not require directly", name)
		}
	}
}
