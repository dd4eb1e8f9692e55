package untrusted

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Entry is a name in an open directory.
type Entry struct {
	Dir  int // descriptor, for system calls that take one and a name; it belongs to Walk
	Name string
}

// Walk calls visit with all that is below dir, a directory before what is in it, and dir itself never. visit says whether to go into what the
// entry names, which is left out when it is no directory (any more), or on another file system than dir. Links in dir are followed, below it none.
//
// What comes, goes or moves during the walk may be left out or visited twice. An error of visit ends the walk. When directories are nested
// too deep, everything else is visited, and then Walk fails with ErrTooDeep.
func Walk(ctx context.Context, dir string, visit func(Entry) (enter bool, err error)) error {
	return walk(ctx, dir, visit, nil)
}

func walk(ctx context.Context, dir string, visit func(Entry) (bool, error), aside func(wait func() error) error) error {
	fd, err := openDir(dir)
	if err != nil {
		return err
	}
	d, err := begin(ctx, fd)
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	d.aside = aside
	defer d.close()
	if err := d.walk(visit); err != nil {
		return &os.PathError{Op: "walk", Path: dir, Err: err}
	}
	return nil
}

func (d *descent) walk(visit func(Entry) (bool, error)) error {
	var tooDeep error
	for {
		name, err := d.next()
		if err != nil {
			return err
		}
		if name == "" {
			if len(d.levels) == 1 {
				return tooDeep
			}
			if err := d.leave(); err != nil && !errors.Is(err, errMoved) {
				return err
			}
			continue
		}
		enter, err := visit(Entry{Dir: d.here().fd, Name: name})
		if err != nil {
			return err
		}
		if !enter {
			continue
		}
		switch err := d.enter(name); {
		case err == nil, gone(err), errors.Is(err, unix.EXDEV):
		case errors.Is(err, ErrTooDeep):
			tooDeep = err
		default:
			return err
		}
	}
}

// gone says that an entry is not there any more, or is no directory any more.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
