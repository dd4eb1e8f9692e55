//go:build unix

package attacktest

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used, in the kernel included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
