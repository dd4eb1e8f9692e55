package persistentvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// bind writes what is missing of a binding, in an order in which each part can be found by the next look: the volume's pointer and phase, then
// the claim's.
func (c *Controller) bind(ctx context.Context, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	reserved, dirty, err := volume.GetBindVolumeToClaim(pv, claim)
	if err != nil {
		return err
	}
	if dirty {
		if reserved, err = c.updateVolume(ctx, reserved); err != nil {
			return err
		}
	}
	if pv, err = c.setVolumePhase(ctx, reserved, corev1.VolumeBound, ""); err != nil {
		return err
	}
	if claim, err = c.point(ctx, claim, pv); err != nil {
		return err
	}
	_, err = c.setClaimPhase(ctx, claim, corev1.ClaimBound, pv)
	return err
}

// point writes a claim's pointer to its volume.
func (c *Controller) point(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	if claim.Spec.VolumeName == pv.Name && bound(claim) {
		return claim, nil
	}
	clone := claim.DeepCopy()
	if clone.Spec.VolumeName != pv.Name {
		clone.Spec.VolumeName = pv.Name
		metav1.SetMetaDataAnnotation(&clone.ObjectMeta, volume.AnnBoundByController, "yes")
	}
	metav1.SetMetaDataAnnotation(&clone.ObjectMeta, volume.AnnBindCompleted, "yes")
	return c.updateClaim(ctx, clone)
}

// setClaimPhase writes a claim's status. pv is its volume; nil when it has none.
func (c *Controller) setClaimPhase(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	clone := claim.DeepCopy()
	status := &clone.Status
	if pv == nil {
		status.AccessModes, status.Capacity = nil, nil
	} else {
		status.AccessModes = pv.Spec.AccessModes
		if status.Phase != corev1.ClaimBound { // later who resizes it says what it has
			status.Capacity = pv.Spec.Capacity
			status.CurrentVolumeAttributesClassName = pv.Spec.VolumeAttributesClassName
		}
	}
	status.Phase = phase
	if apiequality.Semantic.DeepEqual(clone.Status, claim.Status) {
		return claim, nil
	}
	updated, err := c.config.Client.CoreV1().PersistentVolumeClaims(clone.Namespace).UpdateStatus(ctx, clone, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write the status of claim %s: %w", keyOf(claim), err)
	}
	c.claims.wrote(updated)
	return updated, nil
}

func (c *Controller) setVolumePhase(ctx context.Context, pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) (*corev1.PersistentVolume, error) {
	if pv.Status.Phase == phase {
		return pv, nil
	}
	clone := pv.DeepCopy()
	clone.Status.Phase, clone.Status.Message = phase, message
	updated, err := c.config.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, clone, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("write the status of volume %s: %w", pv.Name, err)
	}
	c.volumes.wrote(updated)
	return updated, nil
}

func (c *Controller) updateClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	updated, err := c.config.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update claim %s: %w", keyOf(claim), err)
	}
	c.claims.wrote(updated)
	return updated, nil
}

func (c *Controller) updateVolume(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	updated, err := c.config.Client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update volume %s: %w", pv.Name, err)
	}
	c.volumes.wrote(updated)
	return updated, nil
}
