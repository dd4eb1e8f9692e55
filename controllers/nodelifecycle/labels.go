package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// betaLabels are the labels of old that say what another one says, by that one. Manifests still select nodes by them.
var betaLabels = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

// mendLabels gives a node its labels of old, or their right values (node_lifecycle_controller.go reconcileNodeLabels).
func (c *Controller) mendLabels(ctx context.Context, n *corev1.Node) error {
	labels := map[string]string{}
	for name, old := range betaLabels {
		value, has := n.Labels[name]
		if oldValue, hasOld := n.Labels[old]; has && (!hasOld || oldValue != value) {
			labels[old] = value
		}
	}
	if len(labels) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "labels": labels}})
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	if _, err := c.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("update labels: %w", err)
	}
	return nil
}
