package stats

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"vigil/kubelet/cgroups"
)

// rates turns counters of CPU time into CPU time per second. Two looks that are too close say little: the rate stays what it was until
// there is a window between them.
type rates struct {
	window time.Duration

	mu    sync.Mutex
	round int
	bases map[string]base
}

// base is the look that a rate is counted from, and the rate of the window before.
type base struct {
	time  time.Time
	round int // in which it was seen last
	cpu   time.Duration
	rate  *uint64 // ns per s
}

func newRates(window time.Duration) *rates {
	return &rates{window: max(window, time.Millisecond), bases: map[string]base{}}
}

// observe notes a counter and returns its rate; nil: seen for the first time, or for too short a time.
func (r *rates) observe(key string, now time.Time, cpu time.Duration) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[key]
	switch elapsed := now.Sub(b.time); {
	case !known || cpu < b.cpu: // a new group may have the name of an old one
		b = base{time: now, cpu: cpu}
	case elapsed >= r.window:
		rate := uint64(float64(cpu-b.cpu) / elapsed.Seconds())
		b = base{time: now, cpu: cpu, rate: &rate}
	}
	b.round = r.round
	r.bases[key] = b
	return b.rate
}

// forget drops what has not been seen since the last call.
func (r *rates) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, b := range r.bases {
		if b.round != r.round {
			delete(r.bases, key)
		}
	}
	r.round++
}

// selfKey is no path of a group.
const selfKey = "self"

// ownUsage is what this process uses. It has no cgroup of its own.
func (p *Provider) ownUsage() measured {
	m := measured{Usage: cgroups.Usage{Time: time.Now()}}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		m.CPU, m.HasCPU = time.Duration(usage.Utime.Nano()+usage.Stime.Nano()), true
		m.PageFaults, m.MajorPageFaults = uint64(usage.Minflt+usage.Majflt), uint64(usage.Majflt)
		m.nanoCore = p.rates.observe(selfKey, m.Time, m.CPU)
	}
	if content, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(content)); len(fields) > 1 {
			if pages, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				m.RSS, m.HasMemory = pages*uint64(os.Getpagesize()), true
				m.Memory, m.WorkingSet = m.RSS, m.RSS
			}
		}
	}
	return m
}
