package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/panics"
	"vigil/kubelet/cgroups"
	"vigil/kubelet/machine"
)

// Runtime is what is asked of the Container Runtime Interface.
type Runtime interface {
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest, ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error)
}

// Images is what is asked of the CRI's image service.
type Images interface {
	ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error)
}

// Groups are the pods' cgroups, those of *cgroups.Tree.
type Groups interface {
	Path(pod *corev1.Pod) string
	PodsPath() string
	Usage(group string) (cgroups.Usage, error)
	Processes(group string) ([]int, error)
}

// Config says what is measured. Node, Pods, Runtime, Images, Groups and RootDir are required.
type Config struct {
	Node    string
	Pods    func() []*corev1.Pod // the pods of this node; not changed
	Runtime Runtime
	Images  Images
	Groups  Groups
	RootDir string // --root-dir, whose file system is the node's
	LogDir  string // --pod-log-dir; "": /var/log/pods

	Volumes func(ctx context.Context, pod types.UID) []Volume // measures the volumes of a pod that it can; nil: they are left out

	Period     time.Duration // between rounds; 0: 10 s
	DiskPeriod time.Duration // between rounds of counting what is on disk; 0: 1 min
	Logger     *slog.Logger
}

// Provider measures. Methods may be called from many goroutines.
type Provider struct {
	config  Config
	started time.Time
	rates   *rates
	counts  chan struct{} // holds one token when there is a pod whose disk is not counted yet

	round    sync.Mutex     // held during a round, so that nobody measures what another one is measuring
	counters sync.WaitGroup // goroutines that count what is on disk

	mu       sync.Mutex // may be taken while round is held
	last     *sample
	disks    map[types.UID]*podDisk
	counting map[types.UID]*diskCount // pods that are being counted
	files    *fileSystems
}

// New makes a provider. It measures when it is asked, and by itself while Run runs.
func New(config Config) *Provider {
	config.Period = cmp.Or(config.Period, 10*time.Second)
	config.DiskPeriod = cmp.Or(config.DiskPeriod, time.Minute)
	config.LogDir = cmp.Or(config.LogDir, "/var/log/pods")
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Provider{config: config, started: time.Now(), rates: newRates(config.Period / 2), counts: make(chan struct{}, 1), disks: map[types.UID]*podDisk{}, counting: map[types.UID]*diskCount{}}
}

// Run measures every period until ctx ends: whoever asks finds rates of the last seconds.
func (p *Provider) Run(ctx context.Context) error {
	var disks sync.WaitGroup
	disks.Go(func() {
		p.every(ctx, p.config.DiskPeriod, p.CountDisks, p.counts, p.countNewDisks)
	})
	p.every(ctx, p.config.Period, func(ctx context.Context) error {
		_, err := p.sample(ctx, p.config.Period/2)
		return err
	}, nil, nil)
	disks.Wait()
	p.counters.Wait()
	return ctx.Err()
}

// every does work at once and every period, and woken when it is woken.
func (p *Provider) every(ctx context.Context, period time.Duration, work func(context.Context) error, wake <-chan struct{}, woken func(context.Context) error) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for next := work; ; {
		if err := panics.Try(p.config.Logger, panics.Node, func() error { return next(ctx) }, "node", p.config.Node); err != nil && ctx.Err() == nil {
			p.config.Logger.Warn("the kubelet could not measure its node; statistics are older than they should be", "node", p.config.Node, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			next = work
		case <-wake:
			next = woken
		}
	}
}

// sample returns figures that are at most so old.
func (p *Provider) sample(ctx context.Context, age time.Duration) (*sample, error) {
	fresh := func() *sample {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last != nil && time.Since(p.last.time) <= age {
			return p.last
		}
		return nil
	}
	if s := fresh(); s != nil {
		return s, nil
	}
	p.round.Lock()
	defer p.round.Unlock()
	if s := fresh(); s != nil {
		return s, nil
	}
	s, err := p.measure(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.last = s
	p.mu.Unlock()
	return s, nil
}

// measure does a round.
func (p *Provider) measure(ctx context.Context) (*sample, error) {
	s := &sample{time: time.Now()}
	var err error
	if s.node, err = p.usage("/"); err != nil {
		return nil, fmt.Errorf("measure the node: %w", err)
	}
	if s.allPods, err = p.usage(p.config.Groups.PodsPath()); err != nil && !errors.Is(err, cgroups.ErrGone) {
		return nil, fmt.Errorf("measure all pods: %w", err)
	}
	if root, err := machine.Stat(p.config.RootDir); err == nil {
		s.root = &root
	}
	p.mu.Lock()
	files := p.files
	p.mu.Unlock()
	s.files = files.refreshed()
	if maximum, threads, err := machine.Pids(); err == nil {
		s.maxPID, s.threads = maximum, threads
	}
	s.network = readNetwork("/proc/self/net/dev")
	s.self = p.ownUsage()
	if s.pods, err = p.measurePods(ctx); err != nil {
		return nil, err
	}
	p.rates.forget()
	return s, nil
}

// usage reads what a group uses and how fast.
func (p *Provider) usage(group string) (measured, error) {
	u, err := p.config.Groups.Usage(group)
	m := measured{Usage: u, group: group}
	if err == nil && u.HasCPU {
		m.nanoCore = p.rates.observe(group, u.Time, u.CPU)
	}
	return m, err
}
