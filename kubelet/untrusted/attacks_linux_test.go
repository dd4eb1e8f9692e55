package untrusted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vigil/internal/attacktest"
	"vigil/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// This file is a list of what a container may leave for the kubelet to find, each with what that costs the kubelet.

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// volume is an empty directory, in memory if the tests run as root: the deepest trees are a lot to write.
func volume(t testing.TB, inMemory bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "volume")
	must(t, os.Mkdir(dir, 0o755))
	if inMemory && os.Getuid() == 0 {
		must(t, unix.Mount("tmpfs", filepath.Dir(dir), "tmpfs", 0, ""))
		t.Cleanup(func() { must(t, unix.Unmount(filepath.Dir(dir), 0)) })
		must(t, os.Mkdir(dir, 0o755))
	}
	return dir
}

// nested is attacktest.Nest for trees that the test takes away at its end.
func nested(t testing.TB, dir string, depth int, name string, size int64) {
	t.Helper()
	attacktest.Nest(t, dir, name, depth, size)
	t.Cleanup(func() { must(t, Remove(context.Background(), dir)) })
}

// TestAttack_Files: what is no regular file is not opened, what is too large is not read.
func TestAttack_Files(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("sparse"), nil, 0o600))
	must(t, os.Truncate(at("sparse"), 10<<40))
	must(t, os.WriteFile(at("small"), []byte("hello"), 0o600))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	must(t, os.Symlink("small", at("link")))
	must(t, os.Symlink("/etc/passwd", at("out")))
	must(t, os.Symlink("../../../../../../etc/passwd", at("up")))
	must(t, os.Symlink("around", at("around")))
	must(t, os.Mkdir(at("dir"), 0o700))
	must(t, os.Symlink("/", at("dir/root")))
	devices := unix.Mknod(at("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) == nil // /dev/zero: endless
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(socket)
	t.Chdir(dir)
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: "socket"}))

	reads := []struct {
		name string
		read func(name string) ([]byte, error)
	}{
		{"Read", func(name string) ([]byte, error) { return Read(at(name), 1<<20) }},
		{"ReadEnd", func(name string) ([]byte, error) { return ReadEnd(at(name), 4096) }},
		{"OpenIn", func(name string) ([]byte, error) {
			file, err := OpenIn(dir, name)
			if err != nil {
				return nil, err
			}
			defer file.Close()
			return ReadFrom(file, 1<<20)
		}},
		{"Write", func(name string) ([]byte, error) { return nil, Write(at(name), []byte("hello"), 0o600) }},
	}
	for _, tc := range []struct {
		file string
		errs [4]error // by reads; nil: it works
	}{
		{"small", [4]error{}},
		{"sparse", [4]error{ErrTooLarge, nil, ErrTooLarge, nil}}, // Write makes it small
		{"fifo", [4]error{ErrNotRegular, ErrNotRegular, ErrNotRegular, ErrNotRegular}},
		{"socket", [4]error{ErrNotRegular, ErrNotRegular, ErrNotRegular, ErrNotRegular}},
		{"device", [4]error{ErrNotRegular, ErrNotRegular, ErrNotRegular, ErrNotRegular}},
		{"dir", [4]error{ErrNotRegular, ErrNotRegular, ErrNotRegular, ErrNotRegular}},
		{"link", [4]error{ErrNotRegular, ErrNotRegular, nil, ErrNotRegular}},
		{"out", [4]error{ErrNotRegular, ErrNotRegular, unix.EXDEV, ErrNotRegular}},
		{"up", [4]error{ErrNotRegular, ErrNotRegular, unix.EXDEV, ErrNotRegular}},
		{"around", [4]error{ErrNotRegular, ErrNotRegular, unix.ELOOP, ErrNotRegular}},
		{"dir/root/etc/passwd", [4]error{nil, nil, unix.EXDEV, errors.New("not tried")}}, // directories are the caller's, but for OpenIn
		{"gone", [4]error{fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist, nil}},
	} {
		if tc.file == "device" && !devices {
			t.Log("devices cannot be made here")
			continue
		}
		t.Run(tc.file, func(t *testing.T) {
			attacktest.Budget{Memory: 2 << 20, CPU: time.Second}.Spend(t, func() {
				for i, r := range reads {
					if tc.errs[i] != nil && tc.errs[i].Error() == "not tried" {
						continue
					}
					got, err := r.read(tc.file)
					if !errors.Is(err, tc.errs[i]) || tc.errs[i] == nil && err != nil {
						t.Errorf("%s: %v, want %v", r.name, err, tc.errs[i])
					}
					if tc.file == "small" && r.name != "Write" && string(got) != "hello" {
						t.Errorf("%s: read %q", r.name, got)
					}
				}
			})
		})
	}
	if info, err := os.Stat(at("sparse")); err != nil || info.Size() != 5 {
		t.Errorf("written: %v, %v", info, err)
	}
}

// TestAttack_Hanging: a file system that does not answer holds up nobody for ever, and not many threads.
func TestAttack_Hanging(t *testing.T) {
	stuck := make(chan struct{})
	for range cap(hanging) {
		if _, err := Within(time.Millisecond, func() (int, error) { <-stuck; return 0, nil }); !errors.Is(err, ErrHangs) {
			t.Fatal(err)
		}
	}
	if _, err := Within(time.Hour, func() (int, error) { t.Error("called"); return 0, nil }); !errors.Is(err, ErrHangs) {
		t.Error(err)
	}
	close(stuck)
	for range cap(hanging) { // they have come back
		hanging <- struct{}{}
	}
	for range cap(hanging) {
		<-hanging
	}
	if got, err := Within(time.Hour, func() (int, error) { return 7, io.EOF }); got != 7 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", got, err)
	}
}

// deepTrees are the trees that the tests below walk, measure and remove.
var deepTrees = []struct {
	name  string
	depth int
	dir   string
}{
	{"names of a path longer than the kernel takes", 40, strings.Repeat("n", 255)},
	{"16,000 directories, each in the last", 16_000, "d"},
	{"as deep as it goes", MaxDepth, "d"},
}

func TestAttack_MeasureDeep(t *testing.T) {
	for _, tc := range deepTrees {
		t.Run(tc.name, func(t *testing.T) {
			dir := volume(t, tc.depth > 100)
			nested(t, dir, tc.depth, tc.dir, 32<<20)
			attacktest.FewDescriptors(t, 250)
			attacktest.Budget{Memory: 32 << 20, CPU: 5 * time.Second}.Spend(t, func() {
				used, err := Measure(t.Context(), dir)
				if err != nil || used.Bytes < 32<<20 || used.Bytes > 33<<20+uint64(tc.depth)*4096 || used.Inodes != uint64(tc.depth)+2 {
					t.Errorf("%+v, %v", used, err)
				}
			})
		})
	}
	t.Run("deeper than it goes", func(t *testing.T) {
		dir := volume(t, true)
		nested(t, dir, MaxDepth+1, "d", 1<<20)
		if used, err := Measure(t.Context(), dir); !errors.Is(err, ErrTooDeep) || used.Inodes != MaxDepth+2 {
			t.Errorf("%+v, %v", used, err)
		}
	})
}

func TestAttack_RemoveDeep(t *testing.T) {
	for _, tc := range append(deepTrees, struct {
		name  string
		depth int
		dir   string
	}{"deeper than may be walked", 2*MaxDepth + 100, "d"}) {
		t.Run(tc.name, func(t *testing.T) {
			dir := volume(t, tc.depth > 100)
			nested(t, dir, tc.depth, tc.dir, 0)
			attacktest.FewDescriptors(t, 250)
			attacktest.Budget{Memory: 16 << 20, CPU: 10 * time.Second}.Spend(t, func() { must(t, Remove(t.Context(), dir)) })
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after removal: %v", err)
			}
		})
	}
}

// TestAttack_RemoveWide: many files are removed with little memory, an attempt that is cut short has removed some, and the next goes on.
func TestAttack_RemoveWide(t *testing.T) {
	dir := volume(t, true)
	const dirs, files = 100, 300
	for i := range dirs {
		sub := filepath.Join(dir, strings.Repeat("s/", i%30)+strconv.Itoa(i))
		must(t, os.MkdirAll(sub, 0o755))
		for j := range files {
			must(t, os.WriteFile(filepath.Join(sub, strconv.Itoa(j)), nil, 0o600))
		}
	}
	before, err := Measure(t.Context(), dir)
	must(t, err)
	attacktest.Budget{Memory: 4 << 20, CPU: 20 * time.Second}.Spend(t, func() {
		attempts := 0
		for {
			// The context ends after a number of looks at it, whatever the machine's speed.
			err := Remove(&ending{Context: t.Context(), looks: 20}, dir)
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			after, err := Measure(t.Context(), dir)
			must(t, err)
			if after.Inodes >= before.Inodes {
				t.Fatalf("attempt %d has removed nothing of %d files", attempts, after.Inodes)
			}
			before = after
			attempts++
		}
		if attempts < 3 {
			t.Errorf("only %d attempts were cut short", attempts)
		}
	})
}

// ending is a context that ends when it has been asked so many times.
type ending struct {
	context.Context
	looks int
}

func (e *ending) Err() error {
	if e.looks--; e.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestAttack_HardLinks: a file counts once however many names it has, and names need no memory.
func TestAttack_HardLinks(t *testing.T) {
	dir := volume(t, true)
	const links = 2000
	for i := range 40 { // 40 files with 2,000 names each, and 10 MiB
		file := filepath.Join(dir, fmt.Sprint(i))
		must(t, os.WriteFile(file, make([]byte, 256<<10), 0o600))
		for j := range links - 1 {
			must(t, os.Link(file, fmt.Sprintf("%s-%d", file, j)))
		}
	}
	attacktest.Budget{Memory: 4 << 20, CPU: 20 * time.Second}.Spend(t, func() {
		used, err := Measure(t.Context(), dir)
		if err != nil || used.Bytes < 10<<20 || used.Bytes > 15<<20 || used.Inodes != 41 {
			t.Errorf("%+v, %v", used, err)
		}
	})
	t.Run("more than are remembered", func(t *testing.T) {
		m := meter{links: map[[2]uint64]struct{}{}}
		const files = countedLinks + 30_000
		for range 3 { // three names each
			for i := range files {
				m.add(&unix.Stat_t{Ino: uint64(i), Nlink: 3, Blocks: 8})
			}
		}
		if used := m.usage(); math.Abs(float64(used.Bytes)-files*4096) > 1 || used.Inodes != files || len(m.links) > countedLinks {
			t.Errorf("%+v with %d remembered, want %d files", used, len(m.links), files)
		}
	})
}

// TestAttack_Hoarding: who measures a large tree lets others go first from time to time.
func TestAttack_Hoarding(t *testing.T) {
	small, large := volume(t, true), volume(t, true)
	for i := range 3 * turnLength {
		must(t, os.WriteFile(filepath.Join(large, strconv.Itoa(i)), nil, 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	hoarders := cap(turns)
	done := make(chan struct{})
	for range hoarders {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				if _, err := Measure(ctx, large); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}()
	}
	// The hoarders never end by themselves.
	if used, err := Measure(t.Context(), small); err != nil || used.Inodes != 1 {
		t.Errorf("%+v, %v", used, err)
	}
	cancel()
	for range hoarders {
		<-done
	}
}
