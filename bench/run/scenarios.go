package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runScenario puts one server through one scenario and records what was measured.
func (e *environment) runScenario(ctx context.Context, s scenario, server string) error {
	if s.kind == kindInformer {
		return e.runInformers(ctx, s, server)
	}
	if s.kind == kindCluster {
		return e.runCluster(ctx, s, server)
	}
	data, err := e.freshData(ctx, s.data)
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	fmt.Fprintf(os.Stderr, "\n== %s, %s (%s)\n", s.name, server, time.Since(e.begin).Round(time.Second))
	etcd, err := e.startEtcd(ctx, data)
	if err != nil {
		return err
	}
	defer func() { etcd.stop(10 * time.Second) }()
	if s.kind == kindStartup {
		return e.measureStartup(ctx, s, server)
	}
	p, _, err := e.startServer(ctx, server)
	if err != nil {
		return err
	}
	defer func() { p.stop(5 * time.Second) }()
	for _, st := range s.steps {
		if st.long && e.quick {
			continue
		}
		restart := func() error { return fmt.Errorf("%s does not restart servers", s.name) }
		pidFile := filepath.Join(e.ram, "server.pid")
		if s.kind == kindResume {
			st.args += " --pid-file " + pidFile
			_ = os.Remove(pidFile)
			restart = func() error {
				p.kill() // a crash, not a farewell
				var err error
				if p, _, err = e.startServer(ctx, server); err != nil {
					return err
				}
				return os.WriteFile(pidFile, []byte(strconv.Itoa(p.pid())), 0o644)
			}
		}
		if err := e.load(ctx, server, e.pki("admin.kubeconfig"), s, st, p, etcd, restart); err != nil {
			return err
		}
	}
	return nil
}

// load runs the load generator as the user of a kubeconfig and records its results as those of a step. etcd is nil where it is in the
// server's process.
func (e *environment) load(ctx context.Context, server, kubeconfig string, s scenario, st step, p, etcd *process, restart func() error) error {
	args := append(strings.Fields(st.args), "--kubeconfig", kubeconfig, "--label", server, "--server-pid", strconv.Itoa(p.pid()))
	if etcd != nil {
		args = append(args, "--etcd-pid", strconv.Itoa(etcd.pid()))
	}
	if server == peer && s.name == "big" { // upstream builds whole lists: as many clients as it survives
		args = append(args, "--watchers", strconv.Itoa(e.sizes().bigPeer))
	}
	if !strings.Contains(st.args, "--nodes") && s.data.nodes > 0 {
		args = append(args, "--nodes", strconv.Itoa(s.data.nodes))
	}
	fmt.Fprintln(os.Stderr, "+ load", st.args)
	profiling := st.profile && e.profile > 0
	if profiling {
		args = append(args, "--mark")
	}
	profiled := make(chan error, 1)
	profiled <- nil
	cmd := exec.CommandContext(ctx, e.bin("load"), args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "restart" {
			if err := restart(); err != nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				return err
			}
			continue
		}
		if lines.Text() == "measuring" { // connections are open; the first phase is the one to see
			if profiling {
				profiling = false
				<-profiled
				go func() { profiled <- e.takeProfile(ctx, kubeconfig, server+"-"+st.id) }()
			}
			continue
		}
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("load %s: %w: %s", st.id, err, lines.Bytes())
		}
		r["server"], r["group"], r["step"] = server, s.name, st.id
		e.record(r)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("load %s: %w", st.id, err)
	}
	return <-profiled
}

// takeProfile writes out/NAME.pprof.
func (e *environment) takeProfile(ctx context.Context, kubeconfig, name string) error {
	file, err := os.Create(filepath.Join(e.out, name+".pprof"))
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, e.vigil, "kubectl", "--kubeconfig", kubeconfig, "get", "--raw", fmt.Sprintf("/debug/pprof/profile?seconds=%d", e.profile))
	cmd.Stdout, cmd.Stderr = file, os.Stderr
	return cmd.Run()
}

// measureStartup starts the server three times on the same data. Memory is read
// once it has settled: what a fresh server needs, before any load.
func (e *environment) measureStartup(ctx context.Context, s scenario, server string) error {
	for range e.sizes().starts {
		p, took, err := e.startServer(ctx, server)
		if err != nil {
			return err
		}
		settle := 5 * time.Second
		if e.quick {
			settle = 2 * time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(settle):
		}
		rss, peak := memoryOf(p.pid())
		p.stop(5 * time.Second)
		r := result{"scenario": "startup", "server": server, "group": s.name, "step": s.name, "pods": s.data.pods,
			"listening_ms": float64(took.listening.Microseconds()) / 1000, "ready_ms": float64(took.ready.Microseconds()) / 1000, "rss_mb": rss, "peak_mb": peak}
		fmt.Fprintf(os.Stderr, "# startup pods=%d ready_ms=%.0f rss_mb=%.0f peak_mb=%.0f\n", s.data.pods, r["ready_ms"], rss, peak)
		e.record(r)
	}
	return ctx.Err()
}

// memoryOf returns VmRSS and VmHWM in MB.
func memoryOf(pid int) (rss, peak float64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(string(f[1]), 64)
		switch string(f[0]) {
		case "VmRSS:":
			rss = kb / 1024
		case "VmHWM:":
			peak = kb / 1024
		}
	}
	return rss, peak
}
