package admit

import (
	"fmt"
	"runtime"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"vigil/kubelet"
)

// Node admits pods that fit the node: its system, its labels and taints, its ports and its resources. A critical pod that lacks
// resources only takes them from others: as few as can be, and the least important.
type Node struct {
	// Get returns the Node; its labels, taints, allocatable resources and features are looked at.
	Get func() (*corev1.Node, error)
}

var _ kubelet.Admitter = (*Node)(nil)

// Admit implements kubelet.Admitter.
func (n *Node) Admit(pod *corev1.Pod, others []*corev1.Pod) *kubelet.Refusal {
	node, err := n.Get()
	if err != nil {
		return &kubelet.Refusal{Reason: "InvalidNodeInfo", Message: "Kubelet cannot get node info."}
	}
	if refusal := wrongSystem(pod, node); refusal != nil {
		return refusal
	}
	lacks := fits(pod, node, others)
	refusals := matches(pod, node, others)
	if len(lacks) > 0 && critical(pod) {
		if len(refusals) > 0 {
			return refusals[0] // resources are no reason to refuse a critical pod
		}
		victims, err := victims(pod, others, lacks)
		if err != nil {
			return &kubelet.Refusal{
				Reason:  "UnexpectedAdmissionError",
				Message: fmt.Sprintf("Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: %v", err),
			}
		}
		refusal := lacks[0].refusal()
		refusal.Victims = victims
		return refusal
	}
	switch {
	case len(lacks) > 0:
		return lacks[0].refusal()
	case len(refusals) > 0:
		return refusals[0]
	}
	return nil
}

// wrongSystem refuses what no room on the node would help.
func wrongSystem(pod *corev1.Pod, node *corev1.Node) *kubelet.Refusal {
	if want, ok := pod.Labels[corev1.LabelOSStable]; ok && want != runtime.GOOS {
		return &kubelet.Refusal{Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != runtime.GOOS {
		return &kubelet.Refusal{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if security := pod.Spec.SecurityContext; security != nil && security.SupplementalGroupsPolicy != nil && *security.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		features := node.Status.Features
		if features == nil || features.SupplementalGroupsPolicy == nil || !*features.SupplementalGroupsPolicy {
			return &kubelet.Refusal{
				Reason:  "SupplementalGroupsPolicyNotSupported",
				Message: fmt.Sprintf("SupplementalGroupsPolicy=%s is not supported in this node", corev1.SupplementalGroupsPolicyStrict),
			}
		}
	}
	return nil
}

// matches refuses for labels, names, ports and taints. A pod that was started here before is not looked at for labels and taints
// again: those that change evict through the API.
func matches(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (refusals []*kubelet.Refusal) {
	refuse := func(predicate, why string) {
		refusals = append(refusals, &kubelet.Refusal{Reason: predicate, Message: fmt.Sprintf("Predicate %s failed: %s", predicate, why)})
	}
	started := pod.Status.StartTime != nil
	if !started {
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
			refuse("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
		}
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		refuse("NodeName", "node(s) didn't match the requested node name")
	}
	if portsTaken(pod, others) {
		refuse("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	if !started && !kubelet.FromManifest(pod) {
		noExecute := func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }
		if _, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, noExecute, true); untolerated {
			refuse("TaintToleration", "node(s) had taints that the pod didn't tolerate")
		}
	}
	return refusals
}

// hostPort is a port of the node that a container wants, on one of its addresses or on all (0.0.0.0).
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

func hostPorts(pod *corev1.Pod) (ports []hostPort) {
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			want := hostPort{p.HostIP, p.Protocol, p.HostPort}
			if want.ip == "" {
				want.ip = "0.0.0.0"
			}
			if want.protocol == "" {
				want.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, want)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c) // others have ended when the pod's own begin
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

func portsTaken(pod *corev1.Pod, others []*corev1.Pod) bool {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return false
	}
	for _, other := range others {
		for _, have := range hostPorts(other) {
			if slices.ContainsFunc(wanted, have.conflicts) {
				return true
			}
		}
	}
	return false
}

func (p hostPort) conflicts(q hostPort) bool {
	return p.port == q.port && p.protocol == q.protocol && (p.ip == q.ip || p.ip == "0.0.0.0" || q.ip == "0.0.0.0")
}
