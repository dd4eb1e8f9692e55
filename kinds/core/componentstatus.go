package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// ComponentStatus is the row of how the control plane's components are: asked when it is read, stored nowhere.
func ComponentStatus() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("ComponentStatus"),
		Resource:   "componentstatuses",
		Singular:   "componentstatus",
		ShortNames: []string{"cs"},
		Verbs:      []string{"get", "list"},
		Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
		Unstored:   true,
		Type: &object.Type{
			APIVersion: "v1", Kind: "ComponentStatus",
			New: func() runtime.Object { return &corev1.ComponentStatus{} },
		},
		New:     func() kinds.Object { return &corev1.ComponentStatus{} },
		NewList: func() runtime.Object { return &corev1.ComponentStatusList{} },

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Status", "Status of the component conditions"),
			column.Text("Message", "Message of the component conditions"),
			column.Text("Error", "Error of the component conditions"),
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			status, message, failure := "Unknown", "", ""
			for _, c := range obj.(*corev1.ComponentStatus).Conditions {
				if c.Type != corev1.ComponentHealthy {
					continue
				}
				status, message, failure = "Unhealthy", c.Message, c.Error
				if c.Status == corev1.ConditionTrue {
					status = "Healthy"
				}
				break
			}
			return []any{obj.GetName(), status, message, failure}
		},
	}
}
