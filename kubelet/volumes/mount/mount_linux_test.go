package mount

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"vigil/internal/nstest"
	"vigil/kubelet/untrusted"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes files and, for names that end in "/", directories, and symlinks for "NAME -> TARGET".
func tree(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if at, to, ok := strings.Cut(name, " -> "); ok {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o755))
			must(t, os.Symlink(to, filepath.Join(dir, at)))
			continue
		}
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// real is a temporary directory as the table of mounts has it.
func real(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

func TestMount(t *testing.T) {
	nstest.Need(t)
	dir := filepath.Join(real(t), "with blank\\")
	must(t, os.Mkdir(dir, 0o700))
	if there, err := IsMount(dir); there || err != nil {
		t.Fatalf("mounted before: %v, %v", there, err)
	}
	must(t, Mount("tmpfs", dir, "tmpfs", "size=1048576", "mode=777", "noexec", "ro", "rw"))
	if there, err := IsMount(dir); !there || err != nil {
		t.Fatalf("mounted after: %v, %v", there, err)
	}
	below, err := Below(dir)
	must(t, err)
	if len(below) != 1 || below[0].Path != dir || below[0].Type != "tmpfs" {
		t.Errorf("table has %+v", below)
	}
	var st syscall.Statfs_t
	must(t, syscall.Statfs(dir, &st))
	if size := st.Blocks * uint64(st.Bsize); size != 1<<20 || st.Flags&syscall.MS_NOEXEC == 0 {
		t.Errorf("size %d, flags %x", size, st.Flags)
	}
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))

	held, err := os.Open(filepath.Join(dir, "f"))
	must(t, err)
	if err := Unmount(dir); !Busy(err) {
		t.Errorf("unmount while a file is open: %v", err)
	}
	held.Close()
	must(t, Unmount(dir))
	must(t, Unmount(dir)) // nothing is there any more
	must(t, Unmount(filepath.Join(dir, "missing")))
}

func TestBind_ReadOnly(t *testing.T) {
	nstest.Need(t)
	dir := real(t)
	tree(t, dir, "from/f", "from/sub/", "to/")
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	must(t, Mount("tmpfs", filepath.Join(from, "sub"), "tmpfs"))
	tree(t, from, "sub/hidden")
	must(t, Bind(from, to, true))
	if !exists(filepath.Join(to, "f")) || exists(filepath.Join(to, "sub/hidden")) {
		t.Error("a bind mount shows what is mounted below, or nothing")
	}
	if err := os.WriteFile(filepath.Join(to, "f"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a read-only mount: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(from, "f"), nil, 0o600))
	must(t, Unmount(to))
	must(t, Unmount(filepath.Join(from, "sub")))
}

func TestShared(t *testing.T) {
	nstest.Need(t)
	dir := real(t)
	for range 2 { // again changes nothing
		must(t, Shared(dir))
		below, err := Below(dir)
		must(t, err)
		if len(below) != 1 || !below[0].Shared {
			t.Fatalf("table has %+v", below)
		}
	}
	must(t, Unmount(dir))
}

func TestRemoveAll(t *testing.T) {
	dir := real(t)
	tree(t, dir, "keep/f", "gone/a/b/c", "gone/a/d", "gone/link -> ../keep", "gone/dangling -> nowhere", "gone/empty/")
	for i := range 3000 { // more than one batch of names
		tree(t, dir, "gone/many/"+strings.Repeat("x", 1+i%50)+string(rune('a'+i%26))+filepath.Base(t.Name())+strings.Repeat("y", i/50))
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "gone/fifo"), 0o600))
	must(t, RemoveAll(t.Context(), filepath.Join(dir, "gone")))
	if exists(filepath.Join(dir, "gone")) || !exists(filepath.Join(dir, "keep/f")) {
		t.Error("the wrong things are gone")
	}
	must(t, RemoveAll(t.Context(), filepath.Join(dir, "gone")))
	must(t, RemoveAll(t.Context(), filepath.Join(dir, "no/such/parent")))
}

// TestRemoveAll_Mounted has mounts of every kind in the way: nothing of theirs may go.
func TestRemoveAll_Mounted(t *testing.T) {
	nstest.Need(t)
	for _, test := range []struct {
		name  string
		mount func(dir, outside string)
	}{
		{"tmpfs", func(dir, _ string) {
			must(t, Mount("tmpfs", filepath.Join(dir, "a/b"), "tmpfs"))
			tree(t, dir, "a/b/precious")
		}},
		{"bind of the same file system", func(dir, outside string) { must(t, Bind(outside, filepath.Join(dir, "a/b"), false)) }},
		{"bind of a file", func(dir, outside string) {
			tree(t, dir, "a/b/precious")
			must(t, Bind(filepath.Join(outside, "precious"), filepath.Join(dir, "a/b/precious"), false))
		}},
		{"itself", func(dir, outside string) { must(t, Bind(outside, dir, false)) }},
		{"stacked", func(dir, outside string) {
			must(t, Bind(outside, filepath.Join(dir, "a/b"), false))
			must(t, Bind(outside, filepath.Join(dir, "a/b"), false))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := real(t)
			tree(t, top, "outside/precious", "dir/a/b/", "dir/other")
			dir, outside := filepath.Join(top, "dir"), filepath.Join(top, "outside")
			test.mount(dir, outside)
			if err := RemoveAll(t.Context(), dir); !errors.Is(err, untrusted.ErrMounted) {
				t.Errorf("removed a directory with a mount: %v", err)
			}
			// A mount that the table did not have yet: the kernel's part.
			if err := untrusted.Remove(t.Context(), dir); !errors.Is(err, untrusted.ErrMounted) {
				t.Errorf("removed a directory with a new mount: %v", err)
			}
			if !exists(filepath.Join(outside, "precious")) {
				t.Fatal("what was mounted is gone")
			}
			below, err := Below(dir)
			must(t, err)
			if len(below) == 0 {
				t.Fatal("the mount is gone")
			}
			for _, at := range below {
				must(t, Unmount(at.Path))
			}
			must(t, RemoveAll(t.Context(), dir))
			if !exists(filepath.Join(outside, "precious")) || exists(dir) {
				t.Error("the wrong things are gone")
			}
		})
	}
}

// escapes are names below a volume that lead out of it, or nowhere good.
var escapes = []struct {
	sub  string
	want error // nil: it is inside
}{
	{"inside", nil}, {"inside/f", nil}, {"link-in/f", nil}, {"./inside//f", nil}, {"deep/up/inside/f", nil},
	{"link-out", ErrEscapes}, {"link-out/f", ErrEscapes}, {"absolute", ErrEscapes}, {"absolute/f", ErrEscapes},
	{"absolute-inside", ErrEscapes}, {"..", ErrEscapes}, {"inside/../../outside", ErrEscapes}, {"dots", ErrEscapes},
	{"/etc", ErrEscapes}, {"proc/self/root", ErrEscapes},
	{"missing", fs.ErrNotExist}, {"dangling", fs.ErrNotExist}, {"loop", syscall.ELOOP}, {"inside/f/x", syscall.ENOTDIR},
}

// volume makes a volume with all kinds of symlinks, and a neighbour that is none of its business.
func volume(t testing.TB) (base string) {
	t.Helper()
	top := real(t)
	base = filepath.Join(top, "volume")
	tree(t, top, "outside/f", "volume/inside/f", "volume/link-in -> inside", "volume/deep/up -> ..", "volume/link-out -> ../outside",
		"volume/absolute -> /etc", "volume/absolute-inside -> "+base+"/inside", "volume/dots -> inside/../..", "volume/dangling -> nowhere",
		"volume/loop -> loop", "volume/proc -> /proc")
	return base
}

func TestOpenBeneath(t *testing.T) {
	base := volume(t)
	for _, test := range escapes {
		f, err := OpenBeneath(base, test.sub)
		if f != nil {
			f.Close()
		}
		if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("open %s: %v, want %v", test.sub, err, test.want)
		}
	}
}

func TestMakeDirBeneath(t *testing.T) {
	base := volume(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	must(t, os.Chmod(base, 0o770|os.ModeSetgid))
	for _, sub := range []string{"new", "new/below/more", "link-in/new", "deep/up/from-above"} {
		must(t, MakeDirBeneath(base, sub))
		info, err := os.Stat(filepath.Join(base, sub))
		must(t, err)
		if info.Mode() != os.ModeDir|os.ModeSetgid|0o770 {
			t.Errorf("%s has mode %v", sub, info.Mode())
		}
	}
	for _, sub := range []string{"link-out/new", "absolute/new", "../new", "new/../../new", "dots/new", "dangling/new", "inside/f/new"} {
		if err := MakeDirBeneath(base, sub); err == nil {
			t.Errorf("made %s", sub)
		}
	}
	for _, path := range []string{"../outside/new", "../new", "nowhere"} {
		if exists(filepath.Join(base, path)) {
			t.Errorf("%s was made", path)
		}
	}
}

// FuzzBeneath looks up and makes arbitrary paths: whatever is opened is inside, and nothing outside is changed.
func FuzzBeneath(f *testing.F) {
	for _, e := range escapes {
		f.Add(e.sub)
	}
	base := volume(f)
	outside := filepath.Join(filepath.Dir(base), "outside")
	f.Fuzz(func(t *testing.T, sub string) {
		if err := MakeDirBeneath(base, sub); err == nil && strings.Contains(sub, "..") && slices.Contains(strings.Split(sub, "/"), "..") {
			t.Errorf("made %q", sub)
		}
		opened, err := OpenBeneath(base, sub)
		if err == nil {
			at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(opened.Fd())))
			opened.Close()
			must(t, err)
			if !within(at, base) {
				t.Errorf("%q opened %s", sub, at)
			}
		}
		entries, err := os.ReadDir(outside)
		must(t, err)
		above, err := os.ReadDir(filepath.Dir(base))
		must(t, err)
		if len(entries) != 1 || len(above) != 2 {
			t.Fatalf("%q changed what is outside", sub)
		}
	})
}

// TestOpenBeneath_Race swaps a directory for a symlink that leads out while paths are looked up.
func TestOpenBeneath_Race(t *testing.T) {
	base := volume(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = os.Rename(filepath.Join(base, "inside"), filepath.Join(base, "aside"))
			_ = os.Symlink("../outside", filepath.Join(base, "inside"))
			_ = os.Remove(filepath.Join(base, "inside"))
			_ = os.Rename(filepath.Join(base, "aside"), filepath.Join(base, "inside"))
		}
	}()
	inside := 0
	for range 5000 {
		f, err := OpenBeneath(base, "inside/f")
		if err != nil {
			continue
		}
		content, err := os.ReadFile("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		f.Close()
		must(t, err)
		if string(content) != "volume/inside/f" {
			t.Fatalf("opened %s", content)
		}
		inside++
		_ = MakeDirBeneath(base, "inside/made")
	}
	cancel()
	<-done
	if inside == 0 {
		t.Error("nothing was ever found")
	}
	if exists(filepath.Join(base, "../outside/made")) {
		t.Error("a directory was made outside")
	}
}

func TestBindFile(t *testing.T) {
	nstest.Need(t)
	base := volume(t)
	top := filepath.Dir(base)
	for _, test := range []struct{ sub, target, see string }{{"link-in", "dir/", "dir/f"}, {"link-in/f", "file", "file"}} {
		tree(t, top, test.target)
		f, err := OpenBeneath(base, test.sub)
		must(t, err)
		target := filepath.Join(top, test.target)
		must(t, BindFile(f, filepath.Clean(target)))
		f.Close()
		content, err := os.ReadFile(filepath.Join(top, test.see))
		must(t, err)
		if string(content) != "volume/inside/f" {
			t.Errorf("%s shows %q", test.sub, content)
		}
		must(t, Unmount(filepath.Clean(target)))
	}
}

func TestSetGroup(t *testing.T) {
	nstest.Need(t) // for root
	base := volume(t)
	must(t, os.Chmod(filepath.Join(base, "inside/f"), 0o600))
	must(t, SetGroup(t.Context(), base, 4242, 0o660, 0o770|os.ModeSetgid))
	for path, want := range map[string]os.FileMode{"": os.ModeDir | os.ModeSetgid | 0o775, "inside": os.ModeDir | os.ModeSetgid | 0o775, "inside/f": 0o660, "link-out": os.ModeSymlink | 0o777} {
		info, err := os.Lstat(filepath.Join(base, path))
		must(t, err)
		if info.Mode() != want || info.Sys().(*syscall.Stat_t).Gid != 4242 {
			t.Errorf("%q is %v of group %d, want %v", path, info.Mode(), info.Sys().(*syscall.Stat_t).Gid, want)
		}
	}
	info, err := os.Lstat(filepath.Join(base, "../outside/f"))
	must(t, err)
	if info.Sys().(*syscall.Stat_t).Gid == 4242 || info.Mode() != 0o644 {
		t.Error("a symlink was followed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := SetGroup(ctx, base, 4243, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		line string
		want Point
		bad  bool
	}{
		{line: "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
			want: Point{Device: "98:0", Root: "/mnt1", Path: "/mnt2", Type: "ext3", Source: "/dev/root"}},
		{line: `36 35 0:1 / /a\040b\134 rw shared:7 master:1 - tmpfs no\040ne rw` + "\n",
			want: Point{Device: "0:1", Root: "/", Path: `/a b\`, Type: "tmpfs", Source: "no ne", Shared: true}},
		{line: "36 35 98:0 /mnt1\n", bad: true},
		{line: "\n", bad: true},
	} {
		got, err := parse(test.line)
		if (err != nil) != test.bad {
			t.Errorf("%q: %v", test.line, err)
			continue
		}
		if err == nil && (len(got) != 1 || got[0] != test.want) {
			t.Errorf("%q is %+v", test.line, got)
		}
	}
}
