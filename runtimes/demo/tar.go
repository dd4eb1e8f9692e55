package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// archive does the little of tar that `kubectl cp` needs: "cf - PATH..." writes an archive, "xmf - [-C DIR]" unpacks one, never outside of DIR.
func archive(args []string, s streams) error {
	const usage = "tar cf - PATH... | tar xf - [-C DIR]"
	var mode, dir string
	var paths []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-":
		case arg == "-C" && i+1 < len(args):
			i++
			dir = args[i]
		case strings.HasPrefix(arg, "--"): // owners and permissions are not kept in any case
		case mode == "":
			mode = strings.TrimPrefix(arg, "-")
		default:
			paths = append(paths, arg)
		}
	}
	switch {
	case strings.Contains(mode, "c") && len(paths) > 0:
		return pack(s.out, dir, paths)
	case strings.Contains(mode, "x"):
		return unpack(s.in, dir)
	}
	return errors.New("usage: demo " + usage)
}

func pack(out io.Writer, dir string, paths []string) error {
	w := tar.NewWriter(out)
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(dir, path), func(file string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return add(w, dir, file, entry)
		})
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// add writes a file, directory or link into an archive, by its name in dir; what is none of them is left out.
func add(w *tar.Writer, dir, file string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	link := ""
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	default:
		return nil
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	if dir != "" {
		if file, err = filepath.Rel(dir, file); err != nil {
			return err
		}
	}
	header.Name = strings.TrimPrefix(filepath.ToSlash(file), "/")
	if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, header.Size)
	return err
}

func unpack(in io.Reader, dir string) error {
	if dir == "" {
		dir = "."
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := put(root, header, r); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// put makes one entry of an archive.
func put(root *os.Root, header *tar.Header, from io.Reader) error {
	name := filepath.Clean(strings.TrimPrefix(header.Name, "/"))
	if header.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, header.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, from)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	}
	return nil
}
