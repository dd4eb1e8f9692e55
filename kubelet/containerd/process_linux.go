package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSession takes a process out of ours: Ctrl-C does not reach it, and it lives on when we end.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// startTime of a process in ticks since boot; 0 when there is none, or only a zombie.
func startTime(pid int) uint64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is a name in parentheses, which may contain anything; the third is the state, the twenty-second the time.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return 0
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return start
}

// bootID differs after every boot.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// alive says whether the process runs.
func (p *process) alive() bool {
	return p.Start != 0 && startTime(p.PID) == p.Start && p.Boot == bootID()
}

// signal sends to this very process, and nothing to another that has its PID now.
func (p *process) signal(s syscall.Signal) error {
	fd, err := p.open()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to containerd (process %d): %w", s, p.PID, err)
	}
	return nil
}

// open gives a descriptor of the process; it fails with ESRCH when it has ended.
func (p *process) open() (int, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1, fmt.Errorf("containerd (process %d): %w", p.PID, err)
	}
	if !p.alive() { // the descriptor may be of one that came later
		_ = unix.Close(fd)
		return -1, fmt.Errorf("containerd (process %d): %w", p.PID, unix.ESRCH)
	}
	return fd, nil
}

// wait returns nil when the process has ended, or the context's error. If it was our child the dead one is taken away.
func (p *process) wait(ctx context.Context) error {
	fd, err := p.open()
	if errors.Is(err, unix.ESRCH) {
		p.reap()
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	defer func() { _ = unix.Close(wake) }()
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(stopped)
	})
	defer func() {
		if !stop() {
			<-stopped
		}
	}()
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(polled, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for containerd: %w", err)
		}
		if polled[0].Revents != 0 {
			p.reap()
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// reap takes a dead child away; one that is not our child is its parent's business.
func (p *process) reap() { _, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil) }
