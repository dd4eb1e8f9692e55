package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a process that is not confused with a later one of its number.
type process struct {
	pid   int
	start string // in ticks since the machine was started; "" where that cannot be known
}

// newProcess is a process that runs.
func newProcess(pid int) process { return process{pid, startTime(pid)} }

// readProcess reads what process.write has written. No file is no process.
func readProcess(file string) (process, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return process{}, false
	}
	id, start, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	pid, err := strconv.Atoi(id)
	return process{pid, start}, err == nil && pid > 1
}

func (p process) write(file string) error {
	return os.WriteFile(file, []byte(strconv.Itoa(p.pid)+" "+p.start+"\n"), 0o644)
}

func (p process) alive() bool {
	if err := syscall.Kill(p.pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	return p.start != "" && startTime(p.pid) == p.start
}

// end asks the process to end, kills it after grace, and returns when it has ended. It is no child of ours.
func (p process) end(ctx context.Context, grace time.Duration) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline, signal, sent := time.Now().Add(grace), syscall.SIGTERM, false
	for p.alive() {
		if time.Now().After(deadline) && signal != syscall.SIGKILL {
			signal, sent = syscall.SIGKILL, false
		}
		if !sent {
			if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end process %d: %w", p.pid, err)
			}
			sent = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end process %d: %w", p.pid, context.Cause(ctx))
		case <-ticker.C:
		}
	}
	return nil
}

// startTime is field 22 of /proc/PID/stat (proc_pid_stat(5)); "" for what does not run, zombies included. The first thread of a process that
// was killed may be a zombie while others still end: until then the process has its files, and the locks on them.
func startTime(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before it may contain blanks
	fields := strings.Fields(rest)
	const state, threads, start = 0, 17, 19 // fields 3, 20 and 22
	if len(fields) <= start || fields[state] == "Z" && (fields[threads] == "0" || fields[threads] == "1") {
		return ""
	}
	return fields[start]
}
