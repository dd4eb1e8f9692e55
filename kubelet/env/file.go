package env

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fileLimit is how much of a file of variables is read, in bytes.
const fileLimit = 1 << 20

// fileKey reads a variable from a file that an init container has left in a volume (KEP-3721). Links out of the volume are not
// followed.
func (b *builder) fileKey(ref *corev1.FileKeySelector) (value string, set bool, err error) {
	emptyDir := func(v corev1.Volume) bool { return v.Name == ref.VolumeName && v.EmptyDir != nil }
	if b.maker.RootDir == "" || !slices.ContainsFunc(b.pod.Spec.Volumes, emptyDir) {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	directory := filepath.Join(b.maker.RootDir, "pods", string(b.pod.UID), "volumes", "kubernetes.io~empty-dir", ref.VolumeName)
	optional := isTrue(ref.Optional)
	file, err := openIn(directory, ref.Path)
	if err != nil {
		return "", false, errors.New("couldn't parse env file")
	}
	defer func() { _ = file.Close() }()
	value, err = ParseFile(io.LimitReader(file, fileLimit), ref.Key)
	switch {
	case err != nil:
		return "", false, errors.New("couldn't parse env file")
	case value == "" && !optional:
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, filepath.Join(directory, ref.Path))
	}
	return value, value != "", nil
}

func openIn(directory, path string) (*os.File, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.Open(path)
}

// ParseFile finds a variable in a file of lines NAME='value' and returns "" when it is not there. Values stand in single quotes, may go
// over several lines and are taken literally; blank lines and what follows a # outside of quotes are ignored; white space after the = makes
// the value empty, as shells do. Whatever else there is in the lines up to the variable is an error that names the line.
func ParseFile(r io.Reader, key string) (string, error) {
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("error reading environment variable file: %w", err)
		}
		last := err != nil
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line != "" && line[0] != '#' {
			name, value, more, err := parseLine(in, line, number)
			if err != nil {
				return "", err
			}
			if name == key {
				return value, nil
			}
			number += more
		}
		if last {
			return "", nil
		}
	}
}

// parseLine reads NAME='value'. more counts the further lines that the value took.
func parseLine(in *bufio.Reader, line string, number int) (name, value string, more int, err error) {
	invalid := func(what string) error {
		return fmt.Errorf("invalid environment variable format at line %d: %s", number+more, what)
	}
	name, rest, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", 0, invalid("missing '='")
	case strings.TrimRight(name, " \t") == "":
		return "", "", 0, invalid("empty variable name")
	case strings.ContainsAny(name, " \t"):
		return "", "", 0, invalid("whitespace before '=' is not allowed")
	case strings.HasPrefix(rest, " "), strings.HasPrefix(rest, "\t"):
		return name, "", 0, nil
	case !strings.HasPrefix(rest, "'"):
		return "", "", 0, invalid("value must be enclosed in single quotes")
	}
	rest = rest[1:]
	for !strings.Contains(rest, "'") {
		next, err := in.ReadString('\n')
		if next == "" && err != nil {
			return "", "", 0, fmt.Errorf("invalid environment variable format starting at line %d: unclosed single quote", number)
		}
		rest += "\n" + strings.TrimRight(next, "\r\n")
		more++
	}
	value, rest, _ = strings.Cut(rest, "'")
	if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
		return "", "", 0, invalid("unexpected content after closing quote")
	}
	return name, value, more, nil
}
