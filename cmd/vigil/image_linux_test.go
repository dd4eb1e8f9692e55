package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"vigil/cluster"
	"vigil/internal/nstest"
	"vigil/kubelet/containerd/containerdtest"
)

func TestMain(m *testing.M) {
	asProgram()
	nstest.Main(m)
}

// vigil runs the program with these arguments, in this process.
func vigil(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestImage(t *testing.T) {
	dir := t.TempDir()
	if out, err := vigil("image", "ls", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "no node of "+dir+" runs containers") {
		t.Errorf("image ls without nodes: %q, %v", out, err)
	}
	for _, node := range []string{"node-1", "node-2"} {
		config := containerdtest.Config(t)
		config.RootDir = cluster.RuntimeDir(dir, node)
		containerdtest.StartWith(t, config)
	}
	archive := filepath.Join(containerdtest.BinDir(t), "images", "demo.tar")

	out, err := vigil("image", "import", archive, "--data-dir", dir, "--node", "node-2")
	if want := "node-2: imported demo:1, demo:2, demo:3, demo\n"; err != nil || out != want {
		t.Errorf("image import printed %q, %v, want %q", out, err, want)
	}
	if _, err := vigil("image", "import", archive+".none", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("image import of a file that is not there: %v", err)
	}
	if _, err := vigil("image", "import", archive, "--data-dir", dir, "--node", "node-3"); err == nil || !strings.Contains(err.Error(), "node node-3: no container runtime is running") {
		t.Errorf("image import to a node that is not there: %v", err)
	}

	out, err = vigil("image", "ls", "--data-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 1+2*5 || !strings.HasPrefix(lines[0], "NODE") {
		t.Fatalf("image ls printed\n%s", out)
	}
	if fields := strings.Fields(lines[1]); fields[0] != "node-1" || fields[1] != "demo" || len(fields[2]) != 13 || !strings.HasSuffix(fields[3], "MB") {
		t.Errorf("the first line is %q", lines[1])
	}
	if fields := strings.Fields(lines[10]); fields[0] != "node-2" || fields[1] != "vigil.internal/pause:1" {
		t.Errorf("the last line is %q", lines[10])
	}
	out, err = vigil("image", "ls", "-o", "json", "--node-dir", filepath.Join(dir, "nodes", "node-1"))
	if err != nil || strings.Count(out, `"pinned": true`) != 5 {
		t.Errorf("image ls -o json printed %v\n%s", err, out)
	}
}
