package nodelifecycle

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const (
	nodeWorkers = 8
	podWorkers  = 8
	// recheck is when a node is looked at again that waits for its zone's permission.
	recheck = 5 * time.Second

	nodeIndex     = "spec.nodeName"
	phaseIndex    = "status.phase"
	deletingIndex = "deleting"
)

// Config says what the controller works with. Client, Informers and Recorder are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics

	// NodeMonitorGracePeriod (--node-monitor-grace-period) is how long a node may be silent. Default: 40 s. It must be
	// several times the kubelets' renewal period of 10 s.
	NodeMonitorGracePeriod time.Duration
	// NodeStartupGracePeriod (--node-startup-grace-period) is how long a new node may take to report. Default: 60 s.
	NodeStartupGracePeriod time.Duration
	// DefaultTolerationSeconds is how long pods that say nothing about it stay on a node that is not ready or unreachable.
	// 0: 300 s, as upstream's admission gives them. Negative: they go at once.
	DefaultTolerationSeconds int64
	// TerminatedPodGCThreshold (--terminated-pod-gc-threshold) is how many pods that have ended are kept. 0: 12500. Negative: all are.
	TerminatedPodGCThreshold int
}

// timing has what nobody needs to set but tests.
type timing struct {
	quarantine time.Duration // how long a Node may be missing before its pods are deleted
	gcPeriod   time.Duration // how often pods are searched for garbage
	evictEvery time.Duration // how long after a node another one of its zone gets NoExecute
}

func defaultTiming() timing {
	return timing{quarantine: 40 * time.Second, gcPeriod: 20 * time.Second, evictEvery: 10 * time.Second}
}

// Controller watches over nodes.
type Controller struct {
	config    Config
	timing    timing
	client    kubernetes.Interface
	recorder  record.EventRecorder
	logger    *slog.Logger
	nodeQueue *workqueue.Queue
	podQueue  *workqueue.Queue // of pods that may have to leave tainted nodes

	leases *informer.Informer
	nodes  informer.Lister[*corev1.Node]
	pods   informer.Lister[*corev1.Pod]

	health   *healthTable
	zones    *zoneTable
	evictor  *evictor
	nodeGone chan struct{} // wakes the garbage collection of pods

	mu         sync.Mutex
	registered map[types.UID]struct{} // nodes that had their event RegisteredNode
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller { return newController(config, defaultTiming()) }

func newController(config Config, timing timing) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.NodeMonitorGracePeriod == 0 {
		config.NodeMonitorGracePeriod = 40 * time.Second
	}
	if config.NodeStartupGracePeriod == 0 {
		config.NodeStartupGracePeriod = 60 * time.Second
	}
	if config.DefaultTolerationSeconds == 0 {
		config.DefaultTolerationSeconds = 300
	}
	if config.TerminatedPodGCThreshold == 0 {
		config.TerminatedPodGCThreshold = 12500
	}
	nodes, pods, leases := informer.ResourceOf[*corev1.Node](), informer.ResourceOf[*corev1.Pod](), informer.ResourceOf[*coordinationv1.Lease]()
	nodes.DropManagedFields, pods.DropManagedFields, leases.DropManagedFields = true, true, true
	leases.Namespace = corev1.NamespaceNodeLease
	c := &Controller{
		config:     config,
		timing:     timing,
		client:     config.Client,
		recorder:   config.Recorder,
		logger:     config.Logger,
		nodeQueue:  workqueue.New(workqueue.Config{Name: "node_lifecycle_controller", Logger: config.Logger, Metrics: config.Metrics}),
		podQueue:   workqueue.New(workqueue.Config{Name: "taint-eviction-controller", Logger: config.Logger, Metrics: config.Metrics}),
		leases:     config.Informers.Informer(leases),
		nodes:      informer.ListerFor[*corev1.Node](config.Informers.Informer(nodes)),
		pods:       informer.ListerFor[*corev1.Pod](config.Informers.Informer(pods)),
		health:     newHealthTable(),
		zones:      newZoneTable(timing.evictEvery),
		evictor:    newEvictor(),
		nodeGone:   make(chan struct{}, 1),
		registered: map[types.UID]struct{}{},
	}
	c.pods.Informer().AddIndex(nodeIndex, nodeOf)
	c.pods.Informer().AddIndex(phaseIndex, informer.ByField(func(p *corev1.Pod) []string { return []string{string(p.Status.Phase)} }, 3, 1))
	c.pods.Informer().AddIndex(deletingIndex, func(dst []string, o *informer.Object) []string {
		if len(deletedAt(nil, o)) > 0 {
			dst = append(dst, "true")
		}
		return dst
	})
	c.listen()
	return c
}

// Fields that are read from the bytes, because they are asked for at every event (k8s.io/api generated.proto).
var (
	nodeOf    = informer.ByField(func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }, 2, 10)
	deletedAt = informer.ByField(func(p *corev1.Pod) []string {
		if p.DeletionTimestamp == nil {
			return nil
		}
		return []string{p.DeletionTimestamp.String()}
	}, 1, 9)
	renewedAt = informer.ByField(func(l *coordinationv1.Lease) []string {
		if l.Spec.RenewTime == nil {
			return nil
		}
		return []string{l.Spec.RenewTime.String()}
	}, 2, 4)
)

func (c *Controller) listen() {
	c.leases.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.renewed(o) },
		OnUpdate: func(_, o *informer.Object) { c.renewed(o) },
		OnDelete: func(o *informer.Object, _ bool) { c.health.leaseGone(o.Name()) },
	})
	c.nodes.Informer().AddHandler(informer.Handler[*corev1.Node]{
		OnAdd:    func(n *corev1.Node, _ bool) { c.nodeSeen(n) },
		OnUpdate: func(_, n *corev1.Node) { c.nodeSeen(n) },
		OnDelete: func(n *corev1.Node, _ bool) { c.nodeDeleted(n) },
		OnError: func(o *informer.Object, err error) {
			c.logger.Error("the controller cannot decode a node; it judges the node by what it was before", "node", o.Name(), "error", err)
		},
	}.EventHandler())
	c.pods.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.podSeen(o) },
		OnUpdate: func(_, o *informer.Object) { c.podSeen(o) },
		OnDelete: func(o *informer.Object, _ bool) { c.evictor.forget(o.UID()) },
	})
}

// renewed notes a sign of life. A node that was given up is looked at, the others are when their time is up.
func (c *Controller) renewed(lease *informer.Object) {
	var at string
	if values := renewedAt(nil, lease); len(values) > 0 {
		at = strings.Clone(values[0]) // or it would keep the whole Lease
	}
	if c.health.renewed(lease.Name(), at, time.Now()) {
		c.nodeQueue.Add(types.NamespacedName{Name: lease.Name()})
	}
}

func (c *Controller) nodeSeen(n *corev1.Node) {
	c.health.observed(n, time.Now())
	c.readiness(n)
	if c.evictor.observed(n, time.Now()) {
		c.lookAtPods(n.Name)
	}
	c.nodeQueue.Add(types.NamespacedName{Name: n.Name})
	c.mu.Lock()
	_, known := c.registered[n.UID]
	c.registered[n.UID] = struct{}{}
	c.mu.Unlock()
	if !known {
		c.nodeEvent(n, "RegisteredNode", "Registered Node "+n.Name+" in Controller")
	}
}

// readiness notes whether a node is ready. When it was the last or the first one, NoExecute taints go or come everywhere.
func (c *Controller) readiness(n *corev1.Node) {
	if c.zones.observed(n) {
		c.lookAtNodes()
	}
}

func (c *Controller) lookAtNodes() {
	for _, o := range c.nodes.Informer().Indexer().List("") {
		c.nodeQueue.Add(o.NamespacedName())
	}
}

func (c *Controller) nodeDeleted(n *corev1.Node) {
	c.health.forget(n.Name)
	if c.zones.forget(n.Name) {
		c.lookAtNodes()
	}
	if c.evictor.nodeDeleted(n.Name) {
		c.lookAtPods(n.Name)
	}
	c.mu.Lock()
	delete(c.registered, n.UID)
	c.mu.Unlock()
	c.nodeEvent(n, "RemovingNode", "Removing Node "+n.Name+" from Controller")
	select {
	case c.nodeGone <- struct{}{}:
	default:
	}
}

func (c *Controller) nodeEvent(n *corev1.Node, reason, text string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
	c.recorder.Eventf(about, corev1.EventTypeNormal, reason, "Node %s event: %s", n.Name, text)
}

// nodeBecame makes an event of a change of the Ready condition that this controller has made.
func (c *Controller) nodeBecame(n *corev1.Node, status string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
	c.recorder.Eventf(about, corev1.EventTypeNormal, status, "Node %s status is now: %s", n.Name, status)
}

// podSeen looks at a pod on a tainted node.
func (c *Controller) podSeen(o *informer.Object) {
	if on := nodeOf(nil, o); len(on) > 0 && c.evictor.tainted(on[0]) {
		c.podQueue.Add(o.NamespacedName())
	}
}

func (c *Controller) lookAtPods(node string) {
	on, err := c.pods.Informer().Indexer().ByIndex(nodeIndex, node)
	if err != nil {
		c.logger.Error("the controller cannot find the pods of a node; they stay as they are", "node", node, "error", err)
		return
	}
	for _, o := range on {
		c.podQueue.Add(o.NamespacedName())
	}
}

// Run watches over nodes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.nodes.Informer(), c.leases, c.pods.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.nodeQueue.Run(ctx, nodeWorkers, c.reconcileNode) })
	group.Go(func() error { return c.podQueue.Run(ctx, podWorkers, c.reconcilePod) })
	group.Go(func() error { return c.collectPods(ctx) })
	return group.Wait()
}

// condition returns a node's condition of a type, nil when it has none.
func condition(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == t {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

func ready(n *corev1.Node) corev1.ConditionStatus {
	if c := condition(n, corev1.NodeReady); c != nil {
		return c.Status
	}
	return ""
}

func now() metav1.Time { return metav1.Now().Rfc3339Copy() }
