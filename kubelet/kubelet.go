package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/internal/panics"
	"vigil/kubelet/allocation"
	"vigil/kubelet/nodestatus"
	"vigil/kubelet/probe"
	"vigil/kubelet/prober"
)

// Kubelet runs the pods of one node.
type Kubelet struct {
	config  Config
	client  clients
	factory *informer.Factory
	pods    *informer.Informer
	status  *statusManager
	node    *nodestatus.Reporter

	allocations *allocation.Allocations
	prober      *prober.Prober // nil on nodes without real containers
	hooks       *probe.Client
	metrics     *metrics // nil: nobody looks

	recorder record.EventRecorder
	events   *events // the recorder; nil when one was given

	statics statics
	users   userNamespaces

	mu      sync.Mutex
	workers map[types.UID]*worker
	running group
	round   atomic.Int64 // when the last round of housekeeping began, in ns of Unix time; 0: there are none
}

// New makes a kubelet. It connects to nothing yet.
func New(config Config) (*Kubelet, error) {
	config = config.withDefaults()
	if config.NodeName == "" || config.Server == nil || config.Runtime == nil {
		return nil, errors.New("a kubelet needs a node name, an API server and a runtime")
	}
	k := &Kubelet{config: config, client: config.Client, recorder: config.Recorder, workers: map[types.UID]*worker{}}
	server, err := oneConnection(config.Server)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", config.NodeName, err)
	}
	if config.Client == nil {
		if k.client, err = newClients(server); err != nil {
			return nil, fmt.Errorf("make a client for node %s: %w", config.NodeName, err)
		}
	}
	k.running.workers = config.Workers
	factory, err := informer.NewFactory(server, informer.Config{Logger: config.Logger})
	if err != nil {
		return nil, fmt.Errorf("make informers for node %s: %w", config.NodeName, err)
	}
	k.factory = factory
	mine := informer.ResourceOf[*corev1.Pod]()
	mine.FieldSelector = "spec.nodeName=" + config.NodeName
	mine.DropManagedFields = true
	k.pods = factory.Informer(mine)
	if k.recorder == nil {
		k.events = &events{
			client: k.client.CoreV1(), source: corev1.EventSource{Component: "kubelet", Host: config.NodeName},
			logger: config.Logger, running: &k.running,
		}
		k.recorder = k.events
	}
	k.status = newStatusManager(k.client, config.Logger, &k.running)
	k.users.rootDir = config.RootDir
	k.statics.read = make(chan struct{})
	k.statics.mirrors = map[types.NamespacedName]*corev1.Pod{}
	k.allocations = allocation.Open(config.RootDir, config.Logger)
	k.hooks = probe.New(config.Version)
	if config.RootDir != "" {
		k.prober = k.makeProber()
		if config.Registerer != nil {
			if err := config.Registerer.Register(k.prober); err != nil {
				return nil, fmt.Errorf("register metrics of node %s: %w", config.NodeName, err)
			}
		}
	}
	if config.Registerer != nil {
		if k.metrics, err = newMetrics(config.Registerer); err != nil {
			return nil, fmt.Errorf("register metrics of node %s: %w", config.NodeName, err)
		}
	}
	k.node = nodestatus.New(k.nodeStatus())
	return k, nil
}

// Run runs the node until ctx ends. The containers run on; the workers have ended when it returns.
func (k *Kubelet) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer k.running.Wait()
	defer cancel()
	if k.events != nil {
		k.events.begin(ctx)
		defer k.events.end()
	}
	k.running.Go(func() { // the API server may come up later: what runs on this node does not wait for it
		if k.node.Register(ctx) != nil {
			return // ctx has ended
		}
		lease := nodestatus.NewLease(k.nodeStatus())
		k.running.every(ctx, k.guarded(func() time.Duration { return lease.Keep(ctx) }))
		k.running.every(ctx, k.guarded(func() time.Duration { return k.node.Look(ctx) }))
	})
	k.status.begin(ctx)
	k.pods.AddHandler(informer.Handler[*corev1.Pod]{
		OnAdd:    func(pod *corev1.Pod, initial bool) { k.add(ctx, pod, initial) },
		OnUpdate: func(_, pod *corev1.Pod) { k.add(ctx, pod, false) },
		OnDelete: func(pod *corev1.Pod, _ bool) { k.remove(pod) },
	}.EventHandler())
	k.followServices(ctx)
	if k.prober != nil {
		k.running.Go(func() { k.prober.Run(ctx) })
	}
	if volumes := k.config.Parts.Volumes; volumes != nil {
		k.running.Go(func() { k.retry(ctx, "volumes", func() error { return volumes.Run(ctx, k.lookAtVolumes) }) })
	}
	if k.config.StaticPodPath != "" {
		k.running.Go(func() { k.followManifests(ctx) })
	}
	k.running.Go(func() { _ = k.factory.Run(ctx) }) // it fails with ctx only
	k.running.Go(func() { k.housekeep(ctx) })
	k.retry(ctx, "runtime", func() error { return k.config.Runtime.Follow(ctx, k.look) })
	return ctx.Err()
}

// guarded is f for a caller that calls again after as long as f says; after a panic that is retryDelay.
func (k *Kubelet) guarded(f func() time.Duration) func() time.Duration {
	return func() (wait time.Duration) {
		wait = retryDelay
		panics.Do(k.config.Logger, panics.Node, func() { wait = f() }, "node", k.config.NodeName)
		return wait
	}
}

// retry calls what runs until ctx ends, again when it ends before.
func (k *Kubelet) retry(ctx context.Context, what string, run func() error) {
	for {
		err := panics.Try(k.config.Logger, panics.Node, run, "node", k.config.NodeName, "part", what)
		if ctx.Err() != nil {
			return
		}
		k.config.Logger.Warn("a part of the kubelet ended; it is started again", "part", what, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryDelay):
		}
	}
}
