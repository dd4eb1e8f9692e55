package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// Options says what a caller tolerates.
type Options struct {
	// Pod is true for a pod, false for the template of one.
	Pod bool
}

// Validate checks a pod spec after defaulting.
func Validate(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path, opts Options) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for i, c := range spec.Containers {
		at := path.Child("containers").Index(i)
		errs = append(errs, validate.Each(c.Name, at.Child("name"), validation.IsDNS1123Label)...)
		if c.Image == "" {
			errs = append(errs, field.Required(at.Child("image"), ""))
		}
	}
	return errs
}
