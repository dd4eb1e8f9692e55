package untrusted

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// MaxDepth is how deep directories may be nested: far deeper than a path can name (2,047), and few enough to be remembered. The kernel keeps
	// every directory in memory that is above an open one.
	MaxDepth = 1 << 15
	// heldLevels are the levels of a descent whose directories stay open; further down that is one in milestone.
	heldLevels, milestone = 16, 256
	// nearLevels are the levels next to the deepest one whose directories are open. Those between are closed, and opened again by their
	// names, from the next open one on, when the descent comes back to them. To open them by ".." would take longer: the kernel looks each time
	// whether the directory is still below the mount, level by level.
	nearLevels = 32
	// deepLevel is the level behind which one descent of the process at a time may go.
	deepLevel = 2048
	// bufferSize is how much of a directory is read at once, in bytes.
	bufferSize = 8 << 10
)

// deep has a token for the one descent that may be behind deepLevel.
var deep = make(chan struct{}, 1)

// take takes a token when there is room for one.
func take(ctx context.Context, tokens chan struct{}) error {
	select {
	case tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// descent is a place in a tree of directories, and the way that leads there: levels[0] is the top. It stays on the top's file system and follows
// no links.
type descent struct {
	ctx    context.Context
	levels []level
	steps  int
	spare  []byte // a buffer that no level has
	// aside calls a function that waits; nil: it is called as it is.
	aside func(wait func() error) error
}

// level is a directory on the way. Its entries are read one after another.
type level struct {
	name     string // in the level above
	fd       int    // -1: closed for now
	dev, ino uint64 // by which it is known again
	next     int64  // where the entry is that comes next, for lseek
	buffer   []byte // nil: closed for now
	rest     []byte // of buffer, not yet taken
}

// begin begins at an open directory, which the descent closes.
func begin(ctx context.Context, fd int) (*descent, error) {
	l, err := newLevel(fd, "")
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &descent{ctx: ctx, levels: []level{l}}, nil
}

func newLevel(fd int, name string) (level, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return level{}, err
	}
	return level{name: name, fd: fd, dev: uint64(st.Dev), ino: st.Ino}, nil
}

// close closes all that is open.
func (d *descent) close() {
	for len(d.levels) > 0 {
		d.pop()
	}
}

func (d *descent) pop() {
	last := len(d.levels) - 1
	d.shut(last)
	d.levels[last] = level{}
	d.levels = d.levels[:last]
	if last == deepLevel {
		<-deep
	}
}

// shut closes a directory for now.
func (d *descent) shut(at int) {
	l := &d.levels[at]
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
	if l.buffer != nil {
		d.spare, l.buffer, l.rest = l.buffer, nil, nil
	}
}

// here is the directory that is being read.
func (d *descent) here() *level { return &d.levels[len(d.levels)-1] }

// next returns the name of the next entry of the directory, "" behind the last.
func (d *descent) next() (name string, err error) {
	l := d.here()
	for {
		if d.steps++; d.steps%256 == 0 {
			if err := d.ctx.Err(); err != nil {
				return "", err
			}
		}
		if len(l.rest) == 0 {
			if l.buffer == nil {
				l.buffer, d.spare = d.spare, nil
			}
			if l.buffer == nil {
				l.buffer = make([]byte, bufferSize)
			}
			var n int
			err := retry(func() (err error) {
				n, err = unix.Getdents(l.fd, l.buffer)
				return err
			})
			if errors.Is(err, unix.ENOENT) { // it has been removed
				n, err = 0, nil
			}
			if err != nil || n == 0 {
				return "", err
			}
			l.rest = l.buffer[:n]
		}
		// struct linux_dirent64: u64 inode, s64 offset of the next, u16 length, u8 type, name with a NUL.
		length := int(binary.NativeEndian.Uint16(l.rest[16:]))
		l.next = int64(binary.NativeEndian.Uint64(l.rest[8:]))
		name := l.rest[19:length]
		l.rest = l.rest[length:]
		for i, c := range name {
			if c == 0 {
				name = name[:i]
				break
			}
		}
		if s := string(name); s != "." && s != ".." {
			return s, nil
		}
	}
}

// rewind begins to read the directory again.
func (d *descent) rewind() error {
	l := d.here()
	l.rest, l.next = nil, 0
	_, err := unix.Seek(l.fd, 0, 0)
	return err
}

// enter goes into a directory below. It fails with EXDEV when that is on another file system, with ENOTDIR or ELOOP when it is no directory, and with
// ErrTooDeep.
func (d *descent) enter(name string) error {
	if len(d.levels) > MaxDepth {
		return ErrTooDeep
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	fd, err := openDirAt(d.here().fd, name, below)
	if err != nil {
		return err
	}
	l, err := newLevel(fd, name)
	if err == nil && len(d.levels) == deepLevel {
		wait := func() error { return take(d.ctx, deep) }
		if d.aside != nil {
			err = d.aside(wait)
		} else {
			err = wait()
		}
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	d.levels = append(d.levels, l)
	if far := len(d.levels) - 1 - nearLevels; far >= heldLevels && far%milestone != 0 {
		d.shut(far)
	}
	return nil
}

// below is how directories below an open one are opened: without leaving it by links, "..", or mounts.
const below = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS

// errMoved says that a directory is no longer where it was entered. The descent is at a level further up then, which was open.
var errMoved = errors.New("directory was moved meanwhile")

// leave goes back to the directory above and goes on there behind the entry that was entered. From the top there is no way back.
func (d *descent) leave() error {
	d.pop()
	if d.here().fd >= 0 {
		return nil
	}
	err := d.reopen()
	if err == nil {
		return nil
	}
	for d.here().fd < 0 {
		d.pop()
	}
	if gone(err) || errors.Is(err, unix.EXDEV) {
		err = errMoved
	}
	return err
}

// reopen opens the deepest level again, and those next to it.
func (d *descent) reopen() error {
	last := len(d.levels) - 1
	open := last
	for d.levels[open].fd < 0 {
		open--
	}
	way, err := unix.Dup(d.levels[open].fd)
	if err != nil {
		return err
	}
	defer func() { unix.Close(way) }()
	next := open + 1
	for first := last - nearLevels + 1; next < first; { // several at once
		var path strings.Builder
		for ; next < first && path.Len()+len(d.levels[next].name)+1 < unix.PathMax; next++ {
			if path.Len() > 0 {
				path.WriteByte('/')
			}
			path.WriteString(d.levels[next].name)
		}
		fd, err := openat2(way, path.String(), unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY, Resolve: below})
		if err != nil {
			return err
		}
		unix.Close(way)
		way = fd
	}
	for in := way; next <= last; next++ {
		l := &d.levels[next]
		fd, err := openDirAt(in, l.name, below)
		if err != nil {
			return err
		}
		same, err := newLevel(fd, "")
		if err == nil && (same.dev != l.dev || same.ino != l.ino) {
			err = unix.ENOENT
		}
		if err == nil {
			_, err = unix.Seek(fd, l.next, 0)
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
		l.fd, in = fd, fd
	}
	return nil
}

// openDir opens a directory where a descent begins.
func openDir(path string) (int, error) {
	fd, err := openDirAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// openDirAt opens a directory to read it. That leaves no trace in its access time, which would have to be written, unless the process may not say so.
func openDirAt(in int, name string, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOATIME, Resolve: resolve}
	if fd, err = openat2(in, name, how); errors.Is(err, unix.EPERM) {
		how.Flags &^= unix.O_NOATIME
		fd, err = openat2(in, name, how)
	}
	return fd, err
}
