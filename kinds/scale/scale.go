// Package scale has the autoscaling/v1 view of a workload's size, the scale subresource that all workloads share.
package scale

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// Parts are the parts of a workload that its scale shows.
type Parts struct {
	Replicas **int32 // wanted; nil reads as 0
	Current  int32   // there now
	Selector *metav1.LabelSelector
}

// Subresource returns the scale of a kind: replicas can be changed, the rest is shown. parts finds them in an object.
func Subresource(parts func(kinds.Object) Parts) kinds.Subresource {
	return kinds.Subresource{
		Name:    "scale",
		GVK:     autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
		Verbs:   []string{"get", "patch", "update"},
		NewView: func() runtime.Object { return &autoscalingv1.Scale{} },
		View:    func(obj kinds.Object) (runtime.Object, error) { return view(obj, parts(obj)) },
		Apply: func(obj kinds.Object, view runtime.Object) field.ErrorList {
			scale := view.(*autoscalingv1.Scale)
			errs := validate.NonNegative(int64(scale.Spec.Replicas), field.NewPath("spec", "replicas"))
			if len(errs) == 0 {
				*parts(obj).Replicas = &scale.Spec.Replicas
			}
			return errs
		},
	}
}

func view(obj kinds.Object, p Parts) (*autoscalingv1.Scale, error) {
	selector, err := metav1.LabelSelectorAsSelector(p.Selector)
	if err != nil {
		return nil, fmt.Errorf("scale of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name:              obj.GetName(),
			Namespace:         obj.GetNamespace(),
			UID:               obj.GetUID(),
			ResourceVersion:   obj.GetResourceVersion(),
			CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: p.Current, Selector: selector.String()},
	}
	if *p.Replicas != nil {
		scale.Spec.Replicas = **p.Replicas
	}
	return scale, nil
}
