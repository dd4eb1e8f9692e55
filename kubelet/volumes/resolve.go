package volumes

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// usedVolumes are the names of the volumes that containers of a pod mount, or use as devices. Others are not made.
type usedVolumes struct{ mounts, devices map[string]bool }

func used(pod *corev1.Pod) usedVolumes {
	u := usedVolumes{map[string]bool{}, map[string]bool{}}
	add := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) {
		for _, m := range mounts {
			u.mounts[m.Name] = true
		}
		for _, d := range devices {
			u.devices[d.Name] = true
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].VolumeMounts, pod.Spec.InitContainers[i].VolumeDevices)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].VolumeMounts, pod.Spec.Containers[i].VolumeDevices)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	return u
}

// resolve finds out what a volume of a pod is. That of a claim is what the claim is bound to.
func (m *Manager) resolve(ctx context.Context, pod *corev1.Pod, spec *corev1.Volume, wanted usedVolumes) (*Volume, error) {
	v := &Volume{Pod: pod, Spec: spec}
	name := ""
	switch {
	case spec.PersistentVolumeClaim != nil:
		name, v.ReadOnly = spec.PersistentVolumeClaim.ClaimName, spec.PersistentVolumeClaim.ReadOnly
	case spec.Ephemeral != nil:
		name = ephemeral.VolumeClaimName(pod, spec)
	default:
		if wanted.devices[spec.Name] {
			return nil, fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", spec.Name)
		}
		return v, nil
	}
	if err := m.resolveClaim(ctx, v, name); err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	mode := corev1.PersistentVolumeFilesystem
	if v.PV.Spec.VolumeMode != nil {
		mode = *v.PV.Spec.VolumeMode
	}
	v.Block = mode == corev1.PersistentVolumeBlock
	if wanted.mounts[spec.Name] && v.Block {
		return nil, fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", spec.Name, mode)
	}
	if wanted.devices[spec.Name] && !v.Block {
		return nil, fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", spec.Name, mode)
	}
	return v, nil
}

// resolveClaim finds the claim and the volume that it is bound to.
func (m *Manager) resolveClaim(ctx context.Context, v *Volume, name string) error {
	claim, err := m.config.Client.CoreV1().PersistentVolumeClaims(v.Pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if v.Spec.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(v.Pod, claim); err != nil {
			return err
		}
	}
	switch {
	case claim.DeletionTimestamp != nil && v.Pod.Status.StartTime == nil: // pods that run keep their claims
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	pv, err := m.config.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	}
	if pv.Spec.ClaimRef == nil {
		return fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	}
	if pv.Spec.ClaimRef.UID != claim.UID {
		return fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, pv.Spec.ClaimRef.UID, claim.UID)
	}
	v.Claim, v.PV = claim, pv
	return nil
}

// allowed fails when the persistent volume cannot be reached from this node.
func (m *Manager) allowed(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv == nil || pv.Spec.NodeAffinity == nil {
		return nil
	}
	node, err := m.config.Client.CoreV1().Nodes().Get(ctx, m.config.NodeName, metav1.GetOptions{})
	if err != nil {
		return &StepError{"MountVolume.NodeAffinity check", fmt.Errorf("get node %s: %w", m.config.NodeName, err)}
	}
	if err := volume.CheckNodeAffinity(pv, node.Labels); err != nil {
		return &StepError{"MountVolume.NodeAffinity check", err}
	}
	return nil
}

// gidAnnotation names the group that may use a persistent volume.
const gidAnnotation = "pv.beta.kubernetes.io/gid"

// groupOf is the group that a persistent volume's annotation names.
func groupOf(pv *corev1.PersistentVolume) (gid int64, ok bool) {
	if pv == nil {
		return 0, false
	}
	gid, err := strconv.ParseInt(pv.Annotations[gidAnnotation], 10, 64)
	return gid, err == nil && gid > 0
}
