package admit

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kinds/podspec"
	"vigil/kubelet"
)

// systemCritical is the least priority of what the cluster cannot do without (scheduling.SystemCriticalPriority).
const systemCritical = 2_000_000_000

// critical says whether a pod may take the place of others: static pods, and those of the system's priorities.
func critical(pod *corev1.Pod) bool {
	return kubelet.FromManifest(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical
}

func preemptable(by, pod *corev1.Pod) bool {
	if critical(by) && !critical(pod) {
		return true
	}
	return by.Spec.Priority != nil && pod.Spec.Priority != nil && *by.Spec.Priority > *pod.Spec.Priority
}

// victims chooses pods whose requests free what lacks. Guaranteed pods are taken only for what all burstable and best-effort
// ones together do not free, burstable ones only for what the best-effort ones do not free beside those.
func victims(pod *corev1.Pod, others []*corev1.Pod, lacks []lack) ([]*corev1.Pod, error) {
	classes := map[corev1.PodQOSClass][]*corev1.Pod{}
	for _, other := range others {
		if preemptable(pod, other) {
			class := podspec.QOSClass(&other.Spec)
			classes[class] = append(classes[class], other)
		}
	}
	needs := make(needs, 0, len(lacks))
	for _, l := range lacks {
		needs = append(needs, need{l.resource, l.missing()})
	}
	bestEffort, burstable, guaranteed := classes[corev1.PodQOSBestEffort], classes[corev1.PodQOSBurstable], classes[corev1.PodQOSGuaranteed]
	if left := needs.without(bestEffort).without(burstable).without(guaranteed); len(left) > 0 {
		return nil, fmt.Errorf("no set of running pods found to reclaim resources: %v", left)
	}
	guaranteed = needs.without(bestEffort).without(burstable).closest(guaranteed)
	burstable = needs.without(bestEffort).without(guaranteed).closest(burstable)
	bestEffort = needs.without(burstable).without(guaranteed).closest(bestEffort)
	return append(append(bestEffort, burstable...), guaranteed...), nil
}

// need is how much of a resource is to be freed; more than nothing.
type need struct {
	resource corev1.ResourceName
	amount   int64
}

type needs []need

func (n needs) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for _, need := range n {
		fmt.Fprintf(&b, "(res: %v, q: %d), ", need.resource, need.amount)
	}
	b.WriteByte(']')
	return b.String()
}

// without is what is still needed when the pods have ended.
func (n needs) without(pods []*corev1.Pod) (left needs) {
	for _, need := range n {
		for _, pod := range pods {
			need.amount -= request(pod, need.resource)
		}
		if need.amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

// distance is how far what a pod has is from what is needed: the sum of the squares of the parts that stay unmet.
func (n needs) distance(pod *corev1.Pod) (sum float64) {
	for _, need := range n {
		if left := need.amount - request(pod, need.resource); left > 0 {
			part := float64(left) / float64(need.amount)
			sum += part * part
		}
	}
	return sum
}

// closest takes the pod that comes closest to what is needed until nothing is; of two equals the one that has less. The pods
// together are enough.
func (n needs) closest(pods []*corev1.Pod) (chosen []*corev1.Pod) {
	pods = append([]*corev1.Pod(nil), pods...)
	for len(n) > 0 && len(pods) > 0 {
		best := 0
		for i, pod := range pods {
			d, least := n.distance(pod), n.distance(pods[best])
			if d < least || d == least && smaller(pod, pods[best]) {
				best = i
			}
		}
		chosen = append(chosen, pods[best])
		n = n.without(pods[best : best+1])
		pods[best] = pods[len(pods)-1]
		pods = pods[:len(pods)-1]
	}
	return chosen
}

func smaller(a, b *corev1.Pod) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		if x, y := request(a, name), request(b, name); x != y {
			return x < y
		}
	}
	return true
}
