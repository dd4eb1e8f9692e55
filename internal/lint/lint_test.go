package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors lists the rooms from the ground up. A room may import rooms of lower floors only, never its own floor's.
var floors = [][]string{
	{"object", "store", "pki", "h2", "netfilter"},
	{"watchcache", "kinds"},
	{"apiserver", "informer"},
	{"controllers", "scheduler", "kubelet", "proxy", "dns", "console"},
	{"cluster"},
	{"cmd"},
}

// doors are the rooms and modules that only some may enter, each with the reason.
var doors = []struct {
	door    string
	allowed []string
	reason  string
}{
	{"vigil/store", []string{"vigil/watchcache", "vigil/apiserver", "vigil/cluster"}, "the API server alone talks to etcd"},
	{"go.etcd.io/etcd", []string{"vigil/store"}, "the API server alone talks to etcd"},
	{"vigil/watchcache", []string{"vigil/apiserver", "vigil/cluster"}, "everybody else lists and watches through the API"},
	{"vigil/apiserver", []string{"vigil/cluster"}, "components talk to the API server over mutual TLS, never in memory"},
	{"k8s.io/apiserver/pkg/server", []string{"vigil/store/encryption", "vigil/apiserver/flowcontrol"}, "the generic server is the peer that bench measures against; its reader of EncryptionConfigurations and its router for debug pages are free of it"},
	{"k8s.io/apiserver/pkg/storage", []string{"vigil/store/encryption"}, "upstream's store and cacher are the peer that bench measures against; how values are encrypted is a format"},
	{"k8s.io/client-go/informers", []string{"vigil/apiserver/flowcontrol"}, "informers of our own; client-go's are used as clients in test/ and bench/, and their types are what priority and fairness is built with"},
	{"github.com/google/nftables", []string{"vigil/netfilter"}, "packet rules are written in the words of netfilter, and the library is replaced in one place"},
	{"k8s.io/kubectl", []string{"vigil/cmd"}, "kubectl is a subcommand"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles", "vigil/...")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 10 {
		t.Fatalf("go list found only %d packages", len(list))
	}
	return list
}

// room is the top-level folder of a package of this module, "" for others.
func room(path string) string {
	rest, ok := strings.CutPrefix(path, "vigil/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func floor(room string) int {
	return slices.IndexFunc(floors, func(rooms []string) bool { return slices.Contains(rooms, room) })
}

// A package that exists for tests (storetest, apiservertest ...) may be used by tests of every room and enter every door.
func isTestHelper(path string) bool { return strings.HasSuffix(path, "test") }

func TestImportsGoDownward(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		if from == "internal" || isTestHelper(p.ImportPath) {
			continue
		}
		if floor(from) < 0 {
			t.Errorf("%s: room %q stands on no floor; add it to the table", p.ImportPath, from)
			continue
		}
		for _, imported := range p.Imports {
			to := room(imported)
			if to == "" || to == from || to == "internal" {
				continue
			}
			if floor(to) >= floor(from) {
				t.Errorf("%s imports %s, which does not stand below it", p.ImportPath, imported)
			}
		}
	}
}

func TestDoorsStayClosed(t *testing.T) {
	within := func(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	for _, p := range packages(t) {
		if isTestHelper(p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			for _, d := range doors {
				if !within(imported, d.door) || within(p.ImportPath, d.door) {
					continue
				}
				if !slices.ContainsFunc(d.allowed, func(a string) bool { return within(p.ImportPath, a) }) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imported, d.reason)
				}
			}
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestFilesAreFormatted(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		seen++
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		formatted, err := format.Source(source)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if string(formatted) != string(source) {
			t.Errorf("%s is not formatted by gofmt", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d Go files were found", seen)
	}
}

// skips are the conditions under which a test may skip itself, each with the reason. Whatever a machine may lack is for internal/need.
var skips = map[string]string{
	"testing.Short()":     "the run without -short does it",
	"raceEnabled":         "the run without -race does it",
	"tree.Version() != 1": "cgroups v2 have no such behaviour",
}

func TestSkipsHaveReasons(t *testing.T) {
	seen := 0
	sources(t, func(path string, source []byte) error {
		if filepath.Base(filepath.Dir(path)) == "need" || !strings.Contains(string(source), ".Skip") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, 0)
		if err != nil {
			return err
		}
		var conditions []string // of the ifs around a node
		var within []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				if _, ok := within[len(within)-1].(*ast.IfStmt); ok {
					conditions = conditions[:len(conditions)-1]
				}
				within = within[:len(within)-1]
				return true
			}
			within = append(within, n)
			switch n := n.(type) {
			case *ast.IfStmt:
				conditions = append(conditions, types.ExprString(n.Cond))
			case *ast.CallExpr:
				if !isSkip(n) {
					break
				}
				seen++
				if len(conditions) == 0 || skips[conditions[len(conditions)-1]] == "" {
					t.Errorf("%s skips a test: say by internal/need what the machine lacks", files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if seen == 0 {
		t.Error("no test that skips itself was found: is this still looking where they are?")
	}
}

// sources calls visit for each Go file of this module, by its path from here.
func sources(t *testing.T, visit func(path string, source []byte) error) {
	t.Helper()
	root := filepath.Join("..", "..")
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
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return visit(path, source)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isSkip finds t.Skip, b.Skipf and the like.
func isSkip(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, method.Sel.Name) {
		return false
	}
	receiver, ok := method.X.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "tb", "f"}, receiver.Name)
}
