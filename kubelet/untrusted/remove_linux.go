package untrusted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// liftLevel is the level at which a directory with something in it is not entered but moved to the top of the tree that is being removed. So
	// a tree loses its depth, bit by bit, and an attempt that is cut short leaves less for the next.
	liftLevel = 12
	// toldErrors bounds the reasons that an attempt is told to have failed for.
	toldErrors = 5
)

// Remove removes path with all that is in it. Links are removed, never followed. It stops at what is mounted: that and the directories above
// it stay, everything else goes, and it fails with ErrMounted. What is not there is no error.
//
// A tree of millions of files takes a while; ctx ends it, and the next call goes on with what is left.
func Remove(ctx context.Context, path string) error {
	path = filepath.Clean(path)
	dir, name := filepath.Split(path)
	parent, err := unix.Open(filepath.Clean(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(parent)
	r := remover{path: path}
	full, err := r.unlink(parent, name)
	if err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if !full {
		return nil
	}
	fd, err := openDirAt(parent, name, below)
	if err == nil {
		r.descent, err = begin(ctx, fd)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		err = ErrMounted
		fallthrough
	case err != nil:
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	defer r.close()
	r.ways = []way{{}}
	if err := r.empty(); err != nil {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if len(r.failed) > 0 {
		return errors.Join(r.failed...)
	}
	if full, err := r.unlink(parent, name); err != nil || full {
		if full {
			err = unix.ENOTEMPTY // others put something there again and again
		}
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// remover removes what is in a directory, from the bottom.
type remover struct {
	*descent
	path   string // for errors
	ways   []way  // for each level
	lifted int    // directories that were moved to the top
	failed []error
}

// way is what a remover knows of a level.
type way struct {
	removed bool // since the directory was last read from its beginning something was removed, so that entries may have been passed over
	failed  bool // something in it stays
}

// unlink removes an entry that is no directory with something in it; full says that it is one.
func (r *remover) unlink(dir int, name string) (full bool, err error) {
	err = unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) { // EPERM: what POSIX says of directories; or the file is immutable
		if as := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(as, unix.ENOTDIR) {
			err = as
		}
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return true, nil
	case errors.Is(err, unix.EBUSY):
		return false, ErrMounted
	}
	return false, err
}

// empty removes what is in the top. What cannot be removed is noted in failed; an error is ctx's.
func (r *remover) empty() error {
	for {
		name, err := r.next()
		if err != nil {
			if r.ctx.Err() != nil {
				return r.ctx.Err()
			}
			r.note("", fmt.Errorf("list: %w", err))
		}
		if name == "" {
			if r.last().removed {
				r.last().removed = false
				if err := r.rewind(); err != nil {
					r.note("", err)
				}
				continue
			}
			if len(r.levels) == 1 {
				return nil
			}
			r.up()
			continue
		}
		full, err := r.unlink(r.here().fd, name)
		if err == nil && full && len(r.levels) >= liftLevel && r.lift(name) {
			full = false
		}
		switch {
		case err != nil:
			r.note(name, err)
		case !full:
			r.last().removed = true
		default:
			if err := r.down(name); err != nil {
				return err
			}
		}
	}
}

func (r *remover) last() *way { return &r.ways[len(r.ways)-1] }

// lift moves a directory to the top. That is not possible everywhere: across projects of a quota, or without room for another entry. Then the
// directory is entered.
func (r *remover) lift(name string) bool {
	for range maxTries {
		to := "..removed-" + strconv.Itoa(r.lifted)
		err := unix.Renameat2(r.here().fd, name, r.levels[0].fd, to, unix.RENAME_NOREPLACE)
		r.lifted++
		if err == nil {
			r.ways[0].removed = true // the top has to be read again
			return true
		}
		if !errors.Is(err, unix.EEXIST) { // another attempt was cut short
			return false
		}
	}
	return false
}

// down enters a directory. Its error is ctx's.
func (r *remover) down(name string) error {
	switch err := r.enter(name); {
	case err == nil:
		r.ways = append(r.ways, way{})
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case gone(err):
		r.last().removed = true // it is something else now
	case errors.Is(err, unix.EXDEV):
		r.note(name, ErrMounted)
	default:
		r.note(name, err)
	}
	return nil
}

// up leaves a directory and removes it.
func (r *remover) up() {
	name, failed := r.here().name, r.last().failed
	err := r.leave()
	r.ways = r.ways[:len(r.levels)]
	switch {
	case errors.Is(err, errMoved): // it will be found again
		r.last().removed = true
		return
	case err != nil:
		r.note(name, err)
		return
	case failed:
		r.last().failed = true
		return
	}
	full, err := r.unlink(r.here().fd, name)
	if err == nil && full {
		err = unix.ENOTEMPTY
	}
	if err != nil {
		r.note(name, err)
		return
	}
	r.last().removed = true
}

// note notes that something in the directory stays.
func (r *remover) note(name string, err error) {
	r.last().failed = true
	if len(r.failed) >= toldErrors {
		return
	}
	var path strings.Builder
	path.WriteString(r.path)
	for _, l := range r.levels[1:] {
		if path.Len() > unix.PathMax {
			path.WriteString("/...")
			break
		}
		path.WriteString("/" + l.name)
	}
	if name != "" {
		path.WriteString("/" + name)
	}
	told := &os.PathError{Op: "remove", Path: path.String(), Err: err}
	same := func(other error) bool { return other.Error() == told.Error() }
	if !slices.ContainsFunc(r.failed, same) {
		r.failed = append(r.failed, told)
	}
}
