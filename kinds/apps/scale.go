package apps

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// scalable are the parts of a workload that its scale subresource shows.
type scalable struct {
	replicas **int32 // wanted; nil reads as 0
	current  int32   // there now
	selector *metav1.LabelSelector
}

// scaleSubresource is the autoscaling/v1 view of a workload's size: replicas can be changed, the rest is shown.
func scaleSubresource(parts func(kinds.Object) scalable) kinds.Subresource {
	return kinds.Subresource{
		Name:    "scale",
		GVK:     autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
		Verbs:   []string{"get", "patch", "update"},
		NewView: func() runtime.Object { return &autoscalingv1.Scale{} },
		View: func(obj kinds.Object) (runtime.Object, error) {
			return viewScale(obj, parts(obj))
		},
		Apply: func(obj kinds.Object, view runtime.Object) field.ErrorList {
			scale := view.(*autoscalingv1.Scale)
			errs := validate.NonNegative(int64(scale.Spec.Replicas), field.NewPath("spec", "replicas"))
			if len(errs) == 0 {
				*parts(obj).replicas = &scale.Spec.Replicas
			}
			return errs
		},
	}
}

func viewScale(obj kinds.Object, p scalable) (*autoscalingv1.Scale, error) {
	selector, err := metav1.LabelSelectorAsSelector(p.selector)
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
		Status: autoscalingv1.ScaleStatus{Replicas: p.current, Selector: selector.String()},
	}
	if *p.replicas != nil {
		scale.Spec.Replicas = **p.replicas
	}
	return scale, nil
}
