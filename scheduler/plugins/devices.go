package plugins

import (
	"fmt"
	"strings"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// dynamicResources has pods wait that name resource claims: nothing allocates devices yet, and a container must not run without its own.
type dynamicResources struct{}

// Name implements framework.Plugin.
func (dynamicResources) Name() string { return DynamicResources }

// PreFilter implements framework.PreFilterPlugin.
func (dynamicResources) PreFilter(_ *framework.CycleState, pod *nodecache.Pod, _ *nodecache.Snapshot) *framework.Status {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	names := make([]string, 0, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		names = append(names, pod.Spec.ResourceClaims[i].Name)
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable,
		fmt.Sprintf("devices of resource claims cannot be allocated yet, and the pod names some (%s)", strings.Join(names, ", ")))
}
