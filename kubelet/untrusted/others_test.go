package untrusted

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// opening are the functions that open, read or empty what they find at a path, whatever that is.
var opening = map[string]map[string]bool{
	"os": {
		"Open": true, "OpenFile": true, "OpenInRoot": true, "OpenRoot": true, "Create": true, "ReadFile": true, "WriteFile": true, "RemoveAll": true,
		"DirFS": true, "CopyFS": true, "Truncate": true,
	},
	"filepath":                   {"Walk": true, "WalkDir": true},
	"fs":                         {"WalkDir": true, "ReadFile": true},
	"ioutil":                     {"ReadFile": true},
	"syscall":                    {"Open": true, "Openat": true},
	"unix":                       {"Open": true, "Openat": true, "Openat2": true},
	"k8s.io/cri-client/pkg/logs": {"ReadLogs": true},
}

// trusted are the places that open files without this package, by directory or file below kubelet/, with the reason why no container writes there.
var trusted = map[string]string{
	"allocation":                     "the kubelet's own file in its root directory",
	"configfile":                     "the administrator's configuration",
	"node/machine_linux.go":          "a file of the kernel",
	"start.go":                       "makes a termination message file under a new name, in a directory of the kubelet's",
	"userns.go":                      "writes its own file in the pod's directory, which no container sees",
	"cgroups":                        "files of the kernel",
	"containerd":                     "the runtime's programs, configuration, log and process file",
	"containerd/internal/archive":    "archives of images that came with the programs, or that the administrator names",
	"cri/credentials":                "the administrator's configuration, and records below the kubelet's root directory",
	"cri/rotate.go":                  "makes a file that must not exist yet",
	"csi/csitest":                    "for tests",
	"csi/data.go":                    "writes its own file beside a volume",
	"csi/registry.go":                "looks for sockets, within bounds",
	"localvolumes":                   "the directory that has the volumes; what is in them is removed by Remove",
	"machine":                        "files of the kernel",
	"network":                        "files of the kernel, of namespaces, and of the kubelet's own",
	"nodetest":                       "for tests",
	"containerd/containerdtest":      "for tests",
	"etcfiles/hosts.go":              "the node's own hosts file",
	"etcfiles/resolv.go":             "the node's own resolv.conf",
	"server/show.go":                 "directories of logs",
	"stats":                          "files of the kernel",
	"admit/apparmor.go":              "a file of the kernel",
	"volumes/containermounts.go":     "makes a mount point under a name that was removed",
	"volumes/hostpath.go":            "makes a file, and does not wait for what may be there",
	"volumes/internal/contents":      "writes and compares contents that containers may only read",
	"volumes/mount/beneath_linux.go": "opens handles that can be mounted but not read, below a directory",
	"volumes/mount/group_linux.go":   "opens handles that cannot be read",
	"volumes/mount/table_linux.go":   "a file of the kernel",
}

// TestNobodyElseOpens: whatever else in the kubelet opens files or walks directories is in the list above, with its reason.
func TestNobodyElseOpens(t *testing.T) {
	root := ".."
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(relative, "untrusted/") {
			return nil
		}
		calls, err := opens(path)
		if err != nil || len(calls) == 0 {
			return err
		}
		for at := relative; at != "."; at = filepath.Dir(at) {
			if trusted[at] != "" {
				used[at] = true
				return nil
			}
		}
		t.Errorf("kubelet/%s calls %s: use this package, or say in the list why no container can have put anything there", relative, strings.Join(calls, ", "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for place := range trusted {
		if !used[place] {
			t.Errorf("%s opens nothing: take it out of the list", place)
		}
	}
}

// opens lists the calls of opening functions in a file.
func opens(path string) (calls []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // of packages in this file: what they are called here, and in opening
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		name := imported[strings.LastIndexByte(imported, '/')+1:]
		key := name
		if opening[imported] != nil {
			key = imported
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = key
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && opening[names[of.Name]][selector.Sel.Name] {
			calls = append(calls, of.Name+"."+selector.Sel.Name)
		}
		return true
	})
	return calls, nil
}
