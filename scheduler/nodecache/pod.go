package nodecache

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Pod is a pod as scheduling looks at it. What is computed from the spec is computed once. It is never changed.
type Pod struct {
	*corev1.Pod
	*Holding
	Priority int32

	Affinity  nodeaffinity.RequiredNodeAffinity      // node selector and required node affinity
	Preferred *nodeaffinity.PreferredSchedulingTerms // nil when there are none
}

// Holding is what a pod takes of a node once it is there, and all that is kept of it then: a pod itself is many times as large. It is
// never changed.
type Holding struct {
	UID      types.UID
	Name     types.NamespacedName
	Requests Resources // what must fit
	NonZero  Resources // the same for scores: containers without requests count as small ones
	Ports    []HostPort
	Claims   []types.NamespacedName // of its volumes
}

// HostPort is a port that a pod wants on the node itself. IP "" is every address.
type HostPort struct {
	Protocol corev1.Protocol
	IP       string
	Port     int32
}

// Conflicts says whether both cannot be had on one node.
func (p HostPort) Conflicts(o HostPort) bool {
	if p.Protocol != o.Protocol || p.Port != o.Port {
		return false
	}
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return p.IP == o.IP || wild(p.IP) || wild(o.IP)
}

// NewPod looks through a pod. It fails when its preferred node affinity cannot be understood.
func NewPod(pod *corev1.Pod) (*Pod, error) {
	p := &Pod{
		Pod:      pod,
		Holding:  &Holding{UID: pod.UID, Name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}},
		Priority: schedulinghelpers.PodPriority(pod),
		Affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
	}
	p.Requests, p.NonZero = podRequests(pod)
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			p.Claims = append(p.Claims, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			p.Claims = append(p.Claims, types.NamespacedName{Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, v)})
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			return nil, err
		}
		p.Preferred = terms
	}
	ports := func(containers []corev1.Container, restartableOnly bool) {
		for i := range containers {
			c := &containers[i]
			if restartableOnly && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
				continue
			}
			for _, port := range c.Ports {
				if port.HostPort > 0 {
					p.Ports = append(p.Ports, HostPort{Protocol: port.Protocol, IP: port.HostIP, Port: port.HostPort})
				}
			}
		}
	}
	ports(pod.Spec.Containers, false)
	ports(pod.Spec.InitContainers, true)
	return p, nil
}

// Finished says that the pod has ended and holds nothing on its node any more.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
