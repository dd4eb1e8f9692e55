package localprovisioner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"vigil/informer/workqueue"
	"vigil/internal/localvolume"
)

// nodeError is an error of the selected node: another one may do.
type nodeError struct{ err error }

func (e *nodeError) Error() string { return e.err.Error() }

// claim makes the volume of a claim whose turn it is.
func (c *Controller) claim(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	claim, err := c.claims.Get(key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Annotations[volume.AnnStorageProvisioner] != localvolume.Provisioner {
		return 0, nil
	}
	class, err := c.classes.Get("", volume.GetPersistentVolumeClaimClass(claim))
	if apierrors.IsNotFound(err) {
		return 0, nil // the binder says so
	}
	if err != nil || class.Provisioner != localvolume.Provisioner {
		return 0, err
	}
	node := claim.Annotations[volume.AnnSelectedNode]
	if node == "" && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
		return 0, nil // no pod needs it yet
	}
	if _, err := c.volumes.Get("", localvolume.Name(claim.UID)); err == nil {
		return 0, nil // made; the binder does the rest
	}
	c.config.Recorder.Eventf(claim, corev1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", key)
	pv, err := c.plan(claim, class, node)
	if err == nil {
		if pv, err = c.config.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			return 0, nil
		}
	}
	if err != nil {
		return 0, c.failed(ctx, claim, class, err)
	}
	c.config.Recorder.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", pv.Name)
	return 0, nil
}

// failed tells the claim. When it was the node's fault, the scheduler may select another.
func (c *Controller) failed(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, err error) error {
	c.config.Recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", class.Name, err)
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown { // the server's: it may be better next time
		return err
	}
	var other *nodeError
	if !errors.As(err, &other) {
		return workqueue.Terminal(err)
	}
	clone := claim.DeepCopy()
	delete(clone.Annotations, volume.AnnSelectedNode)
	if _, err := c.config.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, clone, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("give claim %s/%s back to the scheduler: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// plan is the volume for a claim on a node.
func (c *Controller) plan(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, nodeName string) (*corev1.PersistentVolume, error) {
	switch {
	case nodeName == "":
		return nil, errors.New("the volumes of this provisioner are on one node: its classes need volumeBindingMode WaitForFirstConsumer")
	case claim.Spec.Selector != nil:
		return nil, errors.New("claim Selector is not supported")
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return nil, errors.New("data sources are not supported")
	case claim.Spec.VolumeAttributesClassName != nil && *claim.Spec.VolumeAttributesClassName != "":
		return nil, errors.New("volume attributes classes are not supported")
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode != corev1.PersistentVolumeFilesystem:
		return nil, fmt.Errorf("volumeMode %s is not supported: local volumes are directories", *claim.Spec.VolumeMode)
	case slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany), slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany):
		return nil, errors.New("only the access modes ReadWriteOnce and ReadWriteOncePod are supported: local volumes are on one node")
	}
	node, err := c.nodes.Get("", nodeName)
	if err != nil {
		return nil, &nodeError{fmt.Errorf("node %q not found", nodeName)}
	}
	dir, host := node.Annotations[localvolume.DirAnnotation], node.Labels[corev1.LabelHostname]
	if !filepath.IsAbs(dir) || host == "" {
		return nil, &nodeError{fmt.Errorf("node %q has no local volumes", nodeName)}
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	name := localvolume.Name(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{volume.AnnDynamicallyProvisioned: localvolume.Provisioner, localvolume.NodeAnnotation: nodeName},
			Finalizers:  []string{volume.PVDeletionProtectionFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name, VolumeMode: claim.Spec.VolumeMode,
			AccessModes:            claim.Spec.AccessModes,
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(dir, name)}},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}, nil
}
