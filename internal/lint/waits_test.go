package lint

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// ownWaits are the test files that poll by themselves, each with the reason.
var ownWaits = map[string]string{
	"informer/bench_test.go": "it measures: the pause between two looks must stay short",
}

// TestTestsWaitInOneWay: tests wait for conditions with internal/eventually. A loop of their own has a limit of its own, which is short some day.
func TestTestsWaitInOneWay(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(name string, files *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(path.Dir(name), "test") || path.Dir(name) == "internal/leaktest" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			loop, ok := n.(*ast.ForStmt)
			if !ok || !hasDeadline(loop) {
				return true
			}
			if ownWaits[name] != "" {
				seen[name] = true
			} else {
				t.Errorf("%s: a loop waits with a deadline of its own: use package eventually", files.Position(loop.Pos()))
			}
			return true
		})
	})
	for name := range ownWaits {
		if !seen[name] {
			t.Errorf("%s does not poll: take it out of the table", name)
		}
	}
}

// hasDeadline says whether a loop begins with a timer or ends when a time has come.
func hasDeadline(loop *ast.ForStmt) bool {
	return loop.Init != nil && calls(loop.Init, "time.After") || calls(loop, "time.Now().After")
}
