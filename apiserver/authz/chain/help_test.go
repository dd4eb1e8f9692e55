package chain_test

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func names(list ...string) []types.NamespacedName {
	var out []types.NamespacedName
	for _, name := range list {
		out = append(out, types.NamespacedName{Name: name})
	}
	return out
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
