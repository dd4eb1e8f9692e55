package cgroups

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Usage is what a group, all below it included, uses at a time. A number that the machine does not tell is 0; its Has field says so
// where 0 means something.
type Usage struct {
	Time time.Time

	CPU                         time.Duration // since the group was made
	Throttled                   time.Duration
	Periods, ThrottledPeriods   uint64
	Memory                      uint64 // bytes, page cache included
	WorkingSet                  uint64 // Memory without what can be dropped at once: inactive page cache
	RSS                         uint64 // anonymous memory
	Cache, MappedFile, Swap     uint64
	PageFaults, MajorPageFaults uint64
	MemoryLimit                 uint64 // 0: none
	Pids                        uint64
	HasCPU, HasMemory, HasPids  bool
}

// ErrGone says that a group is not there, or no more.
var ErrGone = errors.New("no such cgroup")

// Usage reads what a group uses. group is a path as Path gives it; "/" is the whole machine.
func (t *Tree) Usage(group string) (Usage, error) {
	u := Usage{Time: time.Now()}
	read := t.usageV1
	if t.v2 {
		read = t.usageV2
	}
	if err := read(group, &u); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) { // ENODEV: it went while it was read
			return Usage{}, fmt.Errorf("%w: %s", ErrGone, group)
		}
		return Usage{}, fmt.Errorf("read usage of group %s: %w", group, err)
	}
	return u, nil
}

// unlimitedV1 is what memory.limit_in_bytes shows without a limit, on pages of 4 KiB to 64 KiB.
const unlimitedV1 = 1 << 62

func (t *Tree) usageV1(group string, u *Usage) (err error) {
	if dir, ok := t.controller["cpuacct"]; ok {
		var nanos uint64
		if nanos, err = readNumber(dir+group, "cpuacct.usage"); err != nil {
			return err
		}
		u.CPU, u.HasCPU = time.Duration(nanos), true
	}
	if dir, ok := t.controller["cpu"]; ok {
		err = readPairs(dir+group, "cpu.stat", func(key []byte, value uint64) {
			switch string(key) {
			case "nr_periods":
				u.Periods = value
			case "nr_throttled":
				u.ThrottledPeriods = value
			case "throttled_time":
				u.Throttled = time.Duration(value)
			}
		})
		if err != nil {
			return err
		}
	}
	if dir, ok := t.controller["memory"]; ok {
		if u.Memory, err = readNumber(dir+group, "memory.usage_in_bytes"); err != nil {
			return err
		}
		inactive := uint64(0)
		err = readPairs(dir+group, "memory.stat", func(key []byte, value uint64) {
			switch string(key) {
			case "total_inactive_file":
				inactive = value
			case "total_rss":
				u.RSS = value
			case "total_cache":
				u.Cache = value
			case "total_mapped_file":
				u.MappedFile = value
			case "total_swap":
				u.Swap = value
			case "total_pgfault":
				u.PageFaults = value
			case "total_pgmajfault":
				u.MajorPageFaults = value
			}
		})
		if err != nil {
			return err
		}
		u.WorkingSet, u.HasMemory = u.Memory-min(u.Memory, inactive), true
		if limit, err := readNumber(dir+group, "memory.limit_in_bytes"); err == nil && limit < unlimitedV1 {
			u.MemoryLimit = limit
		}
	}
	return t.readPids(group, u)
}

func (t *Tree) usageV2(group string, u *Usage) (err error) {
	dir := filepath.Join(t.controller["memory"], group)
	err = readPairs(dir, "cpu.stat", func(key []byte, value uint64) {
		switch string(key) {
		case "usage_usec":
			u.CPU, u.HasCPU = time.Duration(value)*time.Microsecond, true
		case "nr_periods":
			u.Periods = value
		case "nr_throttled":
			u.ThrottledPeriods = value
		case "throttled_usec":
			u.Throttled = time.Duration(value) * time.Microsecond
		}
	})
	if err != nil {
		return err
	}
	inactive := uint64(0)
	err = readPairs(dir, "memory.stat", func(key []byte, value uint64) {
		switch string(key) {
		case "inactive_file":
			inactive = value
		case "anon":
			u.RSS = value
		case "file":
			u.Cache = value
		case "file_mapped":
			u.MappedFile = value
		case "pgfault":
			u.PageFaults = value
		case "pgmajfault":
			u.MajorPageFaults = value
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.Memory, err = readNumber(dir, "memory.current")
	if errors.Is(err, fs.ErrNotExist) && group == "/" {
		u.Memory, err = machineMemory() // the root of v2 does not tell
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.HasMemory = err == nil
	u.WorkingSet = u.Memory - min(u.Memory, inactive)
	if limit, err := readNumber(dir, "memory.max"); err == nil {
		u.MemoryLimit = limit
	}
	if swap, err := readNumber(dir, "memory.swap.current"); err == nil {
		u.Swap = swap
	}
	return t.readPids(group, u)
}

func (t *Tree) readPids(group string, u *Usage) error {
	dir, ok := t.controller["pids"]
	if !ok {
		return nil
	}
	pids, err := readNumber(filepath.Join(dir, group), "pids.current")
	if errors.Is(err, fs.ErrNotExist) && group == "/" {
		return nil // not told of the whole machine
	}
	u.Pids, u.HasPids = pids, err == nil
	return err
}

// machineMemory is what is not free of the machine's memory.
func machineMemory() (used uint64, err error) {
	var total, free uint64
	err = readPairs("/proc", "meminfo", func(key []byte, value uint64) {
		switch string(key) {
		case "MemTotal:":
			total = value << 10
		case "MemFree:":
			free = value << 10
		}
	})
	return total - min(total, free), err
}

// readNumber reads a file with one number; "max" is 0.
func readNumber(dir, file string) (number uint64, err error) {
	failed := readFile(dir, file, func(content []byte) {
		if content = bytes.TrimSpace(content); string(content) != "max" {
			number, err = strconv.ParseUint(string(content), 10, 64)
		}
	})
	return number, errors.Join(failed, err)
}

// readPairs reads a file of lines with a name and a number. The name is good until pair returns.
func readPairs(dir, file string, pair func(key []byte, value uint64)) error {
	return readFile(dir, file, func(content []byte) {
		for line := range bytes.Lines(content) {
			key, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
			number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
			if value, err := strconv.ParseUint(string(number), 10, 64); err == nil {
				pair(key, value)
			}
		}
	})
}

// buffers are for reading files of groups, of which a round of measuring reads thousands.
var buffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// readFile shows what is in a file, at most 16 KiB of it, until use returns. It goes to the kernel directly: an os.File for each of
// thousands of small files costs as much as reading them.
func readFile(dir, file string, use func(content []byte)) error {
	path := dir + "/" + file
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd) //nolint:errcheck // nothing was written
	buffer := buffers.Get().(*[16 << 10]byte)
	defer buffers.Put(buffer)
	size := 0
	for size < len(buffer) {
		n, err := retry(func() (int, error) { return syscall.Read(fd, buffer[size:]) })
		if err != nil {
			return &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		size += n
	}
	use(buffer[:size])
	return nil
}

// retry calls until it is not interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// Processes lists the processes of a group, without those of groups below.
func (t *Tree) Processes(group string) ([]int, error) {
	found, err := words(filepath.Join(t.controller["memory"], group), "cgroup.procs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrGone, group)
	}
	if err != nil {
		return nil, fmt.Errorf("list processes of group %s: %w", group, err)
	}
	pids := make([]int, 0, len(found))
	for _, word := range found {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
