package nstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// forwarded are the signals that reach the tests: Ctrl-C, the end, and SIGQUIT, with which `go test` asks for stacks.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP}

// unavailable says why namespaces cannot be made; "" when they probably can.
func unavailable() string {
	if os.Geteuid() != 0 {
		return "needs root, to make namespaces, links, packet rules and mounts"
	}
	return ""
}

// runOuter runs this program again as process 1 of new namespaces and returns its exit code. An error means that nothing was run.
func runOuter() (int, error) {
	// The death signal below comes when the starting thread ends, so it must be one that stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	removeStaleCgroups()
	root := ownCgroupRoot()
	defer removeCgroups(root)
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.Command(self)
	child.Args = os.Args
	child.Env = append(os.Environ(), roleVariable+"="+roleInit, cgroupVariable+"="+root)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // the terminal's signals arrive here alone, and are forwarded once
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return 0, errors.New("this root may not make namespaces")
		}
		return 0, fmt.Errorf("cannot make namespaces: %w", err)
	}
	return waitForwarding(child, signals), nil
}

// waitForwarding waits for a process, passes signals on to it and returns its exit code as a shell would.
func waitForwarding(child *exec.Cmd, signals <-chan os.Signal) int {
	ended := make(chan struct{})
	forwarding := make(chan struct{})
	go func() {
		defer close(forwarding)
		for {
			select {
			case s := <-signals:
				_ = child.Process.Signal(s) // it may just have ended
			case <-ended:
				return
			}
		}
	}()
	err := child.Wait()
	close(ended)
	<-forwarding
	if child.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "nstest: wait for the tests:", err)
		return 1
	}
	status := child.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		fmt.Fprintln(os.Stderr, "nstest: the tests were ended by", status.Signal())
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
