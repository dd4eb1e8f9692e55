package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
	"vigil/internal/panics"
)

const (
	// resync is how often the kernel is compared with what should be, without anything having changed that we know of.
	resync = 30 * time.Second
	// pause lets Nodes that change together be one round.
	pause = 100 * time.Millisecond
	retry = 2 * time.Second
)

// Network keeps a node's network. It implements kubelet.HostPorts.
type Network struct {
	config Config
	names  names
	nodes  *informer.Informer
	ports  *hostPorts
	wake   chan struct{} // one element: there is something to do
	inside func(do func() error) error

	// Only Run's goroutine has these.
	rules    rules // as last written
	reported corev1.ConditionStatus
	warned   string
	refused  []string // pod networks of other nodes that are not routed, as last logged
	missing  []string // nodes whose pods cannot be reached, as last logged

	mu    sync.Mutex
	peers map[string]peer
}

// New registers with the informers, so it must be called before they run or while they do. Host ports are known again as they were.
func New(config Config) (*Network, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Network{
		config: config, names: namesFor(config.Owner, config.NodeName),
		wake: make(chan struct{}, 1), peers: map[string]peer{},
		inside: func(do func() error) error { return do() },
	}
	if n.ports, err = newHostPorts(filepath.Join(config.StateDir, "hostports.json")); err != nil {
		return nil, err
	}
	resource := informer.ResourceOf[*corev1.Node]()
	resource.DropManagedFields = true
	if config.Mode == ModeNone { // a kubelet needs no further rights for that
		resource.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, config.NodeName).String()
	}
	n.nodes = config.Informers.Informer(resource)
	n.nodes.AddHandler(informer.Handler[*corev1.Node]{
		OnAdd:    func(node *corev1.Node, _ bool) { n.seen(node) },
		OnUpdate: func(_, node *corev1.Node) { n.seen(node) },
		OnDelete: func(node *corev1.Node, _ bool) { n.gone(node.Name) },
		OnError: func(o *informer.Object, err error) {
			config.Logger.Error("the kubelet cannot decode a node; packets for its pods go where they went before", "node", o.Name(), "error", err)
		},
	}.EventHandler())
	return n, nil
}

// seen remembers a Node. Most of their changes are heartbeats, and none of the network's business.
func (n *Network) seen(node *corev1.Node) {
	now := peerOf(node)
	n.mu.Lock()
	defer n.mu.Unlock()
	if was, known := n.peers[now.name]; known && was.equal(now) {
		return
	}
	n.peers[now.name] = now
	n.poke()
}

func (n *Network) gone(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.peers, name)
	n.poke()
}

func (n *Network) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run keeps the network until ctx ends. What it made stays: pods go on without it, and the next Run takes it over.
func (n *Network) Run(ctx context.Context) error {
	if err := n.nodes.WaitForSync(ctx); err != nil {
		return err
	}
	for {
		wait := resync
		if err := panics.Try(n.config.Logger, panics.Node, func() error { return n.round(ctx) }, "node", n.config.NodeName); err != nil && ctx.Err() == nil {
			wait = retry
			if text := err.Error(); text != n.warned { // not every two seconds
				n.config.Logger.Warn("the kubelet could not set up the node's pod network; it tries again", "node", n.config.NodeName, "error", err)
				n.warned = text
			}
		} else {
			n.warned = ""
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		case <-n.wake:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
	}
}

// round makes everything as it should be and says in the Node whether that worked. Until the node has a pod network there is
// nothing to do.
func (n *Network) round(ctx context.Context) error {
	n.mu.Lock()
	peers := slices.Collect(maps.Values(n.peers))
	self := n.peers[n.config.NodeName]
	n.mu.Unlock()
	if len(self.cidrs) == 0 {
		return nil
	}
	self.addresses = n.config.Addresses
	err := n.inside(func() error { return n.sync(self, peers) })
	return errors.Join(err, n.report(ctx, err))
}

// sync makes links, addresses, rules, routes and the CNI configuration as they should be, in this order: when the runtime sees the configuration
// everything is there for the first pod. It may be called any time, and when nothing is amiss it changes nothing.
func (n *Network) sync(self peer, peers []peer) error {
	here, err := look(self)
	if err != nil {
		return err
	}
	peers, refused := routable(self, peers, n.config.ClusterCIDRs, here.addresses())
	if !slices.Equal(refused, n.refused) {
		n.refused = refused
		n.config.Logger.Warn("nodes have pod networks outside of the cluster's, or those of others; no packets are sent there", "node", n.config.NodeName, "refused", refused)
	}
	todo := makePlan(n.config.Mode, self, peers, here)
	mtu := n.mtu(self, here)
	if err := ensureBridge(n.names, self, mtu); err != nil {
		return fmt.Errorf("bridge %s: %w", n.names.bridge, err)
	}
	if err := n.syncRules(self, peers); err != nil { // before the kernel stops dropping what pods send to 127.0.0.1
		return err
	}
	if err := ensureSysctls(n.names.bridge, self); err != nil {
		return err
	}
	if err := applyPlan(n.names, self, here, mtu, todo); err != nil {
		return err
	}
	if err := n.ports.sync(n.names); err != nil {
		return err
	}
	conf, err := cniConfig(n.names.bridge, mtu, self.cidrs, n.config.StateDir)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(n.config.CNIConfDir, confName), conf); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	if !slices.Equal(todo.missing, n.missing) {
		n.missing = todo.missing
		n.config.Logger.Warn("the pods of some nodes cannot be reached from this one", "node", n.config.NodeName, "unreachable", todo.missing, "mode", n.config.Mode)
	}
	return nil
}

// mtu is how large packets of pods may be. Where VXLAN may be needed one day there is room for its headers from the start, since pods that run do
// not learn of a change: 50 bytes over IPv4, 70 over IPv6.
func (n *Network) mtu(self peer, here local) int {
	switch {
	case n.config.MTU != 0:
		return n.config.MTU
	case n.config.Mode == ModeHostGW || n.config.Mode == ModeNone:
		return here.mtu
	case self.address(true).IsValid():
		return here.mtu - 50
	}
	return here.mtu - 70
}

// report writes the condition NetworkUnavailable of the own Node, in the words of upstream's route controller, when it has changed.
func (n *Network) report(ctx context.Context, failure error) error {
	condition := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: "RouteCreated", Message: "RouteController created a route",
	}
	if failure != nil {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "NoRouteCreated", "RouteController failed to create a route"
	}
	if condition.Status == n.reported {
		return nil
	}
	condition.LastHeartbeatTime = metav1.Now()
	condition.LastTransitionTime = condition.LastHeartbeatTime
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err != nil {
		return err
	}
	_, err = n.config.Client.CoreV1().Nodes().Patch(ctx, n.config.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("report the network of node %s: %w", n.config.NodeName, err)
	}
	n.reported = condition.Status
	return nil
}
