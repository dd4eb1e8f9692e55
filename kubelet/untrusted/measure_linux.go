package untrusted

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Usage is what files take.
type Usage struct {
	Bytes  uint64 // on the disk: less than their size for files with holes
	Inodes uint64 // files, directories and whatever else has a name
}

const (
	// countedLinks bounds the files with several names that are remembered while a tree is measured.
	countedLinks = 1 << 14
	// turnLength is how many entries are measured at a stretch while others wait.
	turnLength = 1 << 12
)

// turns bounds how many trees are measured at once. Whoever has measured turnLength entries lets others go first, so that a tree of millions of
// files does not hold up the measuring of a small one.
var turns = make(chan struct{}, 2)

// Measure adds up what path and everything below it takes on its file system, as du does: a file with several names counts once. When those
// names are very many, or some of them are elsewhere, a name counts as its part of the file. When directories are nested too deep it fails with
// ErrTooDeep and returns what is above.
func Measure(ctx context.Context, path string) (Usage, error) {
	var top unix.Stat_t
	if err := unix.Fstatat(unix.AT_FDCWD, path, &top, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil {
		return Usage{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	m := meter{links: map[[2]uint64]struct{}{}}
	m.add(&top)
	if top.Mode&unix.S_IFMT != unix.S_IFDIR {
		return m.usage(), nil
	}
	if err := take(ctx, turns); err != nil {
		return Usage{}, err
	}
	defer func() { <-turns }()
	letOthers := func(wait func() error) error {
		<-turns
		err := wait()
		turns <- struct{}{} // those who wait are served in the order in which they came
		return err
	}
	seen := 0
	err := walk(ctx, path, func(e Entry) (bool, error) {
		if seen++; seen%turnLength == 0 {
			_ = letOthers(func() error { return nil })
		}
		var st unix.Stat_t
		if err := unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil {
			return false, nil //nolint:nilerr // it has gone
		}
		directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if directory && st.Dev != top.Dev { // where overlayfs has files it is theirs, not its own
			return false, nil
		}
		m.add(&st)
		return directory, nil
	}, letOthers)
	return m.usage(), err
}

// meter adds up files.
type meter struct {
	blocks, inodes uint64 // of 512 bytes; whole files
	parts          struct{ bytes, inodes float64 }
	links          map[[2]uint64]struct{} // device and inode of files with several names that have been counted
}

func (m *meter) add(st *unix.Stat_t) {
	if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		file := [2]uint64{uint64(st.Dev), st.Ino}
		if _, counted := m.links[file]; counted {
			return
		}
		if len(m.links) == countedLinks { // whatever comes from now on is never in links
			m.parts.bytes += float64(st.Blocks) * 512 / float64(st.Nlink)
			m.parts.inodes += 1 / float64(st.Nlink)
			return
		}
		m.links[file] = struct{}{}
	}
	m.blocks += uint64(st.Blocks)
	m.inodes++
}

func (m *meter) usage() Usage {
	return Usage{Bytes: m.blocks*512 + uint64(m.parts.bytes+0.5), Inodes: m.inodes + uint64(m.parts.inodes+0.5)}
}
