package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/internal/panics"
	"vigil/internal/protobufclient"
	"vigil/internal/slis"
	"vigil/kubelet"
	"vigil/kubelet/cgroups"
	"vigil/kubelet/configobjects"
	"vigil/kubelet/containerd"
	"vigil/kubelet/cri"
	"vigil/kubelet/csi"
	"vigil/kubelet/eviction"
	"vigil/kubelet/network"
	"vigil/kubelet/stats"
	"vigil/kubelet/volumes"
)

// Node is a node with real containers: a kubelet and all that it works with.
type Node struct {
	name     string
	given    Config
	config   Real // of given, completed
	rest     *rest.Config
	client   kubernetes.Interface
	log      *slog.Logger
	registry *prometheus.Registry
	// indicators count what the health checks of both ports find.
	indicators *slis.Metrics

	// The steps of New set these, each from those before.
	daemon      *containerd.Daemon // nil: somebody else's runtime
	endpoint    string             // of the runtime
	runtime     *cri.Runtime
	capacity    corev1.ResourceList
	allocatable corev1.ResourceList
	thresholds  []eviction.Threshold
	cgroups     *cgroups.Tree
	informers   *informer.Factory
	node        informer.Lister[*corev1.Node]
	network     *network.Network
	objects     *configobjects.Store
	csi         *csi.Plugin
	volumes     *volumes.Manager
	stats       *stats.Provider
	images      *cri.ImageGC
	eviction    *eviction.Manager
	kubelet     *kubelet.Kubelet

	events   record.EventBroadcaster
	recorder record.EventRecorder
	parts    []part // run beside the kubelet
}

// part is something that runs beside a kubelet for as long as it does.
type part struct {
	name string
	run  func(ctx context.Context) error
}

// New puts a node with real containers together, from the machine upwards. A container runtime that is the node's own runs when New returns, and
// goes on when New fails. server is how the kubelet reaches the API server. Run or Close ends the node.
func New(ctx context.Context, config Config, server *rest.Config) (*Node, error) {
	n := &Node{name: config.NodeName, given: config, rest: server, log: config.Logger, registry: prometheus.NewRegistry(), indicators: slis.New()}
	n.registry.MustRegister(panics.NewCollector())
	var err error
	if n.config, err = config.Real.withDefaults(config.NodeName); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	if !n.config.NodeIP.IsValid() {
		n.config.NodeIP = Address()
	}
	if n.client, err = kubernetes.NewForConfig(protobufclient.Config(n.rest)); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	n.events = record.NewBroadcaster()
	n.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	n.recorder = n.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: n.name})
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"check the machine", n.checkMachine},
		{"make directories", n.makeDirs},
		{"start the container runtime", n.startRuntime},
		{"check the container runtime", n.checkRuntime},
		{"measure the machine", n.measureMachine},
		{"make the pod network", n.makeNetwork},
		{"make volumes", n.makeVolumes},
		{"make statistics", n.makeStats},
		{"make evictions", n.makeEviction},
		{"make the kubelet", n.makeKubelet},
		{"make the kubelet's server", n.makeServer},
	} {
		if err := step.do(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: %s: %w", n.name, step.name, err), n.Close())
		}
	}
	return n, nil
}

// runReal runs a node with real containers until ctx ends.
func (c *Config) runReal(ctx context.Context, server *rest.Config) error {
	n, err := New(ctx, *c, server)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// Run runs the kubelet and its parts until ctx ends, and closes the node. The first that ends ends all. The containers run on.
func (n *Node) Run(ctx context.Context) error {
	defer n.Close()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range n.parts {
		group.Go(func() error {
			if err := p.run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("node %s: %s: %w", n.name, p.name, err)
			}
			return nil
		})
	}
	group.Go(func() error { return quiet(n.kubelet.Run(ctx)) })
	return quiet(group.Wait())
}

// Close lets go what New has opened. A node that runs is closed by Run.
func (n *Node) Close() error {
	defer n.events.Shutdown()
	if n.runtime == nil {
		return nil
	}
	return n.runtime.Close()
}

// Runtime is the node's container runtime.
func (n *Node) Runtime() *cri.Runtime { return n.runtime }

// Registry has the metrics of the node.
func (n *Node) Registry() *prometheus.Registry { return n.registry }
