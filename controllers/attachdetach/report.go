package attachdetach

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// report has the status of the node whose turn it is name what is attached to it.
func (c *Controller) report(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	node, err := c.nodes.Get("", key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	attachments, err := c.attachments.ByIndex(attachmentsByNode, node.Name)
	if err != nil {
		return 0, err
	}
	var attached []corev1.AttachedVolume
	for _, a := range attachments {
		if _, soon := c.isLeaving(a); soon || !a.Status.Attached || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		pv, err := c.volumes.Get("", *a.Spec.Source.PersistentVolumeName)
		if err != nil || pv.Spec.CSI == nil || a.Name != Name(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, node.Name) {
			continue
		}
		attached = append(attached, corev1.AttachedVolume{Name: uniqueName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)})
	}
	slices.SortFunc(attached, func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
	return 0, c.writeAttached(ctx, node, attached)
}

// writeAttached writes what is attached to a node, unless its status has changed since it was read.
func (c *Controller) writeAttached(ctx context.Context, node *corev1.Node, attached []corev1.AttachedVolume) error {
	if slices.Equal(attached, node.Status.VolumesAttached) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"volumesAttached": attached},
	})
	if err != nil {
		return fmt.Errorf("encode the volumes of node %s: %w", node.Name, err)
	}
	if _, err := c.config.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write the volumes of node %s: %w", node.Name, err)
	}
	return nil
}
