package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WarningsForClaimSpec says what in the claim at path is allowed and yet probably not meant: parts of bytes.
func WarningsForClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var warnings []string
	for _, list := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", spec.Resources.Requests}, {"limits", spec.Resources.Limits}} {
		if value, ok := list.list[corev1.ResourceStorage]; ok && value.MilliValue()%1000 != 0 {
			at := path.Child("resources", list.name).Key(string(corev1.ResourceStorage))
			warnings = append(warnings, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer", at, value.String()))
		}
	}
	return warnings
}
