package persistentvolume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// Reasons of events, upstream's (pkg/controller/volume/events).
const (
	reasonFailedBinding        = "FailedBinding"
	reasonVolumeMismatch       = "VolumeMismatch"
	reasonClaimLost            = "ClaimLost"
	reasonClaimMisbound        = "ClaimMisbound"
	reasonWaitForFirstConsumer = "WaitForFirstConsumer"
	reasonWaitForPodScheduled  = "WaitForPodScheduled"
	reasonExternalProvisioning = "ExternalProvisioning"
	reasonProvisioningFailed   = "ProvisioningFailed"
	reasonVolumeFailedDelete   = "VolumeFailedDelete"
	reasonVolumeFailedRecycle  = "VolumeFailedRecycle"
)

// claim brings a claim further.
func (c *Controller) claim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	switch {
	case bound(claim):
		return c.boundClaim(ctx, claim)
	case claim.Spec.VolumeName != "":
		return c.reservedClaim(ctx, claim)
	}
	return c.freeClaim(ctx, claim)
}

// freeClaim finds a volume for a claim that takes any.
func (c *Controller) freeClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	delayed, err := c.delayed(claim)
	if err != nil {
		return err
	}
	pv, err := c.match(claim, delayed)
	if err != nil {
		return fmt.Errorf("find a volume for claim %s: %w", keyOf(claim), err)
	}
	if pv != nil {
		return c.bind(ctx, pv, claim)
	}
	if assigned, err := c.assignDefaultClass(ctx, claim); err != nil || assigned {
		return err
	}
	switch {
	case delayed && !volume.IsDelayBindingProvisioning(claim):
		if err := c.tellWaiting(claim); err != nil {
			return err
		}
	case volume.GetPersistentVolumeClaimClass(claim) != "":
		if claim, err = c.provision(ctx, claim); err != nil {
			return err
		}
	default:
		c.config.Recorder.Event(claim, corev1.EventTypeNormal, reasonFailedBinding, "no persistent volumes available for this claim and no storage class is set")
	}
	_, err = c.setClaimPhase(ctx, claim, corev1.ClaimPending, nil)
	return err
}

// delayed says that the claim's class waits for the first pod.
func (c *Controller) delayed(claim *corev1.PersistentVolumeClaim) (bool, error) {
	name := volume.GetPersistentVolumeClaimClass(claim)
	if name == "" {
		return false, nil
	}
	class, err := c.classes.Get("", name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

// assignDefaultClass gives the default class to a claim that was made when there was none (KEP-3333).
func (c *Controller) assignDefaultClass(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if volume.PersistentVolumeClaimHasClass(claim) {
		return false, nil
	}
	classes, err := c.classes.List("", nil)
	if err != nil {
		return false, err
	}
	class := defaultClass(classes)
	if class == nil {
		return false, nil
	}
	clone := claim.DeepCopy()
	clone.Spec.StorageClassName = &class.Name
	_, err = c.updateClaim(ctx, clone)
	return err == nil, err
}

// defaultClass is the newest of the classes that are marked as default; nil when there is none.
func defaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for _, class := range classes {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" && class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&class.CreationTimestamp) ||
			best.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < best.Name {
			best = class
		}
	}
	return best
}

// tellWaiting says which pods a claim waits for.
func (c *Controller) tellWaiting(claim *corev1.PersistentVolumeClaim) error {
	pods, err := c.pods.List(claim.Namespace, nil)
	if err != nil {
		return err
	}
	var names []string
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && uses(pod, claim.Name) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		c.config.Recorder.Event(claim, corev1.EventTypeNormal, reasonWaitForFirstConsumer, "waiting for first consumer to be created before binding")
	case 1:
		c.config.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonWaitForPodScheduled, "waiting for pod %s to be scheduled", names[0])
	default:
		c.config.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonWaitForPodScheduled, "waiting for pods %s to be scheduled", strings.Join(names, ","))
	}
	return nil
}

func uses(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim || v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, &v) == claim
	})
}

// provision tells the provisioner of the claim's class that it is its turn.
func (c *Controller) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	name := volume.GetPersistentVolumeClaimClass(claim)
	class, err := c.classes.Get("", name)
	if apierrors.IsNotFound(err) { // the claim is looked at again when the class comes
		err = apierrors.NewNotFound(storagev1.Resource("storageclass"), name)
		c.config.Recorder.Event(claim, corev1.EventTypeWarning, reasonProvisioningFailed, err.Error())
		return claim, nil
	}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(class.Provisioner, "kubernetes.io/") { // those were in upstream's tree, or are none
		c.config.Recorder.Eventf(claim, corev1.EventTypeWarning, reasonProvisioningFailed, "no volume plugin matched name: %s", class.Provisioner)
		return claim, nil
	}
	if claim.Annotations[volume.AnnStorageProvisioner] != class.Provisioner {
		clone := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&clone.ObjectMeta, volume.AnnBetaStorageProvisioner, class.Provisioner)
		metav1.SetMetaDataAnnotation(&clone.ObjectMeta, volume.AnnStorageProvisioner, class.Provisioner)
		if claim, err = c.updateClaim(ctx, clone); err != nil {
			return nil, err
		}
	}
	c.config.Recorder.Eventf(claim, corev1.EventTypeNormal, reasonExternalProvisioning, "Waiting for a volume to be created either by the external provisioner '%s' or "+
		"manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", class.Provisioner)
	return claim, nil
}

// reservedClaim binds a claim that names its volume.
func (c *Controller) reservedClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pv, ok := c.volumeOf(claim)
	pending := func() error {
		_, err := c.setClaimPhase(ctx, claim, corev1.ClaimPending, nil)
		return err
	}
	switch {
	case !ok:
		return pending()
	case pv.Spec.ClaimRef == nil:
		if err := satisfies(pv, claim); err != nil {
			c.config.Recorder.Eventf(claim, corev1.EventTypeWarning, reasonVolumeMismatch, "Cannot bind to requested volume %q: %v", pv.Name, err)
			return pending()
		}
		return c.bind(ctx, pv, claim)
	case volume.IsVolumeBoundToClaim(pv, claim):
		return c.bind(ctx, pv, claim)
	case !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBoundByController):
		ref := pv.Spec.ClaimRef
		c.config.Recorder.Eventf(claim, corev1.EventTypeWarning, reasonFailedBinding, "volume %q already bound to a different claim.", pv.Name)
		c.config.Logger.Debug("the volume that a claim names is bound to another claim; the claim waits", "volume", pv.Name, "claim", keyOf(claim), "other", ref.Namespace+"/"+ref.Name)
		return pending()
	}
	return fmt.Errorf("invalid binding of claim %s to volume %q: volume already claimed by %s/%s", keyOf(claim), pv.Name, pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
}

// boundClaim looks whether a claim still has its volume.
func (c *Controller) boundClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	lost := func(reason, message string) error {
		if claim.Status.Phase == corev1.ClaimLost {
			return nil
		}
		updated, err := c.setClaimPhase(ctx, claim, corev1.ClaimLost, nil)
		if err == nil {
			c.config.Recorder.Event(updated, corev1.EventTypeWarning, reason, message)
		}
		return err
	}
	if claim.Spec.VolumeName == "" {
		return lost(reasonClaimLost, "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	pv, ok := c.volumeOf(claim)
	switch {
	case !ok:
		return lost(reasonClaimLost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case pv.Spec.ClaimRef == nil, pv.Spec.ClaimRef.UID == claim.UID:
		return c.bind(ctx, pv, claim)
	}
	return lost(reasonClaimMisbound, "Two claims are bound to the same volume, this one is bound incorrectly")
}
