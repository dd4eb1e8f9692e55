package persistentvolume

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// volume brings a volume's phase to what its claim says.
func (c *Controller) volume(ctx context.Context, pv *corev1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" { // unused, or reserved by a person for a claim that has not taken it yet
		_, err := c.setVolumePhase(ctx, pv, corev1.VolumeAvailable, "")
		return err
	}
	claim, err := c.claimOf(ctx, pv)
	if err != nil {
		return err
	}
	switch {
	case claim == nil:
		return c.release(ctx, pv)
	case claim.Spec.VolumeName == "":
		c.queue.Add(keyOf(claim)) // its own look finishes the binding
		return nil
	case claim.Spec.VolumeName == pv.Name:
		_, err := c.setVolumePhase(ctx, pv, corev1.VolumeBound, "")
		return err
	case metav1.HasAnnotation(pv.ObjectMeta, volume.AnnDynamicallyProvisioned) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return c.release(ctx, pv) // it was made for the claim, which has got another
	}
	return c.unbind(ctx, pv)
}

// claimOf is the claim that has reserved a volume; nil when it is gone. Before it says so of a volume in use it asks the server: the volume
// may be newer than what is known of claims.
func (c *Controller) claimOf(ctx context.Context, pv *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	claim, ok := c.claims.get(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	released := pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
	if (!ok || claim.UID != ref.UID) && !released {
		var err error
		claim, err = c.config.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("look for the claim of volume %s: %w", pv.Name, err)
		}
		ok = err == nil
	}
	if !ok || claim.UID != ref.UID {
		return nil, nil
	}
	return claim, nil
}

// release ends a binding whose claim is gone, as the volume's reclaim policy says.
func (c *Controller) release(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Status.Phase != corev1.VolumeReleased && pv.Status.Phase != corev1.VolumeFailed { // people should see a failure
		var err error
		if pv, err = c.setVolumePhase(ctx, pv, corev1.VolumeReleased, ""); err != nil {
			return err
		}
	}
	switch pv.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		// Who has made it deletes it when it sees it released. What CSI drivers have made says so by its source alone.
		by, made := pv.Annotations[volume.AnnDynamicallyProvisioned]
		if made && !strings.HasPrefix(by, "kubernetes.io/") || pv.Spec.CSI != nil {
			return nil
		}
		return c.fail(ctx, pv, reasonVolumeFailedDelete, fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", pv.Name))
	case corev1.PersistentVolumeReclaimRecycle:
		return c.fail(ctx, pv, reasonVolumeFailedRecycle, "No recycler plugin found for the volume!")
	}
	return nil // retained
}

func (c *Controller) fail(ctx context.Context, pv *corev1.PersistentVolume, reason, message string) error {
	if pv.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	updated, err := c.setVolumePhase(ctx, pv, corev1.VolumeFailed, message)
	if err == nil {
		c.config.Recorder.Event(updated, corev1.EventTypeWarning, reason, message)
	}
	return err
}

// unbind takes a volume back from a claim that is bound to another one. A reservation that a person has made stays.
func (c *Controller) unbind(ctx context.Context, pv *corev1.PersistentVolume) error {
	clone := pv.DeepCopy()
	if metav1.HasAnnotation(clone.ObjectMeta, volume.AnnBoundByController) {
		clone.Spec.ClaimRef = nil
		delete(clone.Annotations, volume.AnnBoundByController)
	} else {
		clone.Spec.ClaimRef.UID = ""
	}
	updated, err := c.updateVolume(ctx, clone)
	if err != nil {
		return err
	}
	_, err = c.setVolumePhase(ctx, updated, corev1.VolumeAvailable, "")
	return err
}
