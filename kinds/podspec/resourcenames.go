package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ContainerResourceName checks the name of a resource that containers may ask for.
func ContainerResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	return containerResourceName(name, path)
}

// Overcommittable says whether requests of a resource may be lower than its limits.
func Overcommittable(name corev1.ResourceName) bool { return overcommittable(name) }

// IsExtendedResourceName says whether a device plug-in, a driver or an operator gives out a resource of this name.
func IsExtendedResourceName(name corev1.ResourceName) bool { return isExtended(name) }
