package apps

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds"
	"vigil/kinds/scale"
)

// scalable are the parts of a workload that its scale subresource shows.
type scalable struct {
	replicas **int32 // wanted; nil reads as 0
	current  int32   // there now
	selector *metav1.LabelSelector
}

func scaleSubresource(parts func(kinds.Object) scalable) kinds.Subresource {
	return scale.Subresource(func(obj kinds.Object) scale.Parts {
		p := parts(obj)
		return scale.Parts{Replicas: p.replicas, Current: p.current, Selector: p.selector}
	})
}
