package kubelet_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

// TestNodeStatus_Removed: what the kubelet does not say any more of its node is gone from the Node's status, too. While a volume is said to be in
// use it is not detached.
func TestNodeStatus_Removed(t *testing.T) {
	c := startCluster(t)
	status := func(what string, holds func(corev1.NodeStatus) bool) {
		t.Helper()
		var node *corev1.Node
		eventually.Nil(t, what, says(func() (ok bool) {
			var err error
			if node, err = c.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil {
				return false
			}
			return holds(node.Status)
		}, func() string { return fmt.Sprintf("%+v", node.Status) }))
	}
	var says atomic.Pointer[corev1.NodeStatus]
	says.Store(&corev1.NodeStatus{
		VolumesInUse: []corev1.UniqueVolumeName{"kubernetes.io/csi/disks.example.com^d1"},
		Images:       []corev1.ContainerImage{{Names: []string{"demo:1"}, SizeBytes: 1}},
	})
	describe := func(config *kubelet.Config) {
		config.Describe = func(s *corev1.NodeStatus) {
			s.VolumesInUse, s.Images = says.Load().VolumesInUse, says.Load().Images
		}
	}
	stop := c.run(t, simulated.New(network), func(config *kubelet.Config) {
		describe(config)
		config.Addresses = append(config.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.1"})
	})
	status("the node has a volume, an image and two addresses", func(s corev1.NodeStatus) bool {
		return len(s.VolumesInUse) == 1 && len(s.Images) == 1 && len(s.Addresses) == 2
	})
	says.Store(&corev1.NodeStatus{})
	status("the node has no volume and no image any more", func(s corev1.NodeStatus) bool { return len(s.VolumesInUse) == 0 && len(s.Images) == 0 })
	stop()
	c.run(t, simulated.New(network), describe)
	status("the node has one address", func(s corev1.NodeStatus) bool {
		return len(s.Addresses) == 1 && s.Addresses[0].Type == corev1.NodeInternalIP
	})
}
