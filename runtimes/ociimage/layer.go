package main

import (
	"archive/tar"
	"bytes"
	"time"
)

// commands are names in /bin that lead to the program, which does as it is called: an image without a shell can still be
// looked around in by `kubectl exec`.
var commands = []string{"cat", "echo", "env", "fetch", "hostname", "id", "ls", "sh", "sleep", "tar", "write"}

// layer is the image's one layer: an uncompressed tar with the program at its root.
func layer(name string, program []byte, furnish bool) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, content []byte) error {
		h.ModTime, h.Size, h.Format = time.Unix(0, 0), int64(len(content)), tar.FormatUSTAR
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	if err := add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, program); err != nil {
		return nil, err
	}
	if furnish {
		entries := []struct {
			header  tar.Header
			content string
		}{
			{tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, ""},
			{tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, ""},
			{tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, "root:x:0:\nnobody:x:65534:\n"},
			{tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644},
				"root:x:0:0:root:/:/bin/sh\ndemo:x:1000:1000:demo:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"},
			{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, ""},
		}
		for _, command := range commands {
			entries = append(entries, struct {
				header  tar.Header
				content string
			}{tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + command, Linkname: "/" + name, Mode: 0o777}, ""})
		}
		for _, e := range entries {
			if err := add(e.header, []byte(e.content)); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
