// Package contents writes the files of volumes so that readers see all of the old ones or all of the new.
package contents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vigil/kubelet/untrusted"
)

// File is what a volume is to have at a path.
type File struct {
	Data []byte
	Mode os.FileMode // permission bits
	User *int64      // the owner; nil: who writes it
}

// Payload is the contents of a volume, by relative path.
type Payload map[string]File

// Size is how many bytes all files have together.
func (p Payload) Size() int {
	size := 0
	for _, f := range p {
		size += len(f.Data)
	}
	return size
}

const (
	dataLink    = "..data"     // symlink to the directory that has the contents
	dataLinkNew = "..data_tmp" // the next one, until it is renamed

	maxPath = 4096
	maxName = 255
)

// Write makes the contents of dir those of p, so that who reads sees all of the old or all of the new:
//
//	dir/..2026_11_21_09_30_00.123456789/   the contents, with directories
//	dir/..data -> ..2026_11_21_09_30_00.123456789
//	dir/NAME -> ..data/NAME                for the first element of each path
//
// The new directory is complete before ..data is replaced, by a rename. Names that come are made before that, names that go are removed
// after. It is upstream's layout (pkg/volume/util/atomic_writer.go), which programs know: they watch ..data.
//
// When nothing would change nothing is written. own, when not nil, is called with the new directory before it is seen. Calls for one
// directory are one after another. It fails for paths that are absolute, empty, too long, lead out of dir or begin with "..".
func Write(ctx context.Context, dir string, p Payload, own func(dir string) error) (changed bool, err error) {
	p, err = p.clean()
	if err != nil {
		return false, err
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if errors.Is(err, syscall.EINVAL) { // no symlink, so that a rename might not replace it
		err = untrusted.Remove(ctx, filepath.Join(dir, dataLink))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if old != filepath.Base(old) || old == ".." {
		old = "" // nothing that was written here
	}
	names := p.names()
	if old != "" && same(filepath.Join(dir, old), p) {
		// An attempt may have been cut short between the rename and the end.
		return false, errors.Join(link(ctx, dir, names), prune(ctx, dir, names, old))
	}
	next, err := os.MkdirTemp(dir, time.Now().UTC().Format("..2006_01_02_15_04_05.*"))
	if err != nil {
		return false, err
	}
	if err = p.write(next); err == nil && own != nil {
		err = own(next)
	}
	if err == nil {
		err = link(ctx, dir, names)
	}
	if err == nil {
		err = replaceLink(ctx, dir, filepath.Base(next))
	}
	if err != nil {
		return false, errors.Join(err, untrusted.Remove(ctx, next))
	}
	return true, prune(ctx, dir, names, filepath.Base(next))
}

// clean checks the paths and makes them the shortest ones.
func (p Payload) clean() (Payload, error) {
	result := make(Payload, len(p))
	for path, content := range p {
		if err := checkPath(path); err != nil {
			return nil, err
		}
		clean := filepath.Clean(path)
		if clean == "." {
			return nil, fmt.Errorf("invalid path: must name a file: %s", path)
		}
		result[clean] = content
	}
	for path := range result {
		for up := filepath.Dir(path); up != "."; up = filepath.Dir(up) {
			if _, both := result[up]; both {
				return nil, fmt.Errorf("invalid path: %s is a file, and %s is below it", up, path)
			}
		}
	}
	return result, nil
}

// checkPath fails when a path may not be in a volume; names that begin with ".." are the writer's own.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("invalid path: must not be empty: %q", path)
	case filepath.IsAbs(path):
		return fmt.Errorf("invalid path: must be relative path: %s", path)
	case len(path) > maxPath:
		return fmt.Errorf("invalid path: must be less than or equal to %d characters", maxPath)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("invalid path: must not contain NUL: %q", path)
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == ".." {
			return fmt.Errorf("invalid path: must not contain '..': %s", path)
		}
		if len(element) > maxName {
			return fmt.Errorf("invalid path: filenames must be less than or equal to %d characters", maxName)
		}
	}
	if strings.HasPrefix(filepath.Clean(path), "..") {
		return fmt.Errorf("invalid path: must not start with '..': %s", path)
	}
	return nil
}

// names are the names at the top.
func (p Payload) names() map[string]bool {
	names := make(map[string]bool, len(p))
	for path := range p {
		name, _, _ := strings.Cut(path, "/")
		names[name] = true
	}
	return names
}

// write writes all files below dir, which is new.
func (p Payload) write(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask is
		return err
	}
	for path, content := range p {
		at := filepath.Join(dir, path)
		if err := makeParents(dir, filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.WriteFile(at, content.Data, 0o600); err != nil {
			return err
		}
		if content.User != nil {
			if err := os.Lchown(at, int(*content.User), -1); err != nil {
				return err
			}
		}
		if err := os.Chmod(at, content.Mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}

// makeParents makes the directories that a path needs below dir, for all to enter whatever the umask is.
func makeParents(dir, path string) error {
	if path == "." {
		return nil
	}
	if err := makeParents(dir, filepath.Dir(path)); err != nil {
		return err
	}
	at := filepath.Join(dir, path)
	err := os.Mkdir(at, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(at, 0o755)
}

// same says that dir has just the files of p, with the same contents.
func same(dir string, p Payload) bool {
	left := len(p)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, known := p[relative]
		if !known || !entry.Type().IsRegular() {
			return fs.ErrInvalid
		}
		have, err := untrusted.Read(path, int64(len(want.Data)))
		if err != nil {
			return err
		}
		if !bytes.Equal(have, want.Data) {
			return fs.ErrInvalid
		}
		left--
		return nil
	})
	return err == nil && left == 0
}

// link makes the symlinks for names that have none. What else has such a name, pods cannot have made: it is replaced.
func link(ctx context.Context, dir string, names map[string]bool) error {
	for name := range names {
		at, to := filepath.Join(dir, name), filepath.Join(dataLink, name)
		if have, err := os.Readlink(at); err == nil && have == to {
			continue
		}
		if err := untrusted.Remove(ctx, at); err != nil {
			return err
		}
		if err := os.Symlink(to, at); err != nil {
			return err
		}
	}
	return nil
}

// replaceLink makes ..data lead to a directory beside it.
func replaceLink(ctx context.Context, dir, to string) error {
	next := filepath.Join(dir, dataLinkNew)
	if err := untrusted.Remove(ctx, next); err != nil {
		return err
	}
	if err := os.Symlink(to, next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, dataLink))
}

// prune removes the symlinks of names that are no more, and contents that are not the current ones.
func prune(ctx context.Context, dir string, names map[string]bool, current string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failed error
	for _, entry := range entries {
		name := entry.Name()
		if name == dataLink || name == current || names[name] {
			continue
		}
		if !strings.HasPrefix(name, "..") && entry.Type()&fs.ModeSymlink == 0 {
			continue // a mount point, or a file, that is none of ours
		}
		failed = errors.Join(failed, untrusted.Remove(ctx, filepath.Join(dir, name)))
	}
	return failed
}
