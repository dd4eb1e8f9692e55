package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"vigil/kubelet/network"
)

const (
	nodeGrace    = 30 * time.Second // for a kubelet to end
	nodePause    = time.Second      // before one that has ended is started again, doubled up to
	nodePauseMax = 30 * time.Second
)

// keep runs the process of a node until ctx ends.
func (f *furtherNodes) keep(ctx context.Context, i int, dir string) error {
	pause := nodePause
	for {
		if old, ok := readProcess(pidFile(dir)); ok { // of a run that was killed
			if err := old.end(ctx, nodeGrace); err != nil {
				return err
			}
		}
		begin := time.Now()
		err := f.once(ctx, i, dir)
		if ctx.Err() != nil {
			return nil
		}
		f.logger.Warn("the process of a node ended; it is started again", "node", f.names[i], "error", err, "directory", dir)
		if time.Since(begin) > nodePauseMax {
			pause = nodePause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, nodePauseMax)
	}
}

// once starts the process of a node in its network namespace and waits for it. It is told to end when ctx ends or this process does.
func (f *furtherNodes) once(ctx context.Context, i int, dir string) error {
	log, err := openNodeLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.CommandContext(ctx, f.program, "node", "--config", nodeFile(dir))
	command.Stdout, command.Stderr = log, log
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = nodeGrace
	// Ctrl-C is for us; we tell it. The death signal comes when the thread ends that has started it, so that one waits.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return network.InNamespace(f.namespaces[i], func() error {
		if err := command.Start(); err != nil {
			return fmt.Errorf("start node %s: %w", f.names[i], err)
		}
		writeErr := newProcess(command.Process.Pid).write(pidFile(dir))
		if err := command.Wait(); err != nil {
			return fmt.Errorf("node %s: %w", f.names[i], err)
		}
		return writeErr
	})
}
