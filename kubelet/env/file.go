package env

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/untrusted"
)

// fileLimit is how large a file of variables may be, in bytes.
const fileLimit = 1 << 20

// fileKey reads a variable from a file that an init container has left in a volume (KEP-3721). Links out of the volume are not
// followed.
func (b *builder) fileKey(ref *corev1.FileKeySelector) (value string, set bool, err error) {
	emptyDir := func(v corev1.Volume) bool { return v.Name == ref.VolumeName && v.EmptyDir != nil }
	if b.maker.RootDir == "" || !slices.ContainsFunc(b.pod.Spec.Volumes, emptyDir) {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	directory := filepath.Join(b.maker.RootDir, "pods", string(b.pod.UID), "volumes", "kubernetes.io~empty-dir", ref.VolumeName)
	file := b.files[[2]string{directory, ref.Path}]
	if file == nil {
		if file, err = openFile(directory, ref.Path); err != nil {
			return "", false, errors.New("couldn't parse env file")
		}
		if b.files == nil {
			b.files = map[[2]string]*variables{}
		}
		b.files[[2]string{directory, ref.Path}] = file
	}
	value, err = file.find(ref.Key)
	switch {
	case err != nil:
		return "", false, errors.New("couldn't parse env file")
	case value == "" && !isTrue(ref.Optional):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, filepath.Join(directory, ref.Path))
	}
	return value, value != "", nil
}

func openFile(directory, path string) (*variables, error) {
	file, err := untrusted.OpenIn(directory, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := untrusted.ReadFrom(file, fileLimit)
	return newVariables(bytes.NewReader(content)), err
}

// ParseFile finds a variable in a file of lines NAME='value' and returns "" when it is not there. Values stand in single quotes, may go
// over several lines and are taken literally; blank lines and what follows a # outside of quotes are ignored; white space after the = makes
// the value empty, as shells do. Whatever else there is in the lines up to the variable is an error that names the line.
func ParseFile(r io.Reader, key string) (string, error) { return newVariables(r).find(key) }

// variables are those of a file. It is read as far as they were looked for, and once for all that are.
type variables struct {
	in     *bufio.Reader
	lines  int // read
	values map[string]string
	err    error // why nothing more is read; io.EOF at the end
}

func newVariables(r io.Reader) *variables {
	return &variables{in: bufio.NewReader(r), values: map[string]string{}}
}

// find returns the first value that a variable has in the file.
func (v *variables) find(key string) (string, error) {
	for {
		if value, ok := v.values[key]; ok {
			return value, nil
		}
		if errors.Is(v.err, io.EOF) {
			return "", nil
		}
		if v.err != nil {
			return "", v.err
		}
		v.read()
	}
}

// read reads the next line, and those that its value goes over.
func (v *variables) read() {
	line, err := v.in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		v.err = fmt.Errorf("error reading environment variable file: %w", err)
		return
	}
	v.lines++
	if line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t"); line != "" && line[0] != '#' {
		name, value, more, failed := parseLine(v.in, line, v.lines)
		if failed != nil {
			v.err = failed
			return
		}
		if _, known := v.values[name]; !known {
			v.values[name] = value
		}
		v.lines += more
	}
	v.err = err
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
	value, rest, closed := strings.Cut(rest[1:], "'")
	if !closed {
		var lines strings.Builder
		lines.WriteString(value)
		for !closed {
			next, err := in.ReadString('\n')
			if next == "" && err != nil {
				return "", "", 0, fmt.Errorf("invalid environment variable format starting at line %d: unclosed single quote", number)
			}
			var line string
			line, rest, closed = strings.Cut(strings.TrimRight(next, "\r\n"), "'")
			lines.WriteString("\n" + line)
			more++
		}
		value = lines.String()
	}
	if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
		return "", "", 0, invalid("unexpected content after closing quote")
	}
	return name, value, more, nil
}
