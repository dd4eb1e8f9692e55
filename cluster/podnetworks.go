package cluster

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// PodNetworks says which networks Nodes get for their pods. The names are those of kube-controller-manager's flags.
type PodNetworks struct {
	Allocate     bool           // --allocate-node-cidrs
	ClusterCIDRs []netip.Prefix // --cluster-cidr: one, or one of each family
	ServiceCIDRs []netip.Prefix // --service-cluster-ip-range: not for pods
	MaskSizeIPv4 int            // --node-cidr-mask-size, --node-cidr-mask-size-ipv4; 0: 24
	MaskSizeIPv6 int            // --node-cidr-mask-size-ipv6; 0: 64
}

// defaultClusterCIDR is the network of all pods when nobody says otherwise: 10.244.0.0/16 has 256 nodes of 254 pods. For more
// nodes it is one that has that in it, so that Nodes keep theirs when their number grows.
func defaultClusterCIDR(nodes int) netip.Prefix {
	if nodes <= 256 {
		return netip.MustParsePrefix("10.244.0.0/16")
	}
	return netip.MustParsePrefix("10.240.0.0/12")
}

// podNetworks are those of a cluster that is run by Up.
func (c *UpConfig) podNetworks() PodNetworks {
	networks := PodNetworks{Allocate: true, ClusterCIDRs: c.ClusterCIDRs, ServiceCIDRs: c.APIServer.ServiceRanges}
	if len(networks.ClusterCIDRs) == 0 {
		networks.ClusterCIDRs = []netip.Prefix{defaultClusterCIDR(c.Nodes)}
	}
	return networks
}

// nodeNetworkRole lets nodes see each other: routes to their pods are made from the Node objects. A node's own rights are for its
// own Node alone (KEP-4601), as network plug-ins have accounts of their own. Clusters of simulated nodes do without.
const nodeNetworkRole = "vigil:node-network"

// letNodesSeeNodes makes the role that kubelets need for a --node-network-mode other than none.
func letNodesSeeNodes(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: nodeNetworkRole},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"list", "watch"}, APIGroups: []string{corev1.GroupName}, Resources: []string{"nodes"}}},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: nodeNetworkRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: nodeNetworkRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
		}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("let nodes see each other: %w", err)
	}
	return nil
}
