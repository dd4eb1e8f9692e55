// Command pause is the process of a pod's sandbox: it holds the namespaces that the pod's containers share, and is the
// parent of those who have lost theirs when the pod shares its process namespace.
//
// It reaps zombies and ends on SIGTERM and SIGINT. Every pod has one, so it avoids what makes a Go program large: no fmt, no garbage
// collections, one processor.
package main

import (
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

func main() {
	debug.SetGCPercent(-1) // what is allocated here is allocated once
	runtime.GOMAXPROCS(1)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	reap() // children that ended before signals were asked for
	pause(signals)
}

// pause reaps for each SIGCHLD, and returns at any other signal.
func pause(signals <-chan os.Signal) {
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap waits for every child that has ended. Signals coalesce: one SIGCHLD may stand for many children.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
