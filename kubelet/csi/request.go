package csi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/volumes"
)

// source is what a pod's volume says of CSI, whether by a PersistentVolume or in the pod.
type source struct {
	data
	attributes                 map[string]string
	fsType                     string
	options                    []string // of mount(8)
	modes                      []corev1.PersistentVolumeAccessMode
	readOnly                   bool
	stageSecret, publishSecret *corev1.SecretReference

	object *storagev1.CSIDriver // nil: there is none
	attach map[string]string    // what the driver's controller said when it attached the volume
}

// sourceOf reads a volume. What it shares with the informers is not changed.
func (p *Plugin) sourceOf(v *volumes.Volume) *source {
	if pv := v.PV; pv != nil {
		c := pv.Spec.CSI
		return &source{
			data:       data{Volume: pv.Name, Handle: c.VolumeHandle, Driver: c.Driver, Node: p.node, Lifecycle: persistent},
			attributes: c.VolumeAttributes, fsType: c.FSType, options: pv.Spec.MountOptions, modes: pv.Spec.AccessModes, readOnly: v.ReadOnly,
			stageSecret: c.NodeStageSecretRef, publishSecret: c.NodePublishSecretRef,
		}
	}
	c := v.Spec.CSI
	handle := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(v.Pod.UID)+v.Spec.Name)))
	s := &source{
		data:       data{Volume: v.Spec.Name, Handle: handle, Driver: c.Driver, Node: p.node, Lifecycle: ephemeral},
		attributes: c.VolumeAttributes, readOnly: c.ReadOnly != nil && *c.ReadOnly,
	}
	if c.FSType != nil {
		s.fsType = *c.FSType
	}
	if c.NodePublishSecretRef != nil {
		s.publishSecret = &corev1.SecretReference{Namespace: v.Pod.Namespace, Name: c.NodePublishSecretRef.Name}
	}
	return s
}

// describe finds what the cluster says of the driver.
func (p *Plugin) describe(ctx context.Context, s *source) error {
	object, err := p.client.StorageV1().CSIDrivers().Get(ctx, s.Driver, metav1.GetOptions{})
	if err == nil {
		s.object = object
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get CSIDriver %s: %w", s.Driver, err)
	}
	return s.checkLifecycle()
}

// awaitAttach finds the VolumeAttachment when one is needed, and fails when the volume is not attached.
func (p *Plugin) awaitAttach(ctx context.Context, s *source) error {
	if s.Lifecycle == ephemeral || s.object != nil && s.object.Spec.AttachRequired != nil && !*s.object.Spec.AttachRequired {
		return nil
	}
	name := attachmentName(s.Handle, s.Driver, p.node)
	attachment, err := p.client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		err = fmt.Errorf("volume %v has GET error for volume attachment %v: %w", s.Handle, name, err)
		return &volumes.StepError{Step: "MountVolume.WaitForAttach", Err: err}
	}
	if !attachment.Status.Attached {
		err = fmt.Errorf("volume %v is not attached yet by volume attachment %v", s.Handle, name)
		if e := attachment.Status.AttachError; e != nil {
			err = fmt.Errorf("%s", e.Message)
		}
		return &volumes.StepError{Step: "MountVolume.WaitForAttach", Err: err}
	}
	s.Attachment, s.attach = name, attachment.Status.AttachmentMetadata
	return nil
}

// attachmentName names the VolumeAttachment of a volume and a node.
func attachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// republished says that the driver wants the volume published again from time to time.
func (s *source) republished() bool {
	return s.object != nil && s.object.Spec.RequiresRepublish != nil && *s.object.Spec.RequiresRepublish
}

// checkLifecycle fails when the driver does not make such volumes.
func (s *source) checkLifecycle() error {
	if s.object == nil {
		if s.Lifecycle == ephemeral {
			return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", s.Lifecycle, s.Driver)
		}
		return nil
	}
	modes := s.object.Spec.VolumeLifecycleModes
	if len(modes) == 0 && s.Lifecycle == persistent || slices.Contains(modes, storagev1.VolumeLifecycleMode(s.Lifecycle)) {
		return nil
	}
	return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", s.Lifecycle, s.Driver, modes)
}

// capability describes the volume as the driver should make it.
func (s *source) capability(v *volumes.Volume, can capabilities) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: s.accessMode(can)}}
	if v.Block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	mount := &csi.VolumeCapability_MountVolume{FsType: s.fsType, MountFlags: s.options}
	if group := v.FSGroup(); group != nil && can[csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		mount.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: mount}
	return c
}

// accessMode is the first of the volume's, in CSI's terms.
func (s *source) accessMode(can capabilities) csi.VolumeCapability_AccessMode_Mode {
	mode := corev1.ReadWriteOnce
	if len(s.modes) > 0 {
		mode = s.modes[0]
	}
	multi := can[csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER]
	switch {
	case mode == corev1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == corev1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == corev1.ReadWriteOncePod && multi:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case multi:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// owned says that it is the kubelet who gives the volume's files to the pod's fsGroup.
func (s *source) owned(v *volumes.Volume, can capabilities) bool {
	if s.readOnly || v.Block || can[csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if s.object != nil && s.object.Spec.FSGroupPolicy != nil {
		policy = *s.object.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	once := slices.Contains(s.modes, corev1.ReadWriteOnce) || slices.Contains(s.modes, corev1.ReadWriteOncePod)
	return s.fsType != "" && (s.Lifecycle == ephemeral || once)
}

// secrets are the contents of a Secret that the volume names; nil when it names none.
func (p *Plugin) secrets(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	secret, err := p.client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to find the secret %s in the namespace %s with error: %w", ref.Name, ref.Namespace, err)
	}
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key] = string(value)
	}
	return values, nil
}

const contextPrefix = "csi.storage.k8s.io/"

// tokensKey is the name under which drivers find the pod's tokens.
const tokensKey = contextPrefix + "serviceAccount.tokens"

// publishContext is what the driver hears of the volume and the pod, and what of that is secret.
func (p *Plugin) publishContext(ctx context.Context, s *source, pod *corev1.Pod) (attributes, secrets map[string]string, err error) {
	if secrets, err = p.secrets(ctx, s.publishSecret); err != nil {
		return nil, nil, fmt.Errorf("fetching NodePublishSecretRef %s/%s failed: %w", s.publishSecret.Namespace, s.publishSecret.Name, err)
	}
	attributes = map[string]string{}
	maps.Copy(attributes, s.attributes)
	if s.object == nil {
		return attributes, secrets, nil
	}
	spec := &s.object.Spec
	if spec.PodInfoOnMount != nil && *spec.PodInfoOnMount {
		attributes[contextPrefix+"pod.name"] = pod.Name
		attributes[contextPrefix+"pod.namespace"] = pod.Namespace
		attributes[contextPrefix+"pod.uid"] = string(pod.UID)
		attributes[contextPrefix+"serviceAccount.name"] = pod.Spec.ServiceAccountName
		attributes[contextPrefix+"ephemeral"] = strconv.FormatBool(s.Lifecycle == ephemeral)
	}
	if len(spec.TokenRequests) == 0 {
		return attributes, secrets, nil
	}
	tokens, err := p.tokens.get(ctx, pod, spec.TokenRequests)
	if err != nil {
		return nil, nil, err
	}
	if spec.ServiceAccountTokenInSecrets != nil && *spec.ServiceAccountTokenInSecrets {
		if secrets == nil {
			secrets = map[string]string{}
		}
		secrets[tokensKey] = tokens
	} else {
		attributes[tokensKey] = tokens
	}
	return attributes, secrets, nil
}

// safeName says that a name from an object can be part of a path.
func safeName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}
