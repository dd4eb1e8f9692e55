package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// reserve is disk space that etcd alone can use, so that it can go on when others have filled the disk. It lies in the files into
// which etcd writes next:
//
//	member/snap/db            blocks behind the last page: the database grows into them
//	member/wal/N.tmp          the log file after the next one: etcd makes the names 0.tmp and 1.tmp in turn and holds one of
//	                          them ready; a file that exists already it takes as it is
//	member/wal/SEQ-INDEX.wal  blocks behind the end: the record that ends a log file may be longer than what is left of it
//	reserve/N                 nobody's: when the disk is full, they are removed before a snapshot and made anew after it
//
// It stays on the disk when etcd ends, for its next start. On a file system without fallocate nothing can be reserved; then etcd
// works with the free space, and stops earlier (see [disk]).
type reserve struct {
	dir string // etcd's data directory

	allocated   int64  // bytes of the database's file that have blocks
	database    uint64 // inode of that file: a defragmentation replaces it
	tail        string // name of the log file that is written to
	unsupported bool   // no fallocate here
}

const (
	segmentBytes = 16 << 20 // of a log file, see smallSegments
	// overshoot is how much a log file may be longer: etcd goes on to the next file after the record that crosses the end.
	overshoot  = 2 << 20
	spareBytes = segmentBytes + overshoot

	// databaseReserve is large because of bbolt: a change of one page that holds two values of 1.5 MB writes both anew, and
	// what was freed by that can be used two commits later.
	databaseReserve = 16 << 20

	looseFiles     = 8
	looseFileBytes = 128 << 10
	looseLow       = 1 << 20 // free space below which the loose files are needed for a snapshot

	// unreserved is the free space that stands in for the reserve where nothing can be reserved.
	unreserved = 4 * spareBytes

	// longestRoll is how long etcd may take to go on to its next log file: it syncs both.
	longestRoll, rollPoll = 2 * time.Second, time.Millisecond

	// tight is the free space below which log files that etcd no longer needs are emptied at once.
	tight = 4 * spareBytes
	// margin is the free space that growing writes leave alone, the others what the making of the reserve leaves. The log's is less:
	// what a log file gives back when it is no longer needed must do for the next one.
	margin, databaseMargin, logMargin = 8 << 20, 4 << 20, looseLow
)

// state is what the disk and the reserve have at one moment, in bytes.
type state struct {
	free        int64 // anybody's
	database    int64 // of the database's reserve
	pages       int64 // inside the database, and no longer used
	log         bool  // the log can go on to its next file, and there is one after that
	loose       bool  // the loose files are there
	logLeft     int64 // what the log can take without further space; set by disk, as is
	snapshotDue bool  // that etcd will soon write a snapshot
	newTail     bool  // the log has gone on to its next file since the last time
	oldLog      int   // log files that etcd needs only until its next snapshot; counted when free is below tight
	unreserved  bool  // nothing can be reserved on this file system
}

func (s state) String() string {
	return fmt.Sprintf("bytes free: %d, reserved for the database: %d, unused in it: %d, left in the log: %d; the log can go on: %t", s.free, s.database, s.pages, s.logLeft, s.log)
}

// complete says that enough of the reserve is there for growing writes. For a part of the database's, unused pages will do.
func (s state) complete() bool {
	if s.unreserved {
		return s.free > unreserved
	}
	return s.loose && s.log && s.database >= databaseReserve*3/8 && s.database+s.pages/4 >= databaseReserve*3/4
}

func (r *reserve) path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

func (r *reserve) walDir() string { return r.path("member", "wal") }

// prepare is called before etcd starts. Etcd begins with the name 0.tmp and removes it when it ends: what is reserved under the other
// name takes its place, so that etcd can start on a full disk.
func (r *reserve) prepare() error {
	ready, spare := filepath.Join(r.walDir(), "0.tmp"), filepath.Join(r.walDir(), "1.tmp")
	if have, _, err := blocksOf(ready); err == nil && have >= segmentBytes {
		return nil
	}
	if have, _, err := blocksOf(spare); err != nil || have < segmentBytes {
		return nil
	}
	return os.Rename(spare, ready)
}

// tend makes what is missing of the reserve as far as there is room, gives up the loose files when there is none, and returns what
// there is. size is the end of the database's last page, inUse what its pages hold.
func (r *reserve) tend(size, inUse int64) (s state, err error) {
	defer func() { s.unreserved = r.unsupported || err != nil }()
	free, err := freeBytes(r.dir)
	if err != nil {
		return state{free: math.MaxInt64}, err // as if nobody looked
	}
	s = state{free: free, pages: size - inUse}
	if s.loose, err = r.tendLoose(); err != nil {
		return s, err
	}
	if s.free, err = freeBytes(r.dir); err != nil {
		return s, err
	}
	// wanted takes what a part of the reserve needs off the free space, if that leaves enough.
	wanted := func(bytes, leave int64) bool {
		if s.free-bytes < leave {
			return false
		}
		s.free -= bytes
		return true
	}
	if err := r.tendLog(&s, wanted); err != nil {
		return s, err
	}
	if s.database, err = r.tendDatabase(size, s.free, wanted); err != nil {
		return s, err
	}
	if s.free < tight {
		if s.oldLog, err = r.emptyOldLog(); err != nil {
			return s, err
		}
	}
	s.free, err = freeBytes(r.dir)
	return s, err
}

// release removes the loose files, and says whether there were any.
func (r *reserve) release() (bool, error) {
	_, err := os.Lstat(r.path("reserve", "0"))
	return err == nil, os.RemoveAll(r.path("reserve"))
}

// tendLoose makes as many loose files as there is room for, and says whether enough of them are there.
func (r *reserve) tendLoose() (enough bool, err error) {
	if err := os.Mkdir(r.path("reserve"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, missing(err)
	}
	if r.unsupported {
		return true, nil
	}
	have := 0
	for i := range looseFiles {
		path := r.path("reserve", fmt.Sprint(i))
		if _, err := os.Lstat(path); err == nil {
			have++
			continue
		}
		if err := r.make(path, looseFileBytes); err != nil {
			return have >= looseFiles/2, errors.Join(missing(err), os.Remove(path))
		}
		have++
	}
	return have >= looseFiles/2, nil
}

// tendDatabase returns how many bytes behind size belong to the database.
func (r *reserve) tendDatabase(size, free int64, wanted func(bytes, leave int64) bool) (int64, error) {
	if r.unsupported {
		return 0, nil
	}
	path := r.path("member", "snap", "db")
	have, inode, err := blocksOf(path)
	if err != nil {
		return 0, err
	}
	if inode != r.database {
		r.database, r.allocated = inode, size
		// What was reserved before this start is there without asking: the file is longer than its pages.
		if have > size {
			r.allocated = have
		}
	}
	grown := min(size+databaseReserve-r.allocated, free-databaseMargin)
	want := r.allocated + grown
	if grown > databaseReserve/8 && wanted(grown, databaseMargin) {
		err := r.extend(path, want, false)
		if err == nil {
			r.allocated = want
		} else if err = missing(err); err != nil {
			return 0, err
		}
	}
	return max(0, r.allocated-size), nil
}

// tendLog makes the log file after the next one, gives all of them their blocks behind the end, and notes what there is in s.
func (r *reserve) tendLog(s *state, wanted func(bytes, leave int64) bool) error {
	names, tail, err := r.logFiles()
	if err != nil {
		return err
	}
	s.newTail, r.tail = tail != r.tail, tail
	if r.unsupported {
		return nil
	}
	s.log = true
	for _, name := range []string{"0.tmp", "1.tmp"} {
		have := true
		if !slices.Contains(names, name) {
			have, err = r.makeSpare(name, wanted)
		}
		if have && err == nil {
			have, err = r.lengthen(name, wanted)
		}
		if err != nil {
			return err
		}
		s.log = s.log && have
	}
	have, err := r.lengthen(tail, wanted)
	s.log = s.log && have
	return err
}

// logFiles returns the names in the log's directory, and the one that is written to. While etcd goes on to its next file, what is there
// does not fit together: the old file is cut to what is written already, the next one has no name yet. Etcd does so right after the
// write that crosses the end, perhaps when that write is already answered; so logFiles waits for it.
func (r *reserve) logFiles() (names []string, tail string, err error) {
	for deadline := time.Now().Add(longestRoll); ; time.Sleep(rollPoll) {
		entries, err := os.ReadDir(r.walDir())
		if err != nil {
			return nil, "", err
		}
		names, tail = names[:0], ""
		for _, e := range entries {
			names = append(names, e.Name())
			if strings.HasSuffix(e.Name(), ".wal") {
				tail = e.Name() // in the order of their names: the last one is the newest
			}
		}
		rolls, err := r.rolls(names, tail)
		if err != nil || !rolls || time.Now().After(deadline) {
			return names, tail, err
		}
	}
}

// rolls says whether etcd is about to go on from the file tail of its log to the next one. A file that is written to is as long as it
// was made, by etcd or as a spare.
func (r *reserve) rolls(names []string, tail string) (bool, error) {
	info, err := os.Stat(filepath.Join(r.walDir(), tail))
	if err != nil {
		return false, err
	}
	if size := info.Size(); segmentBytes < size && size < spareBytes {
		return true, nil
	}
	for _, name := range []string{"0.tmp", "1.tmp"} {
		if !slices.Contains(names, name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(r.walDir(), name)); errors.Is(err, fs.ErrNotExist) {
			return true, nil // etcd has renamed it since
		}
	}
	return false, nil
}

// emptyOldLog takes the contents from log files that etcd does not need for its next start. It would remove them itself, but only
// within half a minute, and never the newest of them; the empty files are left to it. Those that it needs are locked. emptyOldLog
// returns how many they are, without the one that is written to.
func (r *reserve) emptyOldLog() (needed int, err error) {
	names, err := filepath.Glob(filepath.Join(r.walDir(), "*.wal"))
	if err != nil {
		return 0, err
	}
	old := names[:max(0, len(names)-1)]
	for i, name := range old {
		f, err := fileutil.TryLockFile(name, os.O_WRONLY, 0)
		switch {
		case errors.Is(err, fileutil.ErrLocked):
			return len(old) - i, nil
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return 0, err
		}
		if err := errors.Join(f.Truncate(0), f.Close()); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// written returns how many bytes of the log's present file are written: behind them is nothing but zeros.
func (r *reserve) written() (int64, error) {
	f, err := os.Open(filepath.Join(r.walDir(), r.tail))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	chunk := make([]byte, 64<<10)
	for err == nil && end > 0 {
		from := max(0, end-int64(len(chunk)))
		part := chunk[:end-from]
		if _, err = f.ReadAt(part, from); err != nil {
			break
		}
		if last := bytes.TrimRight(part, "\x00"); len(last) > 0 {
			return from + int64(len(last)), nil
		}
		end = from
	}
	return 0, err
}

// makeSpare makes the log file that etcd will take after the next one. It gets its name when it is complete, and never in place of
// one that etcd has made in the meantime.
func (r *reserve) makeSpare(name string, wanted func(bytes, leave int64) bool) (made bool, err error) {
	if !wanted(spareBytes, logMargin) {
		return false, nil
	}
	making := filepath.Join(r.walDir(), "spare.tmp")
	err = r.make(making, spareBytes)
	if err == nil {
		if err = os.Link(making, filepath.Join(r.walDir(), name)); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	made = err == nil
	return made, errors.Join(missing(err), os.Remove(making))
}

// lengthen gives a log file blocks behind its end, and says whether it has them.
func (r *reserve) lengthen(name string, wanted func(bytes, leave int64) bool) (have bool, err error) {
	path := filepath.Join(r.walDir(), name)
	bytes, _, err := blocksOf(path)
	if err == nil && bytes < spareBytes {
		if !wanted(spareBytes-bytes, logMargin) {
			return false, nil
		}
		err = r.extend(path, spareBytes, true)
	}
	if errors.Is(err, fs.ErrNotExist) { // etcd has renamed it since
		return false, nil
	}
	return err == nil, missing(err)
}

// make makes a file of size bytes that has all its blocks, all zero.
func (r *reserve) make(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.note(allocate(f, size, false))
}

func (r *reserve) extend(path string, size int64, keepSize bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.note(allocate(f, size, keepSize))
}

func (r *reserve) note(err error) error {
	r.unsupported = r.unsupported || errors.Is(err, errors.ErrUnsupported)
	return err
}

// missing is nil for the errors that say only that a part of the reserve cannot be made now.
func missing(err error) error {
	if err == nil || isDiskFull(err) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return fmt.Errorf("reserve disk space for etcd: %w", err)
}
