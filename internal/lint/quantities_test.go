package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// parsers are the files that may call resource.ParseQuantity, with the reason why nobody from outside writes what they parse. Others call validate.ParseQuantity, which
// has bounds: the library makes a number of 300 million digits of 1e300000000 as soon as it compares or adds it.
var parsers = map[string]string{
	"kinds/validate/quantity.go":     "has the bounds",
	"kubelet/eviction/threshold.go":  "a flag of the node's",
	"kubelet/machine/allocatable.go": "a flag of the node's",
	"kubelet/cgroups/limits.go":      "names of the kernel's controllers",
	"cmd/vigil/apiserver.go":         "a flag",
	"kubelet/node/images.go":         "a flag of the node's",
}

// TestQuantitiesAreBounded: whoever makes a quantity of text from outside does so within bounds.
func TestQuantitiesAreBounded(t *testing.T) {
	const library = `"k8s.io/apimachinery/pkg/api/resource"`
	used := map[string]bool{}
	sources(t, func(path string, source []byte) error {
		if strings.HasSuffix(path, "_test.go") || !strings.Contains(string(source), library) {
			return nil
		}
		name, err := filepath.Rel(filepath.Join("..", ".."), path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, 0)
		if err != nil {
			return err
		}
		called := "resource" // what the file calls the library
		for _, i := range file.Imports {
			if i.Path.Value == library && i.Name != nil {
				called = i.Name.Name
			}
		}
		for node := range ast.Preorder(file) {
			at, ok := node.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if from, ok := at.X.(*ast.Ident); !ok || from.Name != called || at.Sel.Name != "ParseQuantity" && at.Sel.Name != "MustParse" {
				continue
			}
			if used[name] = true; parsers[name] == "" && !literals(file, at) {
				t.Errorf("%s: call validate.ParseQuantity, or say in the list why nobody from outside has written the text", files.Position(at.Pos()))
			}
		}
		return nil
	})
	for name := range parsers {
		if !used[name] {
			t.Errorf("%s is in the list, but parses no quantity", name)
		}
	}
}

// literals says whether function is called with a text that stands in the source.
func literals(file *ast.File, function *ast.SelectorExpr) bool {
	for node := range ast.Preorder(file) {
		if call, ok := node.(*ast.CallExpr); ok && call.Fun == function && len(call.Args) == 1 {
			_, literal := call.Args[0].(*ast.BasicLit)
			return literal
		}
	}
	return false
}
