package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vigil/internal/eventually"
	"vigil/internal/need"
	"vigil/internal/nstest"
	"vigil/store"
	"vigil/store/storetest"
)

// smallDisk mounts a file system of its own of so many MB, and returns where.
type smallDisk func(t *testing.T, megabytes int) string

func tmpfs(t *testing.T, megabytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

func ext4(t *testing.T, megabytes int) string {
	t.Helper()
	need.Program(t, "mkfs.ext4")
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, int64(megabytes)<<20); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

func unmount(t *testing.T, dir string) {
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Errorf("unmount %s: %v", dir, err)
	}
}

// onSmallDisks runs a test on each kind of file system.
func onSmallDisks(t *testing.T, test func(t *testing.T, disk smallDisk)) {
	nstest.Need(t)
	for name, disk := range map[string]smallDisk{"tmpfs": tmpfs, "ext4": ext4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			test(t, disk)
		})
	}
}

// target is an etcd on a small disk, a store on it, and a feed of what happens.
type target struct {
	*testing.T
	dir   string
	etcd  *store.Embedded
	store *store.Store
	log   *syncBuffer

	mu   sync.Mutex
	seen map[string]int // by key: changes that the feed has brought
}

// startOn starts an etcd on the disk; stop ends it before the end of the test.
func startOn(t *testing.T, dir string) (_ *target, stop func()) {
	t.Helper()
	log := &syncBuffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	e := storetest.NewEmbedded(t, store.EmbeddedConfig{DataDir: filepath.Join(dir, "etcd"), Logger: logger})
	s, err := store.Open(t.Context(), store.Config{Embedded: e, Logger: logger, CompactInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	x := &target{T: t, dir: dir, etcd: e, store: s, log: log, seen: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	rev, err := s.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		err := s.Feed(ctx, rev, func(b store.Batch) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			for _, e := range b.Events {
				x.seen[e.Key]++
			}
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("the feed ended: %v", err)
		}
	})
	running.Go(func() { s.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		s.Close()
		e.Close()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	t.Cleanup(stop)
	return x, stop
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// logged wants a text to have been logged so often.
func (x *target) logged(text string, times int) {
	x.Helper()
	eventually.Nil(x, fmt.Sprintf("%q is logged %d times", text, times), func() error {
		if n := strings.Count(x.log.String(), text); n != times {
			return fmt.Errorf("it was %d times", n)
		}
		return nil
	})
}

// alive fails the test when etcd has ended.
func (x *target) alive() {
	x.Helper()
	if err := x.etcd.Err(); err != nil {
		x.Fatalf("etcd ended: %v", err)
	}
}

// refused wants the error of a write that has no room.
func (x *target) refused(what string, err error) {
	x.Helper()
	x.alive()
	if !errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrUncertain) {
		x.Fatalf("%s on a full disk: %v, want ErrNoSpace", what, err)
	}
}

// must wants no error.
func (x *target) must(what string, err error) {
	x.Helper()
	x.alive()
	if err != nil {
		x.Fatalf("%s: %v", what, err)
	}
}

// eventually repeats what may fail for lack of space until it works.
func (x *target) eventually(what string, do func() error) {
	x.Helper()
	eventually.Nil(x, what, func() error {
		err := do()
		x.alive()
		if err != nil && !errors.Is(err, store.ErrNoSpace) {
			x.Fatalf("%s: %v", what, err)
		}
		return err
	})
}

// fed wants the feed to bring a change of the key.
func (x *target) fed(key string, times int) {
	x.Helper()
	eventually.Nil(x, fmt.Sprintf("the feed brings %d changes of %s", times, key), func() error {
		x.mu.Lock()
		n := x.seen[key]
		x.mu.Unlock()
		if n > times {
			x.Fatalf("the feed brought %d changes of %s, want %d", n, key, times)
		}
		if n < times {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// fill writes values until the disk is full, from several goroutines, and returns how many there are.
func (x *target) fill(bytes int) int {
	x.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	next, refused := 0, error(nil)
	made := map[int]bool{}
	for range 8 {
		running.Go(func() {
			for {
				mu.Lock()
				n, stop := next, refused != nil
				next++
				mu.Unlock()
				if stop {
					return
				}
				_, err := x.store.Create(x.Context(), key(n), storetest.Value(n, bytes), 0)
				mu.Lock()
				if err == nil {
					made[n] = true
				} else {
					refused = err
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	x.refused("create", refused)
	// Numbers without a gap make the tests simpler.
	n := 0
	for made[n] {
		n++
	}
	for m := range made {
		if m > n {
			x.eventually("delete", func() error { _, err := x.store.Delete(x.Context(), key(m), x.rev(m)); return err })
		}
	}
	return n
}

// untilRefused repeats a write until there is no room for it.
func (x *target) untilRefused(write func(i int) error) {
	x.Helper()
	for i := range 100_000 {
		if err := write(i); err != nil {
			x.refused("write", err)
			return
		}
	}
	x.Fatal("no write was refused")
}

// rev reads the revision of a value.
func (x *target) rev(n int) int64 {
	x.Helper()
	kv, err := x.store.Get(x.Context(), key(n))
	x.must("get", err)
	return kv.ModRev
}

// occupy writes a file until the disk has not a byte left, as another process would.
func occupy(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "other")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		for _, size := range []int{1 << 20, 1 << 12} {
			chunk := bytes.Repeat([]byte{1}, size)
			for err = nil; err == nil; {
				_, err = f.Write(chunk)
			}
		}
		_, err = f.Write([]byte{1})
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

// Writes fill the disk. Then what grows is refused, all else goes on, and deletes make room.
func TestDiskFull_ByWrites(t *testing.T) {
	for _, size := range []int{20_000, 1_400_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			onSmallDisks(t, func(t *testing.T, disk smallDisk) {
				x, _ := startOn(t, disk(t, 192))
				n := x.fill(size)
				t.Logf("%d values of %d bytes", n, size)
				kv, err := x.store.Get(t.Context(), key(n-1))
				x.must("get", err)
				if !bytes.Equal(kv.Value, storetest.Value(n-1, size)) {
					t.Error("the last value is another one")
				}
				x.fed(key(n-1), 1)
				for i := range n {
					x.eventually("delete", func() error {
						_, err := x.store.Delete(t.Context(), key(i), x.rev(i))
						return err
					})
				}
				x.fed(key(n-1), 2)
				for i := range n / 4 {
					x.eventually("create after the deletes", func() error {
						_, err := x.store.Create(t.Context(), key(n+i), storetest.Value(i, size), 0)
						return err
					})
				}
			})
		})
	}
}

// Another process fills the disk to the last byte. Then what grows is refused and all else goes on, for longer than etcd's log and
// snapshots can do without new files; when the other's file is gone, all writes are accepted again.
func TestDiskFull_ByOthers(t *testing.T) {
	onSmallDisks(t, func(t *testing.T, disk smallDisk) {
		dir := disk(t, 256)
		x, stop := startOn(t, dir)
		const values, size = 3000, 5_000
		for i := range values {
			_, err := x.store.Create(t.Context(), key(i), storetest.Value(i, size), 0)
			x.must("create", err)
		}
		other := occupy(t, dir)

		x.untilRefused(func(i int) error { // there may be some unused pages in the database
			_, err := x.store.Create(t.Context(), key(values+i), storetest.Value(1, size), 0)
			return err
		})
		_, err := x.store.Update(t.Context(), key(0), storetest.Value(1, 2*size), x.rev(0), 0)
		x.refused("an update to twice the size", err)
		_, err = x.store.Create(t.Context(), key(values), []byte("x"), time.Hour)
		x.refused("create with a lease", err)
		for i := range 200 { // as heartbeats are
			_, err := x.store.Update(t.Context(), key(0), storetest.Value(i, size+i), x.rev(0), 0)
			x.must("an update to the same size", err)
		}
		x.fed(key(0), 201)
		for i := range values / 2 {
			_, err := x.store.Delete(t.Context(), key(i), x.rev(i))
			x.must("delete", err)
		}
		x.fed(key(values/2-1), 2)

		stop()
		x, _ = startOn(t, dir) // on a full disk
		_, err = x.store.Update(t.Context(), key(values-1), storetest.Value(1, 100*size), x.rev(values-1), 0)
		x.refused("an update after a restart", err)
		for i := values / 2; i < values; i++ {
			_, err := x.store.Delete(t.Context(), key(i), x.rev(i))
			x.must("delete after a restart", err)
		}
		x.fed(key(values-1), 1)

		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		x.eventually("create when there is room", func() error {
			_, err := x.store.Create(t.Context(), "/registry/secrets/new", storetest.Value(1, size), 0)
			return err
		})
		x.logged("has room again", 1)
		x.logged("is full", 1)
	})
}

// Another process takes every byte that becomes free, also of etcd's reserve. Then hardly anything is written, everything is read, and etcd is
// still there when the other one ends.
func TestDiskFull_OthersGoOn(t *testing.T) {
	onSmallDisks(t, func(t *testing.T, disk smallDisk) {
		dir := disk(t, 160)
		x, _ := startOn(t, dir)
		const values, size = 100, 5_000
		for i := range values {
			_, err := x.store.Create(t.Context(), key(i), storetest.Value(i, size), 0)
			x.must("create", err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				occupy(t, dir)
			}
		}()
		for { // until etcd's next snapshot is due, for which the other one leaves nothing
			_, err := x.store.Update(t.Context(), key(0), storetest.Value(0, size), x.rev(0), 0)
			x.alive()
			if errors.Is(err, store.ErrNoSpace) {
				break
			}
			x.must("update", err)
		}
		list, err := x.store.List(t.Context(), "/registry/", store.ListOptions{})
		x.must("list", err)
		if len(list.KVs) != values {
			t.Errorf("%d values, want %d", len(list.KVs), values)
		}
		end()
		<-ended
		if err := os.Remove(filepath.Join(dir, "other")); err != nil {
			t.Fatal(err)
		}
		x.eventually("delete when there is room", func() error {
			_, err := x.store.Delete(t.Context(), key(1), x.rev(1))
			return err
		})
		x.eventually("create when there is room", func() error {
			_, err := x.store.Create(t.Context(), key(values), storetest.Value(1, size), 0)
			return err
		})
	})
}
