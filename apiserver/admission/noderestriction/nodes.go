package noderestriction

import (
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/admission"
)

// node lets kubelets write their own Node, but not what decides which pods come to it, nor which packets: other nodes route the pod networks that
// are in it. Upstream, where routes are a cloud's or a network plug-in's, lets kubelets set those.
func (c *check) node() error {
	name := c.Name
	if node, ok := c.Object.(*corev1.Node); ok && name == "" {
		name = node.Name
	}
	if name != c.name {
		return c.refuse("node %q is not allowed to modify node %q", c.name, name)
	}
	if c.Operation == admission.Delete {
		return nil
	}
	node, ok := c.Object.(*corev1.Node)
	if !ok {
		return c.unexpected(c.Object)
	}
	if c.Operation == admission.Create {
		//lint:ignore SA1019 a kubelet must not get to other objects by it
		if node.Spec.ConfigSource != nil {
			return c.refuse("node %q is not allowed to create pods with a non-nil configSource", c.name)
		}
		if forbidden := forbiddenLabels(node.Labels, nil); len(forbidden) > 0 {
			return c.refuse("node %q is not allowed to set the following labels: %s", c.name, strings.Join(forbidden, ", "))
		}
		if node.Spec.PodCIDR != "" || len(node.Spec.PodCIDRs) > 0 {
			return c.refuse("node %q is not allowed to set podCIDRs", c.name)
		}
		return nil
	}
	old, ok := c.Old.(*corev1.Node)
	if !ok {
		return c.unexpected(c.Old)
	}
	//lint:ignore SA1019 a kubelet must not get to other objects by it
	if node.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(node.Spec.ConfigSource, old.Spec.ConfigSource) {
		return c.refuse("node %q is not allowed to update configSource to a new non-nil configSource", c.name)
	}
	if !equality.Semantic.DeepEqual(node.Spec.Taints, old.Spec.Taints) {
		return c.refuse("node %q is not allowed to modify taints", c.name)
	}
	if node.Spec.PodCIDR != old.Spec.PodCIDR || !slices.Equal(node.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		return c.refuse("node %q is not allowed to modify podCIDRs", c.name)
	}
	if forbidden := forbiddenLabels(node.Labels, old.Labels); len(forbidden) > 0 {
		return c.refuse("is not allowed to modify labels: %s", strings.Join(forbidden, ", "))
	}
	if !equality.Semantic.DeepEqual(node.OwnerReferences, old.OwnerReferences) {
		return c.refuse("node %q is not allowed to modify ownerReferences", c.name)
	}
	return nil
}

// kubeletLabels are the labels of Kubernetes' own that kubelets may set, besides those in kubeletNamespaces.
var kubeletLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
	corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

var kubeletNamespaces = []string{corev1.LabelNamespaceSuffixKubelet, corev1.LabelNamespaceSuffixNode}

// forbiddenLabels are the labels that differ between two sets and that a kubelet may not change, sorted.
func forbiddenLabels(a, b map[string]string) []string {
	forbidden := map[string]bool{}
	look := func(a, b map[string]string) {
		for key, value := range a {
			if other, ok := b[key]; (!ok || other != value) && !mayLabel(key) {
				forbidden[key] = true
			}
		}
	}
	look(a, b)
	look(b, a)
	return slices.Sorted(maps.Keys(forbidden))
}

// mayLabel says whether a kubelet may set a label.
func mayLabel(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	in := func(domain string) bool { return namespace == domain || strings.HasSuffix(namespace, "."+domain) }
	switch {
	case in(corev1.LabelNamespaceNodeRestriction):
		return false
	case !in("kubernetes.io") && !in("k8s.io"):
		return true
	}
	return slices.Contains(kubeletLabels, key) || slices.ContainsFunc(kubeletNamespaces, in)
}

// lease lets kubelets have the lease that tells they are alive.
func (c *check) lease() error {
	if c.Namespace != corev1.NamespaceNodeLease {
		return c.refuse("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	name := c.Name
	if lease, ok := c.Object.(*coordinationv1.Lease); ok && c.Operation == admission.Create {
		name = lease.Name
	}
	if name != c.name {
		return c.refuse("can only access node lease with the same name as the requesting node")
	}
	return nil
}

// csiNode lets kubelets say which volume drivers their node has.
func (c *check) csiNode() error {
	name := c.Name
	if obj, ok := c.Object.(metav1.Object); ok && c.Operation == admission.Create {
		name = obj.GetName()
	}
	if name != c.name {
		return c.refuse("can only access CSINode with the same name as the requesting node")
	}
	return nil
}

// resourceSlice lets kubelets publish the devices of their node.
func (c *check) resourceSlice() error {
	if c.Operation != admission.Create {
		return nil // which ones it may change or delete is the authorizer's to say
	}
	slice, ok := c.Object.(*resourcev1.ResourceSlice)
	if !ok {
		return c.unexpected(c.Object)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != c.name {
		return c.refuse("can only create ResourceSlice with the same NodeName as the requesting node")
	}
	return nil
}
