package node

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/server"
)

// self is the node's own Node: as the API server has it, or, while it does not answer, as the kubelet will make it. Pods of
// manifests are admitted before there is an API server.
func (n *Node) self() (*corev1.Node, error) {
	node, err := n.node.Get("", n.name)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		node, err = n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{ResourceVersion: "0"})
	}
	if err != nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: n.kubelet.NodeLabels()}}
	}
	if len(node.Status.Allocatable) == 0 { // somebody else has made the object
		node.Status.Allocatable = n.allocatable
	}
	return node, nil
}

// describe completes the Node's status.
func (n *Node) describe(status *corev1.NodeStatus) {
	status.DaemonEndpoints.KubeletEndpoint.Port = int32(cmp.Or(n.config.Server.Port, server.DefaultPort))
	n.runtime.Describe(status)
	n.describeImages(status)
	status.VolumesInUse = n.csi.InUse()
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if reason, message, known := pressureWords(c.Type); known && n.eviction.Under(c.Type) {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message
		}
	}
}

// pressureWords are upstream's (nodestatus/setters.go).
func pressureWords(condition corev1.NodeConditionType) (reason, message string, known bool) {
	switch condition {
	case corev1.NodeMemoryPressure:
		return "KubeletHasInsufficientMemory", "kubelet has insufficient memory available", true
	case corev1.NodeDiskPressure:
		return "KubeletHasDiskPressure", "kubelet has disk pressure", true
	case corev1.NodePIDPressure:
		return "KubeletHasInsufficientPID", "kubelet has insufficient PID available", true
	}
	return "", "", false
}
