package cgroups

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// hierarchy is one mounted tree of groups.
type hierarchy struct {
	dir         string
	unified     bool     // cgroup v2
	controllers []string // of v1, "name=systemd" included; those of v2 are read where they are needed
}

// mounted finds the hierarchies of this machine, each once.
func mounted() ([]hierarchy, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	defer file.Close()
	return parseMounts(file)
}

// parseMounts reads lines as "36 24 0:31 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct" (proc(5)).
func parseMounts(mountinfo io.Reader) (found []hierarchy, err error) {
	seen := map[string]bool{}
	scanner := bufio.NewScanner(mountinfo)
	for scanner.Scan() {
		mount, source, ok := strings.Cut(scanner.Text(), " - ")
		where, what := strings.Fields(mount), strings.Fields(source)
		if !ok || len(where) < 6 || len(what) < 3 || seen[where[2]] {
			continue
		}
		h := hierarchy{dir: unescape.Replace(where[4])}
		switch what[0] {
		case "cgroup2":
			h.unified = true
		case "cgroup":
			h.controllers = slices.DeleteFunc(strings.Split(what[2], ","), mountOption)
		default:
			continue
		}
		seen[where[2]] = true // the device: the same hierarchy elsewhere is the same groups
		found = append(found, h)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	if len(found) == 0 {
		return nil, errors.New("no cgroups are mounted")
	}
	return found, nil
}

// unescape reads the paths of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountOption tells the options of a v1 mount that are no controllers.
func mountOption(name string) bool {
	switch name {
	case "rw", "ro", "xattr", "clone_children", "cpuset_v2_mode", "noprefix", "favordynmods", "nofavordynmods":
		return true
	}
	return strings.HasPrefix(name, "release_agent=")
}
