package localprovisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"vigil/internal/localvolume"
)

// atOnce is how many volumes a node is told to remove at a time, so that its Node stays small.
const atOnce = 256

// node brings the deletion of a node's volumes further: tells the node which to remove, and deletes those that it has removed.
func (c *Controller) node(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	all, err := c.volumes.ByIndex(byNode, key.Name)
	if err != nil {
		return 0, err
	}
	node, err := c.nodes.Get("", key.Name)
	if apierrors.IsNotFound(err) && len(all) > 0 {
		// The cache may be behind: what follows cannot be taken back.
		node, err = c.config.Client.CoreV1().Nodes().Get(ctx, key.Name, metav1.GetOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err != nil {
		node = nil
	}
	var remove []string
	var errs []error
	for _, pv := range all {
		switch doomed, removal := fate(pv); {
		case !doomed:
		case !removal || node == nil || slices.Contains(localvolume.Names(node.Annotations[localvolume.RemovedAnnotation]), pv.Name):
			errs = append(errs, c.delete(ctx, pv))
		case len(remove) < atOnce:
			remove = append(remove, pv.Name)
		}
	}
	if node != nil {
		errs = append(errs, c.tell(ctx, node, localvolume.Annotation(remove)))
	}
	return 0, errors.Join(errs...)
}

// fate says whether a volume is to be deleted, and whether its directory goes before.
func fate(pv *corev1.PersistentVolume) (doomed, removal bool) {
	released := pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
	going := pv.DeletionTimestamp != nil && pv.Status.Phase != corev1.VolumeBound
	removal = pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	return going || released && removal, removal
}

// tell has a node remove volumes.
func (c *Controller) tell(ctx context.Context, node *corev1.Node, names string) error {
	if node.Annotations[localvolume.RemoveAnnotation] == names {
		return nil
	}
	var value any // nil takes the annotation away
	if names != "" {
		value = names
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{localvolume.RemoveAnnotation: value}}})
	if err != nil {
		return err
	}
	if _, err := c.config.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("have node %s remove volumes: %w", node.Name, err)
	}
	return nil
}

// delete deletes a volume whose directory is gone or is kept.
func (c *Controller) delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	volumes := c.config.Client.CoreV1().PersistentVolumes()
	if pv.DeletionTimestamp == nil {
		err := volumes.Delete(ctx, pv.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete volume %s: %w", pv.Name, err)
		}
		return nil // its finalizers are looked at when the deletion is seen
	}
	if !slices.Contains(pv.Finalizers, volume.PVDeletionProtectionFinalizer) {
		return nil
	}
	pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == volume.PVDeletionProtectionFinalizer })
	if _, err := volumes.Update(ctx, pv, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("let volume %s go: %w", pv.Name, err)
	}
	return nil
}
