package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// eachFile parses the Go files of the repository's main module. Paths are relative to its root.
func eachFile(t *testing.T, f func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); entry.Name() == ".git" || entry.Name() == "bin" || err == nil && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		seen++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(rel), files, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d Go files were found", seen)
	}
}

// recovers are the files in which panics are recovered without being counted, each with the reason.
var recovers = map[string]string{
	"kinds/batch/cronjob_validation.go": "a parser panics on bad schedules: they are invalid",
	"apiserver/write/patch/patch.go":    "a patch library panics on patches that make no sense: they are the client's error",
	"apiserver/fairness.go":             "it hands the panic over to the goroutine of the request, where it is counted",
	"store/embedded.go":                 "etcd panics over data that it cannot read: the start fails and says so",
	"store/embedded_check.go":           "bbolt panics over pages that it has not written: the database is damaged, and the start fails and says so",
}

// TestPanicsAreCounted: a function that recovers a panic tells package panics.
func TestPanicsAreCounted(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(path string, files *token.FileSet, file *ast.File) {
		if strings.HasPrefix(path, "internal/panics/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, declaration := range file.Decls {
			switch {
			case !calls(declaration, "recover"):
			case recovers[path] != "":
				seen[path] = true
			case !calls(declaration, "panics.Recovered"):
				t.Errorf("%s recovers a panic that nobody sees: use package panics", files.Position(declaration.Pos()))
			}
		}
	})
	for path := range recovers {
		if !seen[path] {
			t.Errorf("%s recovers nothing: take it out of the table", path)
		}
	}
}

// calls says whether a function of a name ("panics.Recovered") is called in a node.
func calls(node ast.Node, name string) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && types.ExprString(call.Fun) == name {
			found = true
		}
		return !found
	})
	return found
}
