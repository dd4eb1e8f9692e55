package noderestriction

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/internal/references"
)

// pod lets kubelets create and delete mirror pods, and report about and evict the pods that are bound to their node.
func (c *check) pod() error {
	switch c.Subresource {
	case "":
		switch c.Operation {
		case admission.Create:
			return c.createPod()
		case admission.Delete:
			return c.ownPod("node %q can only delete pods with spec.nodeName set to itself")
		}
		return c.refuse("unexpected operation %q, node %q can only create and delete mirror pods", c.Operation, c.name)
	case "status":
		return c.podStatus()
	case "eviction":
		if c.Operation != admission.Create {
			return c.refuse("unexpected operation %s", c.Operation)
		}
		return c.ownPod("node %s can only evict pods with spec.nodeName set to itself")
	}
	return c.refuse("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", c.Subresource)
}

// ownPod finds the pod of the request, which has to be bound to the node.
func (c *check) ownPod(refusal string) error {
	obj, err := admission.Find(c.ctx, c.plugin.Reader, pods, c.Namespace, c.Name)
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return admission.Forbidden(c.Attributes, err)
	case obj.(*corev1.Pod).Spec.NodeName != c.name:
		return c.refuse(refusal, c.name)
	}
	return nil
}

func (c *check) createPod() error {
	pod, ok := c.Object.(*corev1.Pod)
	if !ok {
		return c.unexpected(c.Object)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return c.refuse("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, c.name)
	}
	if pod.Spec.NodeName != c.name {
		return c.refuse("node %q can only create pods with spec.nodeName set to itself", c.name)
	}
	if err := c.podOwner(pod); err != nil {
		return err
	}
	refs := references.Of(pod)
	switch {
	case pod.Spec.ServiceAccountName != "":
		return c.refuse("node %q can not create pods that reference a service account", c.name)
	case refs.Secrets:
		return c.refuse("node %q can not create pods that reference secrets", c.name)
	case refs.ConfigMaps:
		return c.refuse("node %q can not create pods that reference configmaps", c.name)
	case refs.TrustBundles:
		return c.refuse("node %q can not create pods that reference clustertrustbundles", c.name)
	case refs.Claims:
		return c.refuse("node %q can not create pods that reference persistentvolumeclaims", c.name)
	case refs.ResourceClaims:
		return c.refuse("node %q can not create pods that reference resourceclaims", c.name)
	}
	return nil
}

// podOwner wants the node as the only owner of a mirror pod, in its present incarnation.
func (c *check) podOwner(pod *corev1.Pod) error {
	if len(pod.OwnerReferences) > 1 {
		return c.refuse("node %q can only create pods with a single owner reference set to itself", c.name)
	}
	if len(pod.OwnerReferences) == 0 {
		return c.refuse("node %q can only create pods with an owner reference set to itself", c.name)
	}
	owner := pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1", owner.Kind != "Node", owner.Name != c.name:
		return c.refuse("node %q can only create pods with an owner reference set to itself", c.name)
	case owner.Controller == nil, !*owner.Controller:
		return c.refuse("node %q can only create pods with a controller owner reference set to itself", c.name)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return c.refuse("node %q must not set blockOwnerDeletion on an owner reference", c.name)
	}
	node, err := admission.Find(c.ctx, c.plugin.Reader, nodes, "", c.name)
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return c.refuse("error looking up node %s to verify uid: %w", c.name, err)
	case owner.UID != node.GetUID():
		return c.refuse("node %s UID mismatch: expected %s got %s", c.name, owner.UID, node.GetUID())
	}
	return nil
}

func (c *check) podStatus() error {
	if c.Operation != admission.Update {
		return c.refuse("unexpected operation %q", c.Operation)
	}
	old, ok := c.Old.(*corev1.Pod)
	if !ok {
		return c.unexpected(c.Old)
	}
	if old.Spec.NodeName != c.name {
		return c.refuse("node %q can only update pod status for pods with spec.nodeName set to itself", c.name)
	}
	pod, ok := c.Object.(*corev1.Pod)
	if !ok {
		return c.unexpected(c.Object)
	}
	switch {
	case !maps.Equal(old.Labels, pod.Labels):
		return c.refuse("node %q cannot update labels through pod status", c.name)
	case !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return c.refuse("node %q cannot update resource claim statues", c.name)
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return c.refuse("node %q cannot update extended resource claim statues", c.name)
	}
	return nil
}
