package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds"
	"vigil/kinds/column"
)

const (
	nodeRolePrefix = "node-role.kubernetes.io/"
	nodeRoleLabel  = "kubernetes.io/role"
)

var nodeColumns = []metav1.TableColumnDefinition{
	column.Name(),
	column.Text("Status", "Whether the node is ready for pods."),
	column.Text("Roles", "The roles that labels of the node name."),
	column.Age(),
	column.Text("Version", corev1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"]),
	column.Wide(column.Text("Internal-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])),
	column.Wide(column.Text("External-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])),
	column.Wide(column.Text("OS-Image", corev1.NodeSystemInfo{}.SwaggerDoc()["osImage"])),
	column.Wide(column.Text("Kernel-Version", corev1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"])),
	column.Wide(column.Text("Container-Runtime", corev1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"])),
}

func nodeRow(obj kinds.Object, now time.Time) []any {
	node := obj.(*corev1.Node)
	info := node.Status.NodeInfo
	return []any{
		node.Name,
		nodeStatus(node),
		column.Or(strings.Join(nodeRoles(node.Labels), ","), column.None),
		column.Since(node.CreationTimestamp, now),
		info.KubeletVersion,
		nodeAddress(node, corev1.NodeInternalIP),
		nodeAddress(node, corev1.NodeExternalIP),
		column.Or(info.OSImage, column.Unknown),
		column.Or(info.KernelVersion, column.Unknown),
		column.Or(info.ContainerRuntimeVersion, column.Unknown),
	}
}

func nodeStatus(node *corev1.Node) string {
	status := "Unknown"
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(labels map[string]string) []string {
	var roles []string
	for key, value := range labels {
		if role, ok := strings.CutPrefix(key, nodeRolePrefix); ok && role != "" {
			roles = append(roles, role)
		}
		if key == nodeRoleLabel && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return column.None
}
