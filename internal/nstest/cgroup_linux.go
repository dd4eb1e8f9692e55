package nstest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// cgroupVariable carries the name of the run's root cgroup to the tests.
	cgroupVariable = "VIGIL_NSTEST_CGROUP"
	cgroupPrefix   = "vigil-test-"
	cgroupMount    = "/sys/fs/cgroup"
)

// CgroupRoot is the cgroup, "/vigil-test-...", below which tests make theirs, in every hierarchy. It is removed after the last test with all
// that is in it; nobody has made it.
func CgroupRoot() string { return "/" + os.Getenv(cgroupVariable) }

// ownCgroupRoot names this process by its id and the time of its start, so that it cannot be confused with a later one.
func ownCgroupRoot() string {
	return fmt.Sprintf("%s%d-%s", cgroupPrefix, os.Getpid(), startTime(os.Getpid()))
}

// startTime is when a process was started, in ticks since the machine was; "" when there is none (proc(5), stat, field 22).
func startTime(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name in parentheses may contain blanks
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// removeStaleCgroups removes what runs left behind that were killed.
func removeStaleCgroups() {
	for _, hierarchy := range hierarchies() {
		entries, err := os.ReadDir(hierarchy)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			rest, ours := strings.CutPrefix(entry.Name(), cgroupPrefix)
			if !ours {
				continue
			}
			id, started, _ := strings.Cut(rest, "-")
			if pid, err := strconv.Atoi(id); err == nil && started != "" && startTime(pid) != started {
				removeTree(filepath.Join(hierarchy, entry.Name()))
			}
		}
	}
}

// removeCgroups removes a cgroup from every hierarchy.
func removeCgroups(name string) {
	for _, hierarchy := range hierarchies() {
		removeTree(filepath.Join(hierarchy, name))
	}
}

// hierarchies are the directories that are roots of cgroup hierarchies: the one of version 2, or those of version 1.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}
	}
	found, _ := filepath.Glob(filepath.Join(cgroupMount, "*"))
	return found
}

// removeTree kills what runs in a cgroup and those below it, and removes them from the leaves up.
func removeTree(root string) {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		for range 100 { // the dying take a moment
			if err := os.Remove(dirs[i]); err == nil || os.IsNotExist(err) {
				break
			}
			members, _ := os.ReadFile(filepath.Join(dirs[i], "cgroup.procs"))
			for _, member := range strings.Fields(string(members)) {
				if pid, err := strconv.Atoi(member); err == nil && pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
