package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// startPatience is how long containerd may take until it answers: it looks at all its containers first.
	startPatience = time.Minute
	// adoptPatience is how long one that runs already may take.
	adoptPatience = 20 * time.Second
	// stopPatience is how long containerd may take to end before it is killed.
	stopPatience = 10 * time.Second
	// A containerd that ends sooner than steady after its start is started again after a pause that doubles from minPause to maxPause.
	steady   = time.Minute
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

// Daemon is the containerd of a node.
type Daemon struct {
	config        Config
	log           *slog.Logger
	adoptPatience time.Duration
	stopPatience  time.Duration

	running atomic.Pointer[process] // what was started or adopted last, nil when that failed; written by Start, Stop and Run, one at a time
}

// New checks the configuration and that the programs are there. It starts nothing.
func New(config Config) (*Daemon, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	return &Daemon{config: config, log: config.Logger, adoptPatience: adoptPatience, stopPatience: stopPatience}, nil
}

// ErrNotRunning says that there is no containerd to talk to.
var ErrNotRunning = errors.New("no container runtime is running")

// Find gives the daemon that runs with this root directory, to ask it something. It fails with ErrNotRunning when there is none.
func Find(rootDir string) (*Daemon, error) {
	p, err := readProcess(Config{RootDir: rootDir}.processFile())
	if err != nil {
		return nil, fmt.Errorf("look for a running containerd: %w", err)
	}
	if p == nil || !p.alive() {
		return nil, fmt.Errorf("%w in %s", ErrNotRunning, rootDir)
	}
	d, err := New(Config{BinDir: p.BinDir, RootDir: rootDir, StateDir: p.StateDir})
	if err != nil {
		return nil, err
	}
	d.running.Store(p)
	conn, err := net.Dial("unix", d.config.socket())
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("no permission to talk to the container runtime in %s: be root", rootDir)
	}
	if err != nil {
		return nil, fmt.Errorf("talk to the container runtime in %s: %w", rootDir, err)
	}
	return d, conn.Close()
}

// Endpoint is the address of the Container Runtime Interface: "unix:///run/...".
func (d *Daemon) Endpoint() string { return "unix://" + d.config.socket() }

// CNIConfDir is where the configuration of the network is expected.
func (d *Daemon) CNIConfDir() string { return d.config.CNIConfDir }

// LogFile is where containerd's own log is.
func (d *Daemon) LogFile() string { return d.config.logFile() }

// Start has containerd running and answering when it returns nil: one that was started earlier, by another process too, if it runs
// as this one would and answers, otherwise a new one. Run must follow, so that it stays so.
func (d *Daemon) Start(ctx context.Context) error {
	adopted, err := d.start(ctx)
	if err != nil {
		return err
	}
	if adopted {
		patient, cancel := context.WithTimeout(ctx, d.adoptPatience)
		err := d.await(patient, d.running.Load())
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		d.log.Warn("the containerd that runs does not answer; the kubelet starts it again, containers run on", "pid", d.running.Load().PID, "error", err)
		if err := d.end(ctx, d.running.Load()); err != nil {
			return err
		}
		if _, err := d.start(ctx); err != nil {
			return err
		}
	}
	patient, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return d.await(patient, d.running.Load())
}

// start adopts or starts a process, without waiting until it answers.
func (d *Daemon) start(ctx context.Context) (adopted bool, err error) {
	wanted, err := d.prepare()
	if err != nil {
		return false, err
	}
	old, err := readProcess(d.config.processFile())
	if err != nil {
		return false, fmt.Errorf("look for a running containerd: %w", err)
	}
	if old != nil && old.alive() {
		if old.Identity == wanted.Identity {
			d.running.Store(old)
			d.log.Info("the kubelet adopted the containerd that runs", "pid", old.PID)
			return true, nil
		}
		d.log.Info("the programs or the configuration of containerd have changed; the kubelet starts it again, containers run on", "pid", old.PID)
		if err := d.end(ctx, old); err != nil {
			return false, err
		}
	}
	return false, d.launch(wanted)
}

// prepare writes the configuration and says what is to run, but for PID and Start.
func (d *Daemon) prepare() (*process, error) {
	c := d.config
	for _, dir := range []string{c.RootDir, c.StateDir, c.CNIConfDir, c.shimSocketDir()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("make the container runtime's directories: %w", err)
		}
	}
	if err := c.Registries.write(c.registryDir()); err != nil {
		return nil, err
	}
	m, err := c.machine()
	if err != nil {
		return nil, fmt.Errorf("look at the machine for the container runtime: %w", err)
	}
	toml, err := c.toml(m)
	if err != nil {
		return nil, err
	}
	if err := writeFile(c.configFile(), toml, 0o600); err != nil { // it may have credentials
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	identity, err := c.identity(toml)
	if err != nil {
		return nil, fmt.Errorf("look at the container runtime's programs: %w", err)
	}
	return &process{Identity: identity, BinDir: c.BinDir, StateDir: c.StateDir, Snapshotter: m.snapshotter}, nil
}

// launch starts a process and notes it.
func (d *Daemon) launch(p *process) error {
	log, err := openLog(d.config.logFile())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command := d.config.command(log)
	if err := command.Start(); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	p.PID, p.Start, p.Boot = command.Process.Pid, startTime(command.Process.Pid), bootID()
	_ = command.Process.Release() // process.wait does without it, so that an adopted process is no special case
	if err := p.write(d.config.processFile()); err != nil {
		return errors.Join(fmt.Errorf("note the process of containerd: %w", err), d.end(context.Background(), p))
	}
	d.running.Store(p)
	d.log.Info("the kubelet started containerd", "pid", p.PID)
	return nil
}

// Run keeps containerd running until ctx ends, and its log within its bound. It leaves containerd and all containers
// running: Stop ends them.
func (d *Daemon) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.supervise(ctx) })
	g.Go(func() error { return boundLog(ctx, d.config.logFile(), d.config.LogSize, d.log) })
	return g.Wait()
}

func (d *Daemon) supervise(ctx context.Context) error {
	pause := minPause
	for {
		began := time.Now()
		if p := d.running.Load(); p != nil {
			if err := p.wait(ctx); err != nil {
				return err
			}
			d.log.Warn("containerd ended; the kubelet starts it again: its log says why", "pid", p.PID, "log", d.config.logFile())
		}
		if time.Since(began) > steady {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
		if _, err := d.start(ctx); err != nil {
			d.running.Store(nil)
			d.log.Error("the kubelet cannot start containerd; it tries again", "error", err)
		}
	}
}

// Ready returns nil when containerd answers and says that containers can be run, whether or not there is a network yet. It waits
// until ctx ends, and then says what is wrong.
func (d *Daemon) Ready(ctx context.Context) error { return d.await(ctx, nil) }

// await is Ready, which fails as soon as process p has ended, unless it is nil.
func (d *Daemon) await(ctx context.Context, p *process) error {
	conn, err := d.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx, client)
		if err == nil {
			return nil
		}
		if p != nil && !p.alive() {
			return fmt.Errorf("containerd has ended; the last of its log, %s:\n%s", d.config.logFile(), d.lastWords())
		}
		if status.Code(err) == codes.Unimplemented { // it serves when all its plug-ins have started
			return fmt.Errorf("containerd runs without the Container Runtime Interface; the last of its log, %s:\n%s", d.config.logFile(), d.lastWords())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd is not ready (its log is %s): %w", d.config.logFile(), err)
		case <-tick.C:
		}
	}
}

func (d *Daemon) dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(d.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quickBackoff, MinConnectTimeout: time.Second}))
	if err != nil {
		return nil, fmt.Errorf("reach containerd: %w", err)
	}
	return conn, nil
}

// ready asks once.
func ready(ctx context.Context, client runtimeapi.RuntimeServiceClient) error {
	response, err := client.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	for _, condition := range response.Status.Conditions {
		if condition.Type == runtimeapi.RuntimeReady && !condition.Status {
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return nil
}

// lastWords are the last complaints in the log, or its last lines, for the error that says why there is no containerd.
func (d *Daemon) lastWords() string {
	content, err := os.ReadFile(d.config.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	complaints := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.Contains(line, "level=error") && !strings.Contains(line, "level=fatal") && !strings.Contains(line, "failed to load plugin")
	})
	if len(complaints) > 0 {
		lines = complaints
	}
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}

// end asks a process to end and kills it when it does not.
func (d *Daemon) end(ctx context.Context, p *process) error {
	if !p.alive() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil && p.alive() {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, d.stopPatience)
	defer cancel()
	if err := p.wait(patient); err == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && p.alive() {
		return err
	}
	return p.wait(ctx)
}
