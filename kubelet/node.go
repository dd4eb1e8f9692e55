package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// nodeReporter keeps the Node object: it makes it, and writes its status when that changes or has not been written for
// StatusReportFrequency.
type nodeReporter struct {
	config   Config
	client   clients
	recorder record.EventRecorder

	reported time.Time // when the status was last written
	looked   time.Time // when it was last looked at; zero: not since the Node was registered
	ready    bool      // what it said
}

// register makes the Node, or takes over one that is there, and retries until ctx ends: the API server may come up later.
func (n *nodeReporter) register(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 7*time.Second) {
		err := n.tryRegister(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.config.Logger.Warn("cannot register node", "node", n.config.NodeName, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (n *nodeReporter) tryRegister(ctx context.Context) error {
	if n.config.NoRegister {
		return n.takeOver(ctx)
	}
	status, err := n.makeStatus(ctx, corev1.NodeStatus{})
	if err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.NodeName, Labels: n.labels()},
		Spec:       corev1.NodeSpec{ProviderID: n.config.ProviderID, Taints: n.config.Taints},
		Status:     status,
	}
	made, err := n.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return n.takeOver(ctx)
	}
	if err != nil {
		return err
	}
	n.reported, n.ready = time.Now(), isReady(status)
	n.recorder.Event(n.reference(made.UID), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	return nil
}

// takeOver brings labels and status of a Node that was there already up to date.
func (n *nodeReporter) takeOver(ctx context.Context) error {
	metadata := map[string]any{}
	if !n.config.NoRegister {
		metadata["labels"] = n.labels()
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	node, err := n.client.CoreV1().Nodes().Patch(ctx, n.config.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	status, err := n.makeStatus(ctx, node.Status)
	if err != nil {
		return err
	}
	if err := n.write(ctx, node, status); err != nil {
		return err
	}
	n.recorder.Event(n.reference(node.UID), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	return nil
}

func (n *nodeReporter) reference(uid types.UID) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.config.NodeName, UID: uid}
}

// NodeLabels are those that the kubelet gives its Node.
func (k *Kubelet) NodeLabels() map[string]string { return k.node.labels() }

func (n *nodeReporter) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:   n.config.NodeName,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
	for name, value := range n.config.Labels {
		labels[name] = value
	}
	return labels
}

// look looks at the status every StatusUpdateFrequency, and as soon as a node that was not ready becomes so. It says when to look
// again.
func (n *nodeReporter) look(ctx context.Context) (wait time.Duration) {
	if n.looked.IsZero() {
		n.looked = time.Now() // it has just been written
	}
	if time.Since(n.looked) >= n.config.StatusUpdateFrequency || !n.ready && n.config.Runtime.Ready(ctx) == nil {
		n.looked = time.Now()
		if err := n.update(ctx); err != nil && ctx.Err() == nil {
			n.config.Logger.Warn("cannot write node status", "node", n.config.NodeName, "error", err)
		}
	}
	wait = max(time.Millisecond, n.config.StatusUpdateFrequency-time.Since(n.looked))
	if !n.ready {
		wait = min(wait, readyPoll)
	}
	return wait
}

// readyPoll is how often a runtime that is not ready is asked whether it has become so.
const readyPoll = 50 * time.Millisecond

// update writes the status when the Node that the API server has says something else (others write it, too: a node that was
// silent is marked as unknown), or when it has not been written for StatusReportFrequency. A node that was deleted is registered
// again. The Node is read from the server's cache.
func (n *nodeReporter) update(ctx context.Context) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.config.NodeName, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return n.tryRegister(ctx)
	}
	if err != nil {
		return err
	}
	status, err := n.makeStatus(ctx, node.Status)
	if err != nil {
		return err
	}
	if sameButHeartbeat(node.Status, status) && time.Since(n.reported) < n.config.StatusReportFrequency {
		return nil
	}
	return n.write(ctx, node, status)
}

func (n *nodeReporter) write(ctx context.Context, node *corev1.Node, status corev1.NodeStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode node status: %w", err)
	}
	if _, err := n.client.CoreV1().Nodes().Patch(ctx, n.config.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	n.reported, n.ready = time.Now(), isReady(status)
	return nil
}

func isReady(status corev1.NodeStatus) bool {
	for _, c := range status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// makeStatus describes the node as it is now. Transition times are taken from before where nothing changed.
func (n *nodeReporter) makeStatus(ctx context.Context, before corev1.NodeStatus) (corev1.NodeStatus, error) {
	name, version, err := n.config.Runtime.Version(ctx)
	if err == nil {
		err = n.config.Runtime.Ready(ctx)
	}
	capacity := maps.Clone(before.Capacity) // extended resources that others have put there stay
	if capacity == nil {
		capacity = corev1.ResourceList{}
	}
	maps.Copy(capacity, n.config.Capacity)
	allocatable := maps.Clone(capacity)
	maps.Copy(allocatable, n.config.Allocatable)
	status := corev1.NodeStatus{
		Capacity:    capacity,
		Allocatable: allocatable,
		Addresses:   n.config.Addresses,
		NodeInfo:    n.config.System,
	}
	status.NodeInfo.KubeletVersion = n.config.Version
	status.NodeInfo.OperatingSystem, status.NodeInfo.Architecture = runtime.GOOS, runtime.GOARCH
	status.NodeInfo.ContainerRuntimeVersion = name + "://" + version
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if err != nil {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", err.Error()
	}
	status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		ready,
	}
	if n.config.Describe != nil {
		n.config.Describe(&status)
	}
	now := metav1.Now().Rfc3339Copy()
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		for _, old := range before.Conditions {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return status, nil
}

// sameButHeartbeat compares what this kubelet reports, leaving out when.
func sameButHeartbeat(a, b corev1.NodeStatus) bool {
	strip := func(s corev1.NodeStatus) corev1.NodeStatus {
		stripped := corev1.NodeStatus{
			Capacity: s.Capacity, Allocatable: s.Allocatable, Addresses: s.Addresses, NodeInfo: s.NodeInfo,
			DaemonEndpoints: s.DaemonEndpoints, Images: s.Images, VolumesInUse: s.VolumesInUse,
		}
		for _, c := range s.Conditions {
			switch c.Type {
			case corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady:
				c.LastHeartbeatTime = metav1.Time{}
				stripped.Conditions = append(stripped.Conditions, c)
			}
		}
		return stripped
	}
	return apiequality.Semantic.DeepEqual(strip(a), strip(b))
}
