package kubelet

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// resizeMessage is what events about a resize say: what the containers that can be resized are to have, by which generation of the pod,
// and what is wrong if anything is. Format and texts are upstream's (pkg/kubelet/events/pod_resize_events.go).
//
//	Pod resize started: {"containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}],"generation":2}
func resizeMessage(what string, pod *corev1.Pod, problem string) string {
	type allocation struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	summary := struct {
		InitContainers []allocation `json:"initContainers,omitempty"`
		Containers     []allocation `json:"containers,omitempty"`
		Generation     int64        `json:"generation"`
		Error          string       `json:"error,omitempty"`
	}{Generation: pod.Generation, Error: problem}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; sidecar(c) {
			summary.InitContainers = append(summary.InitContainers, allocation{c.Name, c.Resources})
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		summary.Containers = append(summary.Containers, allocation{c.Name, c.Resources})
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return "Pod resize " + what
	}
	return "Pod resize " + what + ": " + string(text)
}
