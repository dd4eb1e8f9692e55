package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes the test binary a process that ends when its input does.
const roleVariable = "PAUSE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestPause(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pause(signals)
	}()
	var pids []int
	for range 3 {
		child := exec.Command(self)
		child.Env = append(os.Environ(), roleVariable+"=child")
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, child.Process.Pid)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A zombie takes signals; a process that has been reaped is gone.
	deadline := time.Now().Add(5 * time.Minute)
	for _, pid := range pids {
		for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d was not reaped", pid)
			}
			signals <- syscall.SIGCHLD
		}
	}
	signals <- syscall.SIGTERM
	<-ended
}
