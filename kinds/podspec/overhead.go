package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateOverhead checks the resources that running a pod takes beyond its containers, by the rules of a container's
// limits. As upstream, errors name limits under path.
func ValidateOverhead(overhead corev1.ResourceList, path *field.Path) field.ErrorList {
	var c checker
	c.checkResourceList(&corev1.ResourceRequirements{Limits: overhead}, containerResourceName, path)
	return c.errs
}
