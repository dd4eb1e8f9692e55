package plugins

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// isExtended says that a resource is a device of somebody's: not one of Kubernetes' own.
func isExtended(name corev1.ResourceName) bool {
	s := string(name)
	native := !strings.Contains(s, "/") || strings.Contains(s, corev1.ResourceDefaultNamespacePrefix)
	return !native && !strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix)
}
