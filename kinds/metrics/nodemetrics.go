package metrics

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// NodeMetrics is the row of what nodes use.
func NodeMetrics() *kinds.Kind {
	return &kinds.Kind{
		GVK:      metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"),
		Resource: "nodes",
		Verbs:    []string{"get", "list"},
		Unstored: true,
		Type: &object.Type{
			APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics",
			New: func() runtime.Object { return &metricsv1beta1.NodeMetrics{} },
		},
		New:     func() kinds.Object { return &metricsv1beta1.NodeMetrics{} },
		NewList: func() runtime.Object { return &metricsv1beta1.NodeMetricsList{} },

		Columns: columns(),
		Row: func(obj kinds.Object, _ time.Time) []any {
			m := obj.(*metricsv1beta1.NodeMetrics)
			return []any{m.Name, m.Usage.Cpu().String(), m.Usage.Memory().String(), m.Window.Duration.String()}
		},
	}
}

func columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column.Name(),
		column.Text("cpu", "CPU time per second"),
		column.Text("memory", "Memory that is in use and could not be dropped at once"),
		column.Text("Window", "Time over which CPU time was measured"),
	}
}

// add adds up what containers use.
func add(sum, usage corev1.ResourceList) {
	for name, quantity := range usage {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}
