package machine

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ResourcePID is the number of processes, which can be kept for the system and is no resource of pods.
const ResourcePID corev1.ResourceName = "pid"

// DefaultMaxPods is how many pods a node runs if nothing else is said.
const DefaultMaxPods = 110

// Config says what cannot be seen. The names are those of upstream's flags.
type Config struct {
	RootDir     string // --root-dir: whose file system is the node's ephemeral storage
	MaxPods     int64  // --max-pods; 0: 110
	PodsPerCore int64  // --pods-per-core; 0: no bound

	root string // of /proc, /sys and /etc; "" but in tests
}

func (c Config) path(name string) string { return filepath.Join(cmp.Or(c.root, "/"), name) }

// Capacity is what the machine has: cpu, memory, ephemeral-storage, hugepages of each size, pods.
func Capacity(config Config) (corev1.ResourceList, error) {
	cpus, err := config.cpus()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	memory, err := config.meminfo("MemTotal:")
	if err != nil {
		return nil, fmt.Errorf("read the size of memory: %w", err)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(config.RootDir, &disk); err != nil {
		return nil, fmt.Errorf("read the size of the file system of %s: %w", config.RootDir, err)
	}
	pods := cmp.Or(config.MaxPods, DefaultMaxPods)
	if config.PodsPerCore > 0 {
		pods = min(pods, config.PodsPerCore*cpus)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(disk.Blocks)*int64(disk.Bsize), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
	}
	config.addHugepages(capacity)
	return capacity, nil
}

// cpus counts the CPUs that are online: "0-3,8".
func (c Config) cpus() (count int64, err error) {
	content, err := os.ReadFile(c.path("sys/devices/system/cpu/online"))
	if err != nil {
		return 0, err
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(content)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return 0, err
		}
		last, err := strconv.ParseInt(to, 10, 64)
		if err != nil {
			return 0, err
		}
		count += last - first + 1
	}
	return count, nil
}

// meminfo reads a line of /proc/meminfo, in bytes.
func (c Config) meminfo(name string) (int64, error) {
	content, err := os.ReadFile(c.path("proc/meminfo"))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(content) {
		if fields := strings.Fields(string(line)); len(fields) >= 2 && fields[0] == name {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", c.path("proc/meminfo"), name)
}

// addHugepages adds the pages that are set aside, by size. A kernel without them has none.
func (c Config) addHugepages(capacity corev1.ResourceList) {
	dirs, _ := filepath.Glob(c.path("sys/kernel/mm/hugepages/hugepages-*kB")) // the pattern is good
	for _, dir := range dirs {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "hugepages-"), "kB")
		kib, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			continue
		}
		pages, err := readNumber(filepath.Join(dir, "nr_hugepages"))
		if err != nil {
			continue
		}
		size := resource.NewQuantity(kib<<10, resource.BinarySI)
		capacity[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size.String())] = *resource.NewQuantity(pages*(kib<<10), resource.BinarySI)
	}
}

// Pids says how many processes and threads there may be and how many there are.
func Pids() (maximum, running int64, err error) { return Config{}.pids() }

func (c Config) pids() (maximum, running int64, err error) {
	if maximum, err = readNumber(c.path("proc/sys/kernel/pid_max")); err != nil {
		return 0, 0, err
	}
	if threads, err := readNumber(c.path("proc/sys/kernel/threads-max")); err == nil {
		maximum = min(maximum, threads)
	}
	content, err := os.ReadFile(c.path("proc/loadavg")) // "0.20 0.18 0.12 1/80 11206": running and existing ones
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(content))
	if len(fields) < 4 {
		return 0, 0, fmt.Errorf("/proc/loadavg says %q", content)
	}
	_, existing, _ := strings.Cut(fields[3], "/")
	running, err = strconv.ParseInt(existing, 10, 64)
	return maximum, running, err
}

func readNumber(file string) (int64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
}

// Memory is the size of the machine's memory in bytes.
func Memory() (uint64, error) {
	total, err := Config{}.meminfo("MemTotal:")
	return uint64(total), err
}
