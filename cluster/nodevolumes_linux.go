package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recursiveReadOnly says whether a pod's containers can have mounts that are read-only with all that is mounted below them.
func (n *realNode) recursiveReadOnly(ctx context.Context, pod *corev1.Pod) (bool, error) {
	handler := ""
	if name := pod.Spec.RuntimeClassName; name != nil && *name != "" {
		class, err := n.client.NodeV1().RuntimeClasses().Get(ctx, *name, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		handler = class.Handler
	}
	return n.runtime.RecursiveReadOnly(ctx, handler)
}
