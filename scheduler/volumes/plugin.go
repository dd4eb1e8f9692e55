package volumes

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// Name is upstream's of the plug-in that binds claims. The rules of VolumeRestrictions and VolumeZone are in it, too.
const Name = "VolumeBinding"

// Plugin is the binder as a plug-in of a profile.
type Plugin struct {
	Binder *Binder
	Rules  Rules
	Users  func(claim types.NamespacedName) int // how many placed pods use a claim
	Wanted func(pod *nodecache.Pod) bool        // whether a pod whose claims are being bound is still there
}

var skip = framework.NewStatus(framework.Skip)

// Name implements framework.Plugin.
func (*Plugin) Name() string { return Name }

// EventsToRegister implements framework.EnqueuePlugin.
func (*Plugin) EventsToRegister() framework.Event {
	return framework.NodeAdded | framework.NodeLabels | framework.PodRemoved | framework.StorageChanged
}

// PreFilter implements framework.PreFilterPlugin: it looks at the claims of the pod.
func (v *Plugin) PreFilter(state *framework.CycleState, pod *nodecache.Pod, _ *nodecache.Snapshot) *framework.Status {
	if len(pod.Claims) == 0 {
		return skip
	}
	plan, err := v.Binder.Plan(pod.Pod, v.Users, v.Rules)
	if err != nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	if plan == nil {
		return skip
	}
	state.Write(Name, plan)
	return nil
}

// Filter implements framework.FilterPlugin.
func (*Plugin) Filter(state *framework.CycleState, _ *nodecache.Pod, node *nodecache.Node) *framework.Status {
	if reasons := plan(state).Fits(node.Node); len(reasons) > 0 {
		return framework.NewStatus(framework.Unschedulable, reasons...)
	}
	return nil
}

// Reserve implements framework.ReservePlugin: others do not get the volumes that are chosen for the pod.
func (*Plugin) Reserve(state *framework.CycleState, _ *nodecache.Pod, node *corev1.Node) *framework.Status {
	if p := plan(state); p != nil {
		p.Assume(node)
	}
	return nil
}

// Unreserve implements framework.ReservePlugin.
func (*Plugin) Unreserve(state *framework.CycleState, _ *nodecache.Pod, _ *corev1.Node) {
	if p := plan(state); p != nil {
		p.Release()
	}
}

// PreBindPreFlight implements framework.PreBindPlugin.
func (*Plugin) PreBindPreFlight(state *framework.CycleState, _ *nodecache.Pod, _ *corev1.Node) *framework.Status {
	if p := plan(state); p == nil || !p.Binds() {
		return skip
	}
	return nil
}

// PreBind implements framework.PreBindPlugin: it has the claims bound, which may take long. Then everybody can see whose the volumes are.
func (v *Plugin) PreBind(ctx context.Context, state *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) *framework.Status {
	p := plan(state)
	if p == nil {
		return framework.AsStatus(errors.New("no plan was made for the claims of the pod"))
	}
	err := p.Bind(ctx, func() bool { return v.Wanted(pod) })
	if err == nil {
		p.Release()
	}
	return framework.AsStatus(err)
}

func plan(state *framework.CycleState) *Plan { return framework.Read[*Plan](state, Name) }
