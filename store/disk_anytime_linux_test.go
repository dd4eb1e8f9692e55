package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vigil/internal/nstest"
	"vigil/store"
	"vigil/store/storetest"
)

// moments are times in the life of a store at which the disk becomes full: how many log files etcd has left behind by then, and how many
// bytes are written to the present one. Log files are 16 MB.
var moments = []struct {
	name    string
	files   int
	written int64
}{
	{"at the beginning", 0, 0},
	{"before the log's next file", 0, 15 << 20},
	{"after the log's next file", 1, 0},
	{"in the middle of a later file", 3, 8 << 20},
}

const (
	anytimeValues, anytimeSize = 400, 5_000
	blindBytes, blindKey       = 300_000, "/registry/secrets/blind"
)

// The disk becomes full at some time in the life of a store, and stays so for longer than three of etcd's log files. What grows is refused;
// updates to the same size and deletes go on. When there is room again, so does everything.
func TestDiskFull_AnyTime(t *testing.T) {
	nstest.Need(t)
	for _, moment := range moments {
		t.Run(moment.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			dir := tmpfs(t, 160)
			x, _ := startOn(t, dir)
			x.prepare(moment.files, moment.written)
			other := occupy(t, dir)
			x.outlast(3)
			if err := os.Remove(other); err != nil {
				t.Fatal(err)
			}
			x.accepts()
		})
	}
}

// prepare creates values, and fills etcd's log up to so many whole files and bytes.
func (x *target) prepare(files int, written int64) {
	x.Helper()
	for i := range anytimeValues {
		x.must("create", x.create(i))
	}
	_, err := x.store.Create(x.Context(), blindKey, storetest.Value(0, blindBytes), 0)
	x.must("create", err)
	for x.rolls() < files {
		x.blind()
	}
	for n := int64(anytimeValues * anytimeSize); n < written; n += blindBytes {
		x.blind()
	}
	if n := x.rolls(); n != files {
		x.Fatalf("etcd's log has gone on %d times, want %d", n, files)
	}
}

// outlast works on a full disk until etcd's log has gone on to its next file so often.
func (x *target) outlast(rolls int) {
	x.Helper()
	x.untilRefused(func(i int) error { return x.create(2*anytimeValues + x.rolls()*anytimeValues + i) }) // there may be some unused pages in the database
	_, err := x.store.Update(x.Context(), key(0), storetest.Value(1, 20*anytimeSize), x.rev(0), 0)
	x.refused("an update to twenty times the size", err)
	slowest := time.Duration(0)
	timed := func(what string, write func() error) {
		began := time.Now()
		x.eventually(what, write)
		slowest = max(slowest, time.Since(began))
	}
	from, i := x.rolls(), 0
	for ; x.rolls() < from+rolls; i++ {
		timed("an update to the same size", func() error { return x.update(0) })
		timed("a write to the log", x.blindly)
		if n := i + 1; i%10 == 0 && n < anytimeValues {
			timed("delete", func() error { return x.delete(n) })
		}
	}
	x.Logf("etcd's log went on %d times in %d rounds; the slowest write took %v", rolls, i, slowest)
}

// accepts wants writes of all kinds to be accepted.
func (x *target) accepts() {
	x.Helper()
	x.eventually("create when there is room", func() error {
		_, err := x.store.Create(x.Context(), "/registry/secrets/new", storetest.Value(1, 10*anytimeSize), 0)
		return err
	})
	x.eventually("update when there is room", func() error { return x.update(0) })
	x.fed("/registry/secrets/new", 1)
	x.alive()
}

func (x *target) create(n int) error {
	_, err := x.store.Create(x.Context(), key(n), storetest.Value(n, anytimeSize), 0)
	return err
}

func (x *target) update(n int) error {
	_, err := x.store.Update(x.Context(), key(n), storetest.Value(n, anytimeSize), x.rev(n), 0)
	return err
}

func (x *target) delete(n int) error {
	kv, err := x.store.Get(x.Context(), key(n))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	x.must("get", err)
	_, err = x.store.Delete(x.Context(), key(n), kv.ModRev)
	return err
}

// blindly writes much to etcd's log and nothing to its database: an update of a revision that the value does not have.
func (x *target) blindly() error {
	_, err := x.store.Update(x.Context(), blindKey, storetest.Value(0, blindBytes), 1, 0)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

func (x *target) blind() {
	x.Helper()
	x.must("a write to the log", x.blindly())
}

// rolls is how often etcd's log has gone on to its next file.
func (x *target) rolls() int {
	entries, err := os.ReadDir(filepath.Join(x.dir, "etcd", "member", "wal"))
	if err != nil {
		x.Error(err)
		return 0
	}
	names := []string{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".wal"); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return 0
	}
	seq, _, _ := strings.Cut(slices.Max(names), "-")
	n := 0
	if _, err := fmt.Sscanf(seq, "%x", &n); err != nil {
		x.Error(err)
	}
	return n
}

// A crash in the middle of a roll leaves a log file that looks as if etcd were about to leave it. That keeps nobody waiting.
func TestDisk_CrashInARoll(t *testing.T) {
	nstest.Need(t)
	dir := tmpfs(t, 160)
	x, stop := startOn(t, dir)
	x.prepare(0, 8<<20)
	stop()
	tails, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(tails) != 1 {
		t.Fatal(tails, err)
	}
	if err := os.Truncate(tails[0], 17<<20); err != nil {
		t.Fatal(err)
	}
	x, _ = startOn(t, dir)
	began := time.Now()
	for range 50 {
		x.must("update", x.update(0))
	}
	// A look that waited would take two seconds, and each write nearly as long.
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("50 updates took %v", took)
	} else {
		t.Logf("50 updates took %v", took)
	}
	for x.rolls() < 2 {
		x.eventually("a write to the log", x.blindly)
	}
}

// On a full disk values are replaced by others of their size until half of the database's reserve is used, and again soon after.
func TestDiskFull_Updates(t *testing.T) {
	nstest.Need(t)
	dir := tmpfs(t, 160)
	x, _ := startOn(t, dir)
	const values, size = 30, 100_000
	update := func(i int) error {
		_, err := x.store.Update(t.Context(), key(i%values), storetest.Value(i, size), x.rev(i%values), 0)
		return err
	}
	for i := range values {
		_, err := x.store.Create(t.Context(), key(i), storetest.Value(i, size), 0)
		x.must("create", err)
	}
	other := occupy(t, dir)
	n := 0
	x.untilRefused(func(i int) error { n = i; return update(i) })
	x.eventually("update after one was refused", func() error { return update(0) })
	t.Logf("%d updates until one was refused", n)
	x.must("delete", x.delete(3))
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
}
