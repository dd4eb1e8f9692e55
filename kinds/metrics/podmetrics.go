package metrics

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/kinds"
	"vigil/object"
)

// PodMetrics is the row of what the containers of pods use.
func PodMetrics() *kinds.Kind {
	return &kinds.Kind{
		GVK:        metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"),
		Resource:   "pods",
		Namespaced: true,
		Verbs:      []string{"get", "list"},
		Unstored:   true,
		Type: &object.Type{
			APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetrics", Namespaced: true,
			New: func() runtime.Object { return &metricsv1beta1.PodMetrics{} },
		},
		New:     func() kinds.Object { return &metricsv1beta1.PodMetrics{} },
		NewList: func() runtime.Object { return &metricsv1beta1.PodMetricsList{} },

		Columns: columns(),
		Row: func(obj kinds.Object, _ time.Time) []any {
			m := obj.(*metricsv1beta1.PodMetrics)
			sum := corev1.ResourceList{}
			for i := range m.Containers {
				add(sum, m.Containers[i].Usage)
			}
			return []any{m.Name, sum.Cpu().String(), sum.Memory().String(), m.Window.Duration.String()}
		},
	}
}
