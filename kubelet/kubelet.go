package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
)

// Kubelet runs the pods of one node.
type Kubelet struct {
	config  Config
	client  kubernetes.Interface
	factory *informer.Factory
	pods    *informer.Informer
	status  *statusManager
	node    *nodeReporter

	broadcaster record.EventBroadcaster // nil when the recorder was given
	recorder    record.EventRecorder

	mu      sync.Mutex
	workers map[types.UID]*worker
	running sync.WaitGroup
}

// New makes a kubelet. It connects to nothing yet.
func New(config Config) (*Kubelet, error) {
	config = config.withDefaults()
	if config.NodeName == "" || config.Server == nil || config.Runtime == nil {
		return nil, errors.New("a kubelet needs a node name, an API server and a runtime")
	}
	k := &Kubelet{config: config, client: config.Client, recorder: config.Recorder, workers: map[types.UID]*worker{}}
	if k.client == nil {
		client, err := kubernetes.NewForConfig(protobuf(config.Server))
		if err != nil {
			return nil, fmt.Errorf("make a client for node %s: %w", config.NodeName, err)
		}
		k.client = client
	}
	factory, err := informer.NewFactory(config.Server, informer.Config{Logger: config.Logger})
	if err != nil {
		return nil, fmt.Errorf("make informers for node %s: %w", config.NodeName, err)
	}
	k.factory = factory
	mine := informer.ResourceOf[*corev1.Pod]()
	mine.FieldSelector = "spec.nodeName=" + config.NodeName
	mine.DropManagedFields = true
	k.pods = factory.Informer(mine)
	if k.recorder == nil {
		k.broadcaster = record.NewBroadcaster()
		k.recorder = k.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: config.NodeName})
	}
	k.status = newStatusManager(k.client, config.Logger)
	k.node = &nodeReporter{config: config, client: k.client, recorder: k.recorder}
	return k, nil
}

// protobuf makes a client configuration that sends and asks for protobuf.
func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// Run runs the node until ctx ends. The containers run on; the workers have ended when it returns.
func (k *Kubelet) Run(ctx context.Context) error {
	if k.broadcaster != nil {
		k.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
		defer k.broadcaster.Shutdown() // last: the workers record until they end
	}
	ctx, cancel := context.WithCancel(ctx)
	defer k.running.Wait()
	defer cancel()
	if err := k.node.register(ctx); err != nil {
		return err
	}
	k.running.Go(func() { k.node.run(ctx) })
	k.running.Go(func() { newLease(k.config, k.client).run(ctx) })
	k.running.Go(func() { k.status.run(ctx) })
	k.running.Go(func() { _ = k.factory.Run(ctx) }) // it fails with ctx only
	k.pods.AddHandler(informer.Handler[*corev1.Pod]{
		OnAdd:    func(pod *corev1.Pod, initial bool) { k.add(ctx, pod, initial) },
		OnUpdate: func(_, pod *corev1.Pod) { k.update(ctx, pod) },
		OnDelete: func(pod *corev1.Pod, _ bool) { k.remove(pod) },
	}.EventHandler())
	if err := k.pods.WaitForSync(ctx); err != nil {
		return ctx.Err()
	}
	k.removeOrphans(ctx)
	return k.config.Runtime.Follow(ctx, k.look)
}

// removeOrphans ends pods that the runtime has and the API server does not know.
func (k *Kubelet) removeOrphans(ctx context.Context) {
	known, err := k.config.Runtime.Pods(ctx)
	if err != nil {
		k.config.Logger.Warn("cannot list the runtime's pods", "error", err)
		return
	}
	for _, pod := range known {
		uid := pod.UID
		k.mu.Lock()
		_, wanted := k.workers[uid]
		k.mu.Unlock()
		if wanted {
			continue
		}
		if err := errors.Join(k.config.Runtime.StopSandbox(ctx, uid), k.config.Runtime.RemovePod(ctx, uid)); err != nil {
			k.config.Logger.Warn("cannot remove orphaned pod", "uid", uid, "error", err)
		}
	}
}
