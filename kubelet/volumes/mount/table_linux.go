package mount

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Point is a line of the kernel's table of mounts (proc_pid_mountinfo(5)).
type Point struct {
	Path   string // where it is mounted
	Root   string // which part of the file system is
	Device string // major:minor
	Type   string // tmpfs, ext4 ...
	Source string
	Shared bool
}

// Points are the mounts of this process's namespace, oldest first.
type Points []Point

// Table reads the kernel's table of mounts.
func Table() (Points, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	return parse(string(content))
}

func parse(content string) (Points, error) {
	var table Points
	for line := range strings.Lines(content) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, rest := strings.Split(before, " "), strings.Split(after, " ")
		if !ok || len(fields) < 6 || len(rest) < 2 {
			return nil, fmt.Errorf("read the table of mounts: malformed line %q", line)
		}
		p := Point{
			Device: fields[2], Root: unescape(fields[3]), Path: unescape(fields[4]),
			Type: rest[0], Source: unescape(rest[1]),
		}
		for _, tag := range fields[6:] {
			p.Shared = p.Shared || strings.HasPrefix(tag, "shared:")
		}
		table = append(table, p)
	}
	return table, nil
}

// unescape undoes the kernel's octal escapes of blanks, newlines and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Below returns the mounts at dir and below it, the last mounted first: the order in which they can be unmounted.
func (t Points) Below(dir string) Points {
	var below Points
	for i := len(t) - 1; i >= 0; i-- {
		if within(t[i].Path, dir) {
			below = append(below, t[i])
		}
	}
	return below
}

// Of returns the mount that a path is on; nil when there is none.
func (t Points) Of(path string) *Point {
	var best *Point
	for i := range t {
		if within(path, t[i].Path) && (best == nil || len(t[i].Path) >= len(best.Path)) {
			best = &t[i]
		}
	}
	return best
}

// within says that path is dir or below it. Both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// Below returns what is mounted at dir and below it now, the last mounted first.
func Below(dir string) (Points, error) {
	table, err := Table()
	if err != nil {
		return nil, err
	}
	return table.Below(dir), nil
}
