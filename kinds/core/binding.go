package core

import (
	corev1 "k8s.io/api/core/v1"

	"vigil/kinds"
)

// Binding is the row of bindings: the pods' binding action under a path of its own, which names no pod.
func Binding() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Binding"),
		Resource:   "bindings",
		Singular:   "binding",
		Namespaced: true,
		Verbs:      []string{"create"},
		Unstored:   true,
		New:        func() kinds.Object { return &corev1.Binding{} },
	}
}
