package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCI runs .ci/run on a machine that has none of the programs that some tests talk to, with a make that only notes how it was called: it
// tries to install them, goes on without and after a step that fails, and says both at its end.
func TestCI(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("repo/.ci/run", string(script))
	write("path/id", "#!/bin/sh\necho 0\n")
	write("path/perl", "#!/bin/sh\nexit 2\n") // a Perl without its modules
	write("path/apt-get", "#!/bin/sh\necho apt-get \"$@\" >>"+dir+"/log\necho no network\nexit 100\n")
	write("path/make", "#!/bin/sh\necho make \"$@\" without$VIGIL_WITHOUT >>"+dir+"/log\n"+
		"case \"$*\" in *test) echo 'TestX: needs the program node' >>$VIGIL_NOT_TESTED; exit 1; esac\n")
	for _, name := range []string{"bash", "dirname", "mkdir", "rm", "sort", "sed", "tail", "timeout", "git", "gofmt"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, "path", name)); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + filepath.Join(dir, "path"), "HOME=" + dir}
	for _, args := range [][]string{{"git", "init", "--quiet"}, {"bash", ".ci/run"}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = filepath.Join(dir, "repo"), env
		out, err := cmd.CombinedOutput()
		if args[0] == "git" {
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			continue
		}
		if err == nil {
			t.Error("it passes although a step fails")
		}
		for _, want := range []string{
			"cannot install nodejs python3 perl gzip e2fsprogs, and goes on without", "no network",
			"not tested on this machine:\n  TestX: needs the program node\n", "failed: test\n",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("it does not say %q:\n%s", want, out)
			}
		}
	}
	called, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	const without = " without node python3 perl gzip mkfs.ext4\n"
	if want := "apt-get update\nmake -k lint" + without + "make -j 3 test" + without + "make race" + without; string(called) != want {
		t.Errorf("called\n%swant\n%s", called, want)
	}
}
