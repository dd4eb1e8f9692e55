package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
