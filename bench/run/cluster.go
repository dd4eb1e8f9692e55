package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// runCluster starts, for each step, a whole cluster of Vigil on an empty data directory and puts it through the life of a Deployment.
// Upstream has no such process, so it has no side in this.
func (e *environment) runCluster(ctx context.Context, s scenario, server string) error {
	if server != vigil {
		return nil
	}
	for _, st := range s.steps {
		fmt.Fprintf(os.Stderr, "\n== %s, %s (%s)\n", st.id, server, time.Since(e.begin).Round(time.Second))
		if err := e.liveCluster(ctx, s, st, server); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) liveCluster(ctx context.Context, s scenario, st step, server string) error {
	dir := filepath.Join(e.ram, "cluster")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	p, err := e.start("cluster", e.vigil, "up", "--runtime=simulated", "--nodes="+strconv.Itoa(s.data.nodes), "--data-dir="+dir,
		"--secure-port="+strconv.Itoa(e.port), "--etcd-port=0", "--controller-manager-port=0", "--scheduler-port=0")
	if err != nil {
		return err
	}
	defer func() { p.stop(30 * time.Second) }()
	kubeconfig := filepath.Join(dir, "admin.conf")
	for _, err := os.Stat(kubeconfig); err != nil; _, err = os.Stat(kubeconfig) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return fmt.Errorf("the cluster ended: %v (see out/log/cluster.log)", p.cmd.ProcessState)
		case <-time.After(10 * time.Millisecond):
		}
	}
	st.args += fmt.Sprintf(" --since %d", begin.UnixNano())
	return e.load(ctx, server, kubeconfig, s, st, p, nil, func() error { return fmt.Errorf("%s restarts nothing", s.name) })
}
