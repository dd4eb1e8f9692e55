package lint

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestModulesAgree wants the modules beside the product's to have its versions of what both depend on: another version is compiled, vetted and
// looked at by staticcheck anew, with everything that is built upon it. The container runtime and the tools are programs of others, which come
// with versions of their own.
func TestModulesAgree(t *testing.T) {
	product := requirements(t, ".")
	for _, module := range []string{"test", "bench", "bench/peer", "bench/etcd"} {
		for path, version := range requirements(t, module) {
			if want, ok := product[path]; ok && version != want {
				t.Errorf("%s/go.mod has %s %s, the product %s", module, path, version, want)
			}
		}
	}
}

// requirements are the versions that a module's go.mod names, direct or not, by module path.
func requirements(t *testing.T, module string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, module)
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit in %s: %v", module, err)
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(output, &file); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	if len(versions) == 0 {
		t.Fatalf("%s/go.mod requires nothing", module)
	}
	return versions
}
