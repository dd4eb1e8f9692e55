// Package nodeipam gives every Node a network for its pods: a piece of the cluster's network for each address family, written into
// spec.podCIDRs when a Node has none, and never changed after.
//
// No piece is given out twice, over restarts too: before the first is, all Nodes are known with what they have; what is being written counts
// as given out until the Node shows it or is gone. Networks that Nodes bring along are respected, wherever they lie, and so are the
// networks of Services. When a Node is deleted its piece is free again, and is used last.
//
// Follows the range allocator of upstream's pkg/controller/nodeipam, with its events.
package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const workers = 8

// Config says what the controller works with. Client, Informers, Recorder and ClusterCIDRs are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics

	ClusterCIDRs []netip.Prefix // --cluster-cidr: one, or one of each family, the first family first
	ServiceCIDRs []netip.Prefix // --service-cluster-ip-range: not for pods, if they lie within
	MaskSizeIPv4 int            // --node-cidr-mask-size-ipv4; 0: 24
	MaskSizeIPv6 int            // --node-cidr-mask-size-ipv6; 0: 64
}

// Controller gives out pod networks.
type Controller struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	logger   *slog.Logger
	queue    *workqueue.Queue
	nodes    informer.Lister[*corev1.Node]

	mu      sync.Mutex
	pools   []*pool
	held    map[string][]netip.Prefix // by Node: what it has, or what is being written
	waiting map[string]struct{}       // Nodes for which nothing was free
}

// New registers the controller's handlers, so it must be called before the informers run. It fails when the networks make no sense.
func New(config Config) (*Controller, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if len(config.ClusterCIDRs) == 0 || len(config.ClusterCIDRs) > 2 {
		return nil, fmt.Errorf("--cluster-cidr: %d networks, want one or one of each family", len(config.ClusterCIDRs))
	}
	nodes := informer.ResourceOf[*corev1.Node]()
	nodes.DropManagedFields = true
	c := &Controller{
		client: config.Client, recorder: config.Recorder, logger: config.Logger,
		queue: workqueue.New(workqueue.Config{Name: "node_ipam_controller", Logger: config.Logger, Metrics: config.Metrics}),
		nodes: informer.ListerFor[*corev1.Node](config.Informers.Informer(nodes)),
		held:  map[string][]netip.Prefix{}, waiting: map[string]struct{}{},
	}
	for _, network := range config.ClusterCIDRs {
		bits := config.MaskSizeIPv6
		switch is4 := network.Addr().Is4(); {
		case is4 && config.MaskSizeIPv4 != 0:
			bits = config.MaskSizeIPv4
		case is4:
			bits = 24
		case bits == 0:
			bits = 64
		}
		p, err := newPool(network, bits)
		if err != nil {
			return nil, err
		}
		if len(c.pools) > 0 && c.pools[0].network.Addr().Is4() == network.Addr().Is4() {
			return nil, errors.New("--cluster-cidr: two networks of one family")
		}
		c.pools = append(c.pools, p)
	}
	c.count(config.ServiceCIDRs, (*pool).occupy)
	c.nodes.Informer().AddHandler(informer.Handler[*corev1.Node]{
		OnAdd:    func(n *corev1.Node, _ bool) { c.seen(n) },
		OnUpdate: func(_, n *corev1.Node) { c.seen(n) },
		OnDelete: func(n *corev1.Node, _ bool) { c.gone(n.Name) },
		OnError: func(o *informer.Object, err error) {
			c.logger.Error("the controller cannot decode a node; its pod networks stay as they are", "node", o.Name(), "error", err)
		},
	}.EventHandler())
	return c, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.nodes.Informer().WaitForSync(ctx); err != nil { // and with it the handler: all that is in use is known
		return err
	}
	return c.queue.Run(ctx, workers, c.reconcile)
}

// seen takes down what a Node has, or sees to it that it gets something.
func (c *Controller) seen(node *corev1.Node) {
	has := networksOf(node)
	if len(has) == 0 {
		c.queue.Add(types.NamespacedName{Name: node.Name})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, node.Name)
	if was := c.held[node.Name]; !slices.Equal(was, has) {
		c.count(has, (*pool).occupy)
		c.held[node.Name] = has
		c.freeLocked(was)
	}
}

// gone gives back what a Node had.
func (c *Controller) gone(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, name)
	was := c.held[name]
	delete(c.held, name)
	c.freeLocked(was)
}

// freeLocked gives networks back, perhaps to those who wait.
func (c *Controller) freeLocked(networks []netip.Prefix) {
	if len(networks) == 0 {
		return
	}
	c.count(networks, (*pool).release)
	for _, name := range slices.Sorted(maps.Keys(c.waiting)) {
		c.queue.Add(types.NamespacedName{Name: name})
	}
	clear(c.waiting)
}

func (c *Controller) count(networks []netip.Prefix, change func(*pool, netip.Prefix)) {
	for _, network := range networks {
		for _, p := range c.pools {
			change(p, network)
		}
	}
}

// reserve says what a Node is to get: what it was to get before, or a piece of each network. False when one has none left.
func (c *Controller) reserve(name string) ([]netip.Prefix, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reserved := c.held[name]; len(reserved) > 0 {
		return reserved, true
	}
	var pieces []netip.Prefix
	for _, p := range c.pools {
		piece, ok := p.allocate()
		if !ok {
			c.count(pieces, (*pool).release)
			c.waiting[name] = struct{}{}
			return nil, false
		}
		pieces = append(pieces, piece)
	}
	c.held[name] = pieces
	return pieces, true
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	node, err := c.nodes.Get("", key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(networksOf(node)) > 0 {
		return 0, nil
	}
	pieces, ok := c.reserve(node.Name)
	if !ok { // there will be another try when something is given back
		c.tell(node, "CIDRNotAvailable")
		return 0, nil
	}
	err = c.write(ctx, node, pieces)
	if apierrors.IsNotFound(err) {
		c.gone(node.Name)
		return 0, nil
	}
	if err != nil && ctx.Err() == nil {
		c.tell(node, "CIDRAssignmentFailed")
	}
	return 0, err
}

// tell makes an event about a Node, in upstream's words.
func (c *Controller) tell(node *corev1.Node, reason string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	c.recorder.Eventf(about, corev1.EventTypeNormal, reason, "Node %s status is now: %s", node.Name, reason)
}

// write puts networks into the Node that was seen, not into another of its name.
func (c *Controller) write(ctx context.Context, node *corev1.Node, pieces []netip.Prefix) error {
	texts := make([]string, len(pieces))
	for i, piece := range pieces {
		texts[i] = piece.String()
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"spec":     map[string]any{"podCIDR": texts[0], "podCIDRs": texts},
	})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("give node %s the pod networks %v: %w", node.Name, texts, err)
	}
	return nil
}

func networksOf(node *corev1.Node) []netip.Prefix {
	texts := node.Spec.PodCIDRs
	if len(texts) == 0 && node.Spec.PodCIDR != "" {
		texts = []string{node.Spec.PodCIDR}
	}
	var networks []netip.Prefix
	for _, text := range texts {
		if network, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, network.Masked())
		}
	}
	return networks
}
