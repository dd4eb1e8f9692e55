package contents

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vigil/internal/nstest"
	"vigil/kubelet/untrusted"
	"vigil/kubelet/volumes/internal/contents/contentstest"
	"vigil/kubelet/volumes/mount"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func files(pairs ...string) Payload {
	p := Payload{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = File{Data: []byte(pairs[i+1]), Mode: 0o640}
	}
	return p
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	steps := []struct {
		payload Payload
		changed bool
		want    map[string]string
	}{
		{files("a", "1", "d/x", "2", "d/e/y", "3"), true, map[string]string{"a": "1", "d/x": "2", "d/e/y": "3"}},
		{files("a", "1", "d/x", "2", "./d//e/y", "3"), false, map[string]string{"a": "1", "d/x": "2", "d/e/y": "3"}},
		{files("a", "new", "d/x", "2"), true, map[string]string{"a": "new", "d/x": "2"}},
		{files("d", "a file now", "..."+"odd", "no"), true, nil}, // begins with "..": refused
		{files("d", "a file now"), true, map[string]string{"d": "a file now"}},
		{files("d/deeper", "a directory again"), true, map[string]string{"d/deeper": "a directory again"}},
		{files(), true, map[string]string{}},
		{files(), false, map[string]string{}},
	}
	for i, step := range steps {
		data, _ := os.Readlink(filepath.Join(dir, dataLink))
		changed, err := Write(t.Context(), dir, step.payload, nil)
		if step.want == nil {
			if err == nil {
				t.Errorf("step %d: accepted", i)
			}
			continue
		}
		must(t, err)
		if changed != step.changed {
			t.Errorf("step %d: changed is %v", i, changed)
		}
		if now, _ := os.Readlink(filepath.Join(dir, dataLink)); (now != data) != step.changed {
			t.Errorf("step %d: ..data went from %q to %q", i, data, now)
		}
		if got := contentstest.Files(t, dir); !maps.Equal(got, step.want) {
			t.Errorf("step %d: see %v, want %v", i, got, step.want)
		}
		hidden, err := filepath.Glob(filepath.Join(dir, "..2*"))
		must(t, err)
		if len(hidden) != 1 {
			t.Errorf("step %d: left %v", i, hidden)
		}
		for path := range step.want {
			info, err := os.Stat(filepath.Join(dir, path))
			must(t, err)
			up, err := os.Stat(filepath.Dir(filepath.Join(dir, "..data", path)))
			must(t, err)
			if info.Mode().Perm() != 0o640 || up.Mode().Perm() != 0o755 {
				t.Errorf("step %d: %s has mode %v, its directory %v", i, path, info.Mode(), up.Mode())
			}
		}
	}
}

// TestWrite_Repairs begins with what a process that was killed, or somebody else, may have left.
func TestWrite_Repairs(t *testing.T) {
	for name, mess := range map[string]func(dir string) error{
		"half a directory": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "..2020_01_01_00_00_00.1/x"), 0o755) },
		"a new link":       func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, dataLinkNew)) },
		"an old name":      func(dir string) error { return os.Symlink("..data/old", filepath.Join(dir, "old")) },
		"a missing name":   func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"a wrong name": func(dir string) error {
			_ = os.Remove(filepath.Join(dir, "a"))
			return os.Symlink("/etc/passwd", filepath.Join(dir, "a"))
		},
		"a file for a name": func(dir string) error {
			_ = os.Remove(filepath.Join(dir, "a"))
			return os.WriteFile(filepath.Join(dir, "a"), nil, 0o600)
		},
		"data lead outside": func(dir string) error { return replaceLink(t.Context(), dir, "../..") },
		"data lead nowhere": func(dir string) error { return replaceLink(t.Context(), dir, "..gone") },
		"a changed file":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "..data/a"), []byte("x"), 0o600) },
		"a file too many":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "..data/b"), nil, 0o600) },
		"a link for content": func(dir string) error {
			_ = os.Remove(filepath.Join(dir, "..data/a"))
			return os.Symlink("/etc/passwd", filepath.Join(dir, "..data/a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "up", "volume")
			must(t, os.MkdirAll(dir, 0o755))
			_, err := Write(t.Context(), dir, files("a", "1"), nil)
			must(t, err)
			must(t, mess(dir))
			for range 2 {
				_, err = Write(t.Context(), dir, files("a", "1"), nil)
				must(t, err)
			}
			entries, err := os.ReadDir(dir)
			must(t, err)
			if got := contentstest.Files(t, dir); !maps.Equal(got, map[string]string{"a": "1"}) || len(entries) != 3 {
				t.Errorf("see %v in %v", got, entries)
			}
		})
	}
}

func TestWrite_OwnFails(t *testing.T) {
	dir := t.TempDir()
	_, err := Write(t.Context(), dir, files("a", "1"), nil)
	must(t, err)
	refused := errors.New("refused")
	if _, err := Write(t.Context(), dir, files("a", "2", "b", "2"), func(string) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("write: %v", err)
	}
	if got := contentstest.Files(t, dir); !maps.Equal(got, map[string]string{"a": "1"}) {
		t.Errorf("see %v", got)
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, "..2*")); len(hidden) != 1 {
		t.Errorf("left %v", hidden)
	}
}

// TestWrite_Mounted finds something mounted where it would remove: that fails, and what is mounted stays.
func TestWrite_Mounted(t *testing.T) {
	nstest.Need(t)
	for _, at := range []string{"b", "..2020_01_01_00_00_00.1/x"} {
		dir, outside := t.TempDir(), t.TempDir()
		must(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
		_, err := Write(t.Context(), dir, files("a", "1"), nil)
		must(t, err)
		must(t, os.MkdirAll(filepath.Join(dir, at), 0o755))
		must(t, mount.Bind(outside, filepath.Join(dir, at), false))
		if _, err := Write(t.Context(), dir, files("b", "2"), nil); !errors.Is(err, untrusted.ErrMounted) {
			t.Errorf("write with something mounted at %s: %v", at, err)
		}
		if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
			t.Fatalf("what was mounted at %s: %v", at, err)
		}
		must(t, mount.Unmount(filepath.Join(dir, at)))
		_, err = Write(t.Context(), dir, files("b", "2"), nil)
		must(t, err)
		if got := contentstest.Files(t, dir); !maps.Equal(got, map[string]string{"b": "2"}) {
			t.Errorf("see %v", got)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for path, want := range map[string]string{
		"":                               "invalid path: must not be empty",
		"/a":                             "invalid path: must be relative path",
		"a/../b":                         "invalid path: must not contain '..'",
		"..":                             "invalid path: must not contain '..'",
		"..a/b":                          "invalid path: must not start with '..'",
		"./..a":                          "invalid path: must not start with '..'",
		strings.Repeat("a", 256):         "filenames must be less than or equal to 255 characters",
		strings.Repeat("a/", 2049) + "a": "must be less than or equal to 4096 characters",
		"a/..b":                          "",
		"a..":                            "",
	} {
		err := checkPath(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: %v, want %q", path, err, want)
		}
	}
	for _, p := range []Payload{files("a", "", "a/b", ""), files(".", "")} {
		if _, err := p.clean(); err == nil {
			t.Errorf("accepted %v", p)
		}
	}
}

// FuzzWrite writes two files with arbitrary paths: either they are refused or they are just what is seen, and nothing beside the volume
// is touched.
func FuzzWrite(f *testing.F) {
	for _, seed := range [][2]string{{"a", "b"}, {"a", "a/b"}, {"../x", "y"}, {"..data", "..data_tmp"}, {"d/./e", "d/e"}, {"a//b", "a/c/"}, {"\x00", "/"}, {"...", "..a"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		top := t.TempDir()
		dir := filepath.Join(top, "volume")
		must(t, os.Mkdir(dir, 0o755))
		_, err := Write(t.Context(), dir, files("before", "0"), nil)
		must(t, err)
		want := map[string]string{"before": "0"}
		if _, err := Write(t.Context(), dir, files(one, "1", two, "2"), nil); err == nil {
			want = map[string]string{filepath.Clean(one): "1", filepath.Clean(two): "2"}
			if filepath.Clean(one) == filepath.Clean(two) {
				return // either may win
			}
		}
		if got := contentstest.Files(t, dir); !maps.Equal(got, want) {
			t.Errorf("%q and %q: see %v, want %v", one, two, got, want)
		}
		entries, err := os.ReadDir(top)
		must(t, err)
		if len(entries) != 1 {
			t.Errorf("%q and %q: something is beside the volume", one, two)
		}
		err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error { return err })
		must(t, err)
	})
}
