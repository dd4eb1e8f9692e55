// Package podcondition makes the patches by which components other than the kubelet set conditions of pods.
//
// A strategic merge patch that only has the new condition puts it in front of all others, since lists without an order are
// merged that way. Upstream's clients send the order along, so that a condition keeps its place, and a new one goes to the
// end; so do these patches.
package podcondition

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patch says what is to change in a pod's status.
type Patch struct {
	// UID is the pod's: another pod of its name is not patched (409). ResourceVersion, if not "", is the version that is
	// patched and no other.
	UID             types.UID
	ResourceVersion string
	// Have are the conditions that the pod has, as far as the client knows: what others have added meanwhile stays.
	Have []corev1.PodCondition
	// Set is the condition to set. An empty reason and message leave those of the condition there is, and an unchanged status
	// leaves its transition time. Without a type none is set.
	Set corev1.PodCondition
	// Phase is the pod's new phase, "" for none.
	Phase corev1.PodPhase
}

// Encode returns the body of a strategic merge patch of the pod's subresource status.
func (p *Patch) Encode() ([]byte, error) {
	type key struct {
		Type corev1.PodConditionType `json:"type"`
	}
	type condition struct {
		Type               corev1.PodConditionType `json:"type"`
		Status             corev1.ConditionStatus  `json:"status"`
		Reason             string                  `json:"reason,omitempty"`
		Message            string                  `json:"message,omitempty"`
		LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
		ObservedGeneration int64                   `json:"observedGeneration,omitempty"`
	}
	type metadata struct {
		UID             types.UID `json:"uid,omitempty"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	}
	type status struct {
		Order      []key           `json:"$setElementOrder/conditions,omitempty"`
		Conditions []condition     `json:"conditions,omitempty"`
		Phase      corev1.PodPhase `json:"phase,omitempty"`
	}
	set := p.Set
	if set.Type == "" {
		return json.Marshal(struct {
			Metadata metadata `json:"metadata"`
			Status   status   `json:"status"`
		}{metadata{p.UID, p.ResourceVersion}, status{Phase: p.Phase}})
	}
	order, known := make([]key, 0, len(p.Have)+1), false
	for i := range p.Have {
		have := &p.Have[i]
		order = append(order, key{have.Type})
		if have.Type != set.Type {
			continue
		}
		known = true
		if have.Status == set.Status {
			set.LastTransitionTime = have.LastTransitionTime
		}
	}
	if !known {
		order = append(order, key{set.Type})
	}
	return json.Marshal(struct {
		Metadata metadata `json:"metadata"`
		Status   status   `json:"status"`
	}{
		metadata{p.UID, p.ResourceVersion},
		status{order, []condition{{
			set.Type, set.Status, set.Reason, set.Message, set.LastTransitionTime, set.ObservedGeneration,
		}}, p.Phase},
	})
}
