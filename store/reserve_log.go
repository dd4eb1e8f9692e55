package store

import (
	"bytes"
	"errors"
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

func (r *reserve) walDir() string { return r.path("member", "wal") }

func (r *reserve) wal(name string) string { return filepath.Join(r.walDir(), name) }

// prepare is called before etcd starts. Etcd begins with the name 0.tmp and removes it when it ends: what is reserved under the other
// name takes its place, so that etcd can start on a full disk.
func (r *reserve) prepare() error {
	ready, spare := r.wal("0.tmp"), r.wal("1.tmp")
	if have, _, err := blocksOf(ready); err == nil && have >= segmentBytes {
		return nil
	}
	if have, _, err := blocksOf(spare); err != nil || have < segmentBytes {
		return nil
	}
	return os.Rename(spare, ready)
}

// tendLog makes the log file after the next one, gives all of them their blocks behind the end, and notes what there is in s.
func (r *reserve) tendLog(s *state, wanted func(bytes, leave int64) bool) error {
	names, tail, rolling, err := r.logFiles()
	if err != nil {
		return err
	}
	if s.rolling = rolling; rolling {
		return nil
	}
	s.newTail, r.tail = tail != r.tail, tail
	if r.unsupported {
		return nil
	}
	tight := s.free < tight
	var unneeded []string
	if tight {
		if unneeded, s.oldLog, err = r.oldLog(names); err != nil {
			return err
		}
	}
	s.log = true
	for _, name := range []string{"0.tmp", "1.tmp"} {
		have := slices.Contains(names, name)
		if !have {
			have, err = r.claimSpare(name, unneeded, tight, wanted)
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
// write that crosses the end, perhaps when that write is already answered. Then logFiles returns nothing but that.
func (r *reserve) logFiles() (names []string, tail string, rolling bool, err error) {
	entries, err := os.ReadDir(r.walDir())
	if err != nil {
		return nil, "", false, err
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if strings.HasSuffix(e.Name(), ".wal") {
			tail = e.Name() // in the order of their names: the last one is the newest
		}
	}
	rolling, err = r.rolling(names, tail)
	switch {
	case err != nil:
		return nil, "", false, err
	case !rolling:
		r.rolls = ""
		return names, tail, false, nil
	case r.tail == "": // at the start etcd writes nothing
		r.rolls, r.rollsSince = tail, time.Time{}
		return names, tail, false, nil
	case r.rolls != tail:
		r.rolls, r.rollsSince = tail, time.Now()
	case time.Since(r.rollsSince) > longestRoll:
		return names, tail, false, nil
	}
	return nil, "", true, nil
}

// rolling says whether etcd is about to go on from the file tail of its log to the next one. A file that is written to is as long as it
// was made, by etcd or as a spare.
func (r *reserve) rolling(names []string, tail string) (bool, error) {
	info, err := os.Stat(r.wal(tail))
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
		if _, err := os.Lstat(r.wal(name)); errors.Is(err, fs.ErrNotExist) {
			return true, nil // etcd has renamed it since
		}
	}
	return false, nil
}

// oldLog returns the log files that etcd does not need for its next start, the newest first, and how many it needs besides the one that is
// written to: those are locked.
func (r *reserve) oldLog(names []string) (unneeded []string, needed int, err error) {
	var old []string
	for _, name := range names {
		if strings.HasSuffix(name, ".wal") {
			old = append(old, name)
		}
	}
	old = old[:max(0, len(old)-1)]
	for i, name := range old {
		f, err := fileutil.TryLockFile(r.wal(name), os.O_WRONLY, 0)
		switch {
		case errors.Is(err, fileutil.ErrLocked):
			slices.Reverse(unneeded)
			return unneeded, len(old) - i, nil
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, 0, err
		}
		unneeded = append(unneeded, name)
		if err := f.Close(); err != nil {
			return nil, 0, err
		}
	}
	slices.Reverse(unneeded)
	return unneeded, 0, nil
}

// emptyOldLog takes the contents from log files that etcd does not need for its next start. It would remove them itself, but only
// within half a minute, and never the newest of them; the empty files are left to it.
func (r *reserve) emptyOldLog() error {
	entries, err := os.ReadDir(r.walDir())
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	unneeded, _, err := r.oldLog(names)
	for _, name := range unneeded {
		if err := os.Truncate(r.wal(name), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// claimSpare makes the log file that etcd will take after the next one, when the disk is tight of one that it no longer needs: what that
// would give back others might take. It says whether there is one now.
func (r *reserve) claimSpare(name string, unneeded []string, tight bool, wanted func(bytes, leave int64) bool) (made bool, err error) {
	if tight {
		if made, err = r.reuse(name, unneeded, wanted); made || err != nil {
			return made, err
		}
	}
	return r.makeSpare(name, wanted)
}

// makeSpare makes a spare log file of free space. It gets its name when it is complete, and never in place of one that etcd has made in the
// meantime.
func (r *reserve) makeSpare(name string, wanted func(bytes, leave int64) bool) (made bool, err error) {
	if !wanted(spareBytes, 0) {
		return false, nil
	}
	making := r.wal("spare.tmp")
	if err = r.make(making, spareBytes); err == nil {
		err = r.publish(making, name)
	}
	made = err == nil
	return made, errors.Join(missing(err), os.Remove(making))
}

// publish gives a file a further name in the log's directory, unless there is one of that name.
func (r *reserve) publish(path, name string) error {
	if err := os.Link(path, r.wal(name)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// reuse makes a spare log file of one that etcd no longer needs. As long as it is not complete, old.tmp keeps what there is of it.
func (r *reserve) reuse(name string, unneeded []string, wanted func(bytes, leave int64) bool) (made bool, err error) {
	path := r.wal("old.tmp")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if taken, err := r.takeOld(path, unneeded); err != nil || !taken {
			return false, err
		}
		r.zeroed = false
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if !r.zeroed {
		if err := overwrite(f); err != nil { // on a file system that writes nothing in place there may be no room
			return false, errors.Join(missing(err), os.Remove(path))
		}
		r.zeroed = true
	}
	if err := f.Truncate(spareBytes); err != nil { // as long as any spare; see rolling
		return false, missing(err)
	}
	if have, err := r.lengthen("old.tmp", wanted); err != nil || !have {
		return false, err
	}
	if err := errors.Join(f.Sync(), r.publish(path, name)); err != nil {
		return false, err
	}
	return true, os.Remove(path)
}

// takeOld gives a log file that etcd no longer needs another name, and says whether there was one. An empty file stays under the old name:
// etcd may be about to remove that, and ends when it is not there.
func (r *reserve) takeOld(path string, unneeded []string) (taken bool, err error) {
	for _, name := range unneeded {
		have, _, err := blocksOf(r.wal(name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && have < segmentBytes {
			continue
		}
		if err != nil {
			return false, err
		}
		empty := r.wal("empty.tmp")
		if err := os.WriteFile(empty, nil, 0o600); err != nil {
			return false, missing(err)
		}
		if err := os.Link(r.wal(name), path); err != nil {
			return false, errors.Join(err, os.Remove(empty))
		}
		return true, os.Rename(empty, r.wal(name))
	}
	return false, nil
}

// overwrite writes zeros over all of a file.
func overwrite(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, 256<<10)
	for at := int64(0); at < info.Size() && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at)
	}
	return err
}

// written returns how many bytes of the log's present file are written: behind them is nothing but zeros.
func (r *reserve) written() (int64, error) {
	f, err := os.Open(r.wal(r.tail))
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

// lengthen gives a log file blocks behind its end, as many as it can, and says whether it has enough. When others have taken what the last
// file gave back at its end, it takes from the database.
func (r *reserve) lengthen(name string, wanted func(bytes, leave int64) bool) (enough bool, err error) {
	path := r.wal(name)
	have, _, err := blocksOf(path)
	if errors.Is(err, fs.ErrNotExist) { // etcd has renamed it since
		return false, nil
	}
	if err != nil || have >= spareBytes {
		return err == nil, err
	}
	more := spareBytes - have
	if !wanted(more, 0) {
		if have >= enoughBytes {
			return true, nil
		}
		if have >= segmentBytes {
			if err := r.giveUp(more); err != nil {
				return false, err
			}
		}
		free, err := freeBytes(r.dir)
		if err != nil {
			return false, err
		}
		if more = min(more, free) &^ (blockBytes - 1); have+more < enoughBytes {
			return false, nil
		}
		wanted(more, math.MinInt64)
	}
	if err := r.extend(path, have+more, true); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, missing(err)
	}
	return true, nil
}
