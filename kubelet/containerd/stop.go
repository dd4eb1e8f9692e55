package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/untrusted"
)

// Stop ends every container and then containerd, and clears the state directory: no process, mount or network namespace is
// left. Images stay. It works on what is there, whoever has started it, and starts a containerd that has died, because only that knows
// how to take a pod's network down.
func (d *Daemon) Stop(ctx context.Context) error {
	p, err := readProcess(d.config.processFile())
	if err != nil {
		return fmt.Errorf("look for a running containerd: %w", err)
	}
	if p == nil {
		return d.clearState(ctx) // never started, or stopped before
	}
	var failed error
	if err := d.reach(ctx, p); err != nil {
		failed = err
	} else if err := d.removePods(ctx); err != nil {
		failed = err
	}
	if p := d.running.Load(); p != nil {
		if err := d.end(ctx, p); err != nil {
			return errors.Join(failed, err)
		}
		d.running.Store(nil)
	}
	// What could not be asked to go is taken away: the shims know no more than their containers.
	if err := d.clearState(ctx); err != nil {
		return errors.Join(failed, err)
	}
	if err := os.Remove(d.config.processFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(failed, err)
	}
	return failed
}

// reach has a containerd that answers: the one that runs, whatever its configuration, or a new one.
func (d *Daemon) reach(ctx context.Context, p *process) error {
	if !p.alive() {
		return d.Start(ctx)
	}
	d.running.Store(p)
	patient, cancel := context.WithTimeout(ctx, d.adoptPatience)
	defer cancel()
	if err := d.await(patient, p); err == nil || ctx.Err() != nil {
		return err
	}
	return d.Start(ctx)
}

// Reset stops everything and removes the root directory: images and containers are gone.
func (d *Daemon) Reset(ctx context.Context) error {
	if err := d.Stop(ctx); err != nil {
		return err
	}
	if err := untrusted.Remove(ctx, d.config.RootDir); err != nil {
		return fmt.Errorf("remove the container runtime's directory: %w", err)
	}
	return nil
}

// removePods stops and removes all sandboxes, with what is in them.
func (d *Daemon) removePods(ctx context.Context) error {
	conn, err := d.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	list, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	var failed errorList
	var g errgroup.Group
	g.SetLimit(8)
	for _, sandbox := range list.Items {
		g.Go(func() error {
			failed.add(removePod(ctx, client, sandbox.Id))
			return nil // the others go too
		})
	}
	_ = g.Wait()
	return failed.join()
}

// removePod stops and removes a sandbox. Containers that still run are killed at once; whoever wants them to have their time has
// stopped them before.
func removePod(ctx context.Context, client runtimeapi.RuntimeServiceClient, id string) error {
	if _, err := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	if _, err := client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// errorList collects errors of several goroutines.
type errorList struct {
	mu  sync.Mutex
	all []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, err)
}

func (l *errorList) join() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.all...)
}
