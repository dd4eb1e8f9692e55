package cgroups

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// exists says whether a group is there in every hierarchy that it is made in.
func (t *Tree) exists(group string) bool {
	for _, h := range t.hierarchies {
		if _, err := os.Stat(filepath.Join(h.dir, group)); err != nil {
			return false
		}
	}
	return true
}

// create makes a group and those above it in every hierarchy.
func (t *Tree) create(group string) error {
	for _, h := range t.hierarchies {
		if err := t.createIn(h, group); err != nil {
			return fmt.Errorf("make group %s: %w", group, err)
		}
	}
	return nil
}

func (t *Tree) createIn(h hierarchy, group string) error {
	dir := h.dir
	for name := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		if h.unified && t.v2 {
			if err := t.delegate(dir); err != nil {
				return err
			}
		}
		parent := dir
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if slices.Contains(h.controllers, "cpuset") {
			if err := inheritCPUs(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegate lets groups below dir have the controllers that dir has.
func (t *Tree) delegate(dir string) error {
	has, err := words(dir, "cgroup.controllers")
	if err != nil {
		return err
	}
	gives, err := words(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	for _, name := range has {
		if slices.Contains(gives, name) {
			continue
		}
		if err := write(dir, "cgroup.subtree_control", "+"+name); err != nil {
			// Realtime processes keep cpu from being given, and others are nice to have: the limit that cannot be written says so.
			if errors.Is(err, syscall.EBUSY) && (name == "memory" || name == "pids") {
				return fmt.Errorf("%s cannot be limited below %s, since processes are in that group itself (cgroup v2 has them in leaves only): %w", name, dir, err)
			}
			if name == "memory" || name == "pids" {
				return err
			}
		}
	}
	return nil
}

// inheritCPUs fills in what a new group of the cpuset controller lacks: without it no process may enter.
func inheritCPUs(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(have)) != "" {
			continue
		}
		from, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		if err := write(dir, file, strings.TrimSpace(string(from))); err != nil {
			return err
		}
	}
	return nil
}

// apply writes limits. Those of a controller that the machine does not have are left out.
func (t *Tree) apply(group string, l Limits) error {
	write, pages := t.writeV1, "limit_in_bytes"
	if t.v2 {
		write, pages = t.writeV2, "max"
	}
	err := write(group, l)
	if l.Hugepages != nil {
		err = errors.Join(err, t.writeHugepages(group, pages, l.Hugepages))
	}
	if err != nil {
		return fmt.Errorf("limit group %s: %w", group, err)
	}
	return nil
}

func (t *Tree) writeV1(group string, l Limits) error {
	var errs []error
	set := func(controller, file string, value int64) {
		if dir, ok := t.controller[controller]; ok && value != 0 {
			errs = append(errs, write(filepath.Join(dir, group), file, strconv.FormatInt(value, 10)))
		}
	}
	set("cpu", "cpu.shares", l.CPUShares)
	if l.CPUQuota != 0 && t.hasFile("cpu", group, "cpu.cfs_quota_us") {
		set("cpu", "cpu.cfs_period_us", l.CPUPeriod)
		set("cpu", "cpu.cfs_quota_us", l.CPUQuota)
	}
	set("memory", "memory.limit_in_bytes", l.Memory)
	if dir, ok := t.controller["pids"]; ok && l.Pids != 0 {
		errs = append(errs, write(filepath.Join(dir, group), "pids.max", maximum(l.Pids)))
	}
	return errors.Join(errs...)
}

func (t *Tree) writeV2(group string, l Limits) error {
	var errs []error
	set := func(controller, file, value string) {
		if dir, ok := t.controller[controller]; ok {
			errs = append(errs, write(filepath.Join(dir, group), file, value))
		}
	}
	if l.CPUShares != 0 {
		set("cpu", "cpu.weight", strconv.FormatInt(Weight(l.CPUShares), 10))
	}
	if l.CPUQuota != 0 && t.hasFile("cpu", group, "cpu.max") {
		set("cpu", "cpu.max", maximum(l.CPUQuota)+" "+strconv.FormatInt(l.CPUPeriod, 10))
	}
	if l.Memory != 0 {
		set("memory", "memory.max", maximum(l.Memory))
	}
	if l.Pids != 0 {
		set("pids", "pids.max", maximum(l.Pids))
	}
	return errors.Join(errs...)
}

// hasFile tells kernels with bandwidth control from those without.
func (t *Tree) hasFile(controller, group, file string) bool {
	dir, ok := t.controller[controller]
	if !ok {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, group, file))
	return err == nil
}

func maximum(value int64) string {
	if value < 0 {
		return "max"
	}
	return strconv.FormatInt(value, 10)
}

// writeHugepages limits pages of every size that there is: of those nobody has asked for there are none.
func (t *Tree) writeHugepages(group, suffix string, limits map[string]int64) error {
	dir, ok := t.controller["hugetlb"]
	if !ok {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, group, "hugetlb.*."+suffix))
	if err != nil {
		return err
	}
	wanted := map[int64]int64{} // bytes by page size
	for name, limit := range limits {
		if size, ok := quantityOf(name); ok {
			wanted[size] = limit
		}
	}
	var errs []error
	for _, file := range files {
		name := filepath.Base(file)
		size, ok := pageSize(strings.TrimSuffix(strings.TrimPrefix(name, "hugetlb."), "."+suffix))
		if ok {
			errs = append(errs, write(filepath.Dir(file), name, strconv.FormatInt(wanted[size], 10)))
		}
	}
	return errors.Join(errs...)
}

// write writes a file of a group. The kernel may be interrupted while it makes room.
func write(dir, file, value string) error {
	name := filepath.Join(dir, file)
	for {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(value)
		f.Close()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write %q: %w", value, err)
		}
		return nil
	}
}

// wordsLimit is how much of a file of words is read, in bytes: of a list of processes some 100,000.
const wordsLimit = 1 << 20

// words reads a file of words. Of very many it returns the first.
func words(dir, file string) ([]string, error) {
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, wordsLimit))
	found := strings.Fields(string(content))
	if len(content) == wordsLimit {
		found = found[:len(found)-1]
	}
	return found, errors.Join(err, f.Close())
}
