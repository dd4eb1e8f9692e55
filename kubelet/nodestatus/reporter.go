package nodestatus

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

	"vigil/informer"
	"vigil/internal/panics"
)

// Reporter keeps the Node object: it makes it, and writes its status when that changes or has not been written for
// StatusReportFrequency.
type Reporter struct {
	config Config
	nodes  *informer.Informer // has this one

	written  string    // the resource version of the last write
	reported time.Time // when the status was last written
	looked   time.Time // when it was last looked at; zero: not since the Node was registered
	ready    bool      // what it said
	agreed   agreement // what the last look has found, when there was nothing to write

	told          bool // events of this kubelet's start have been made
	unschedulable bool // what the last event said of it
}

// New makes a Reporter. It must be called before the factory's informers run or while they do.
func New(config Config) *Reporter {
	return &Reporter{config: config, nodes: ownNode(config.Informers, config.NodeName)}
}

// Register makes the Node, or takes over one that is there, and retries until ctx ends: the API server may come up later.
func (n *Reporter) Register(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 7*time.Second) {
		err := panics.Try(n.config.Logger, panics.Node, func() error { return n.tryRegister(ctx) }, "node", n.config.NodeName)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.config.Logger.Warn("the kubelet could not register its node; it tries again", "node", n.config.NodeName, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (n *Reporter) tryRegister(ctx context.Context) error {
	if n.config.NoRegister {
		return n.takeOver(ctx)
	}
	status := n.makeStatus(n.runtimeState(ctx), corev1.NodeStatus{})
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.NodeName, Labels: n.Labels(), Annotations: n.annotations()},
		Spec:       corev1.NodeSpec{ProviderID: n.config.ProviderID, Taints: n.config.Taints},
		Status:     status,
	}
	made, err := n.config.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return n.takeOver(ctx)
	}
	if err != nil {
		return err
	}
	n.written, n.reported, n.ready = made.ResourceVersion, time.Now(), isReady(status)
	n.tell(&corev1.Node{}, &status)
	return nil
}

// takeOver brings labels and status of a Node that was there already up to date.
func (n *Reporter) takeOver(ctx context.Context) error {
	metadata := map[string]any{}
	if !n.config.NoRegister {
		metadata["labels"], metadata["annotations"] = n.Labels(), n.annotations()
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	node, err := n.config.Client.CoreV1().Nodes().Patch(ctx, n.config.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return n.write(ctx, node, n.makeStatus(n.runtimeState(ctx), node.Status))
}

// Labels are those that the kubelet gives its Node.
func (n *Reporter) Labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:      n.config.NodeName,
		corev1.LabelOSStable:      runtime.GOOS,
		corev1.LabelArchStable:    runtime.GOARCH,
		"beta.kubernetes.io/os":   runtime.GOOS, // many manifests still select nodes by these two
		"beta.kubernetes.io/arch": runtime.GOARCH,
	}
	for name, value := range n.config.Labels {
		labels[name] = value
	}
	return labels
}

// annotations are those that the kubelet gives its Node: upstream's controller attaches no volumes to nodes that do not ask for it.
func (n *Reporter) annotations() map[string]string {
	if !n.config.Volumes {
		return nil
	}
	return map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
}

// Look looks at the status every StatusUpdateFrequency, and as soon as a node that was not ready becomes so. It says when to look
// again.
func (n *Reporter) Look(ctx context.Context) (wait time.Duration) {
	if n.looked.IsZero() {
		n.looked = time.Now() // it has just been written
	}
	if time.Since(n.looked) >= n.config.StatusUpdateFrequency || !n.ready && n.config.Runtime.Ready(ctx) == nil {
		n.looked = time.Now()
		if err := n.update(ctx); err != nil && ctx.Err() == nil {
			n.config.Logger.Warn("the kubelet could not write the status of its node; it tries again", "node", n.config.NodeName, "error", err)
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

// agreement is of what a status is made that the API server has, beside what never changes.
type agreement struct {
	version string // of the Node
	runtime runtimeState
}

// runtimeState is what a node's status says of its runtime.
type runtimeState struct{ name, version, problem string }

func (n *Reporter) runtimeState(ctx context.Context) runtimeState {
	name, version, err := n.config.Runtime.Version(ctx)
	if err == nil {
		err = n.config.Runtime.Ready(ctx)
	}
	s := runtimeState{name: name, version: version}
	if err != nil {
		s.problem = err.Error()
	}
	return s
}

// agrees says that nothing has changed since the last look: neither the Node nor the runtime. Where more describes the node, it is
// asked each time.
func (n *Reporter) agrees(ctx context.Context) bool {
	if n.config.Describe != nil || n.agreed.version == "" {
		return false
	}
	object, ok := n.nodes.Indexer().Get("", n.config.NodeName)
	return ok && object.ResourceVersion() == n.agreed.version && n.runtimeState(ctx) == n.agreed.runtime
}

// update writes the status when the Node that the API server has says something else (others write it, too: a node that was
// silent is marked as unknown), or when it has not been written for StatusReportFrequency. A node that was deleted is registered
// again.
func (n *Reporter) update(ctx context.Context) error {
	due := time.Since(n.reported) >= n.config.StatusReportFrequency
	if !due && n.agrees(ctx) {
		return nil
	}
	node, err := n.known(ctx)
	if apierrors.IsNotFound(err) {
		return n.tryRegister(ctx)
	}
	if err != nil {
		return err
	}
	n.tellSchedulable(node)
	state := n.runtimeState(ctx)
	status := n.makeStatus(state, node.Status)
	if !due && sameButHeartbeat(node.Status, status) {
		n.agreed = agreement{version: node.ResourceVersion, runtime: state}
		return nil
	}
	return n.write(ctx, node, status)
}

func (n *Reporter) write(ctx context.Context, node *corev1.Node, status corev1.NodeStatus) error {
	patch, err := nodeStatusPatch(node.UID, status)
	if err != nil {
		return fmt.Errorf("encode node status: %w", err)
	}
	written, err := n.config.Client.CoreV1().Nodes().Patch(ctx, n.config.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	n.written, n.reported, n.ready = written.ResourceVersion, time.Now(), isReady(status)
	n.tell(node, &status)
	return nil
}

// nodeStatusPatch is the strategic merge patch that makes the API server's status of a Node what the kubelet says, and leaves to others what is
// theirs. A list that is empty now is named, too: a patch without it would keep what was there, for ever. Addresses would be merged by type.
func nodeStatusPatch(uid types.UID, status corev1.NodeStatus) ([]byte, error) {
	encoded, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{"volumesInUse": nil, "images": nil}
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	addresses := []any{map[string]string{"$patch": "replace"}}
	for _, address := range status.Addresses {
		addresses = append(addresses, address)
	}
	if fields["addresses"], err = json.Marshal(addresses); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": fields})
}

func isReady(status corev1.NodeStatus) bool {
	c := nodeCondition(status.Conditions, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// makeStatus describes the node as it is now. Transition times are taken from before where nothing changed.
func (n *Reporter) makeStatus(state runtimeState, before corev1.NodeStatus) corev1.NodeStatus {
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
	status.NodeInfo.ContainerRuntimeVersion = state.name + "://" + state.version
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if state.problem != "" {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", state.problem
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
	return status
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
