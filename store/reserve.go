package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"
)

// reserve is disk space that etcd alone can use, so that it can go on when others have filled the disk. It lies in the files into
// which etcd writes next:
//
//	member/snap/db            blocks behind the last page: the database grows into them
//	member/wal/N.tmp          the log file after the next one: etcd makes the names 0.tmp and 1.tmp in turn and holds one of
//	                          them ready; a file that exists already it takes as it is
//	member/wal/old.tmp        a log file that etcd no longer needs, on its way to become such a one
//	member/wal/SEQ-INDEX.wal  blocks behind the end: the record that ends a log file may be longer than what is left of it
//	reserve/N                 nobody's: when the disk is full, they are removed before a snapshot and made anew after it
//
// It stays on the disk when etcd ends, for its next start. On a file system without fallocate nothing can be reserved; then etcd
// works with the free space, and stops earlier (see [disk]).
type reserve struct {
	dir string // etcd's data directory

	allocated    int64  // bytes of the database's file that have blocks
	databaseSize int64  // the end of its last page at the last time
	database     uint64 // inode of that file: a defragmentation replaces it
	tail         string // name of the log file that is written to
	unsupported  bool   // no fallocate here

	rolls      string    // name of the log file that etcd seems to be leaving
	rollsSince time.Time // when that was first seen
	zeroed     bool      // old.tmp holds nothing but zeros
}

const (
	segmentBytes = 16 << 20 // of a log file, see smallSegments
	// overshoot is how much a log file may be longer: etcd goes on to the next file after the record that crosses the end.
	overshoot  = 2 << 20
	spareBytes = segmentBytes + overshoot
	// enoughBytes are the blocks of a log file that will do: more is written to the log between two looks at no time.
	enoughBytes = segmentBytes + overshoot - overshoot/8

	// databaseReserve is large because of bbolt: a change of one page that holds two values of 1.5 MB writes both anew, and
	// what was freed by that can be used two commits later.
	databaseReserve = 16 << 20

	// blockBytes is a multiple of the size of a block of usual file systems.
	blockBytes = 64 << 10

	looseFiles     = 8
	looseFileBytes = 128 << 10
	looseLow       = 1 << 20 // free space below which the loose files are needed for a snapshot

	// unreserved is the free space that stands in for the reserve where nothing can be reserved.
	unreserved = 4 * spareBytes

	// longestRoll is how long etcd may take to go on to its next log file: it syncs both. What looks like that for longer is what a crash
	// in the middle of it has left.
	longestRoll = 2 * time.Second

	// tight is the free space below which log files that etcd no longer needs are used again, or emptied, at once.
	tight = 4 * spareBytes
	// margin is the free space that growing writes leave alone, databaseMargin what the making of the database's reserve leaves. The log
	// takes the last byte: without it nothing can be written.
	margin, databaseMargin = 8 << 20, 4 << 20
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
	rolling     bool  // it is about to: what is known of it is what was known before
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
	// The log comes first: it can go on only as a whole, while every page helps the database.
	if s.database, err = r.tendDatabase(size, s.free, s.log, wanted); err != nil {
		return s, err
	}
	if s.free < tight && !s.rolling {
		if err := r.emptyOldLog(); err != nil {
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
		err := r.make(path, looseFileBytes)
		if isDiskFull(err) && have < looseFiles/2 { // others have taken what a snapshot has left of them
			if err = r.giveUp(looseFileBytes); err == nil {
				err = r.make(path, looseFileBytes)
			}
		}
		if err != nil {
			return have >= looseFiles/2, errors.Join(missing(err), os.Remove(path))
		}
		have++
	}
	return have >= looseFiles/2, nil
}

// giveUp takes blocks from the end of the database's reserve for another part of it, if half of the database's stays.
func (r *reserve) giveUp(bytes int64) error {
	if r.allocated-r.databaseSize-bytes < databaseReserve/2 {
		return nil
	}
	f, err := os.OpenFile(r.path("member", "snap", "db"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := release(f, r.allocated-bytes, bytes); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	}
	r.allocated -= bytes
	return nil
}

// tendDatabase returns how many bytes behind size belong to the database. It makes them more only if it may.
func (r *reserve) tendDatabase(size, free int64, may bool, wanted func(bytes, leave int64) bool) (int64, error) {
	if r.unsupported {
		return 0, nil
	}
	path := r.path("member", "snap", "db")
	have, inode, err := blocksOf(path)
	if err != nil {
		return 0, err
	}
	r.databaseSize = size
	if inode != r.database {
		r.database, r.allocated = inode, size
		// What was reserved before this start is there without asking: the file is longer than its pages.
		if have > size {
			r.allocated = have
		}
	}
	grown := min(size+databaseReserve-r.allocated, free-databaseMargin)
	want := r.allocated + grown
	if may && grown > databaseReserve/8 && wanted(grown, databaseMargin) {
		err := r.extend(path, want, false)
		if err == nil {
			r.allocated = want
		} else if err = missing(err); err != nil {
			return 0, err
		}
	}
	return max(0, r.allocated-size), nil
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
