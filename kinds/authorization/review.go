package authorization

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSubject checks the question about another one's rights.
func validateSubject(spec *authorizationv1.SubjectAccessReviewSpec, path *field.Path) field.ErrorList {
	errs := validateOneQuestion(spec.ResourceAttributes, spec.NonResourceAttributes, path)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(path.Child("user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(spec.ResourceAttributes, path.Child("resourceAttributes"))...)
}

// validateOneQuestion wants either a resource or a path to be asked about.
func validateOneQuestion(resource *authorizationv1.ResourceAttributes, nonResource *authorizationv1.NonResourceAttributes, path *field.Path) field.ErrorList {
	switch {
	case resource != nil && nonResource != nil:
		return field.ErrorList{field.Invalid(path.Child("nonResourceAttributes"), nonResource, "cannot be specified in combination with resourceAttributes")}
	case resource == nil && nonResource == nil:
		return field.ErrorList{field.Invalid(path.Child("resourceAttributes"), nonResource, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

// validateSelectors lets unknown operators pass: they come from newer clients and only narrow the question.
func validateSelectors(resource *authorizationv1.ResourceAttributes, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if resource == nil {
		return nil
	}
	if s := resource.FieldSelector; s != nil {
		path := path.Child("fieldSelector")
		errs = append(errs, validateEither(s.RawSelector, len(s.Requirements), path)...)
		for i, r := range s.Requirements {
			errs = append(errs, validation.ValidateFieldSelectorRequirement(r,
				validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if s := resource.LabelSelector; s != nil {
		path := path.Child("labelSelector")
		errs = append(errs, validateEither(s.RawSelector, len(s.Requirements), path)...)
		for i, r := range s.Requirements {
			errs = append(errs, validation.ValidateLabelSelectorRequirement(r,
				validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func validateEither(raw string, requirements int, path *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}

// validateNoMetadata refuses metadata on what is not stored; a namespace is looked at elsewhere when except is set.
func validateNoMetadata(meta metav1.ObjectMeta, exceptNamespace bool) field.ErrorList {
	given, detail := meta, "must be empty"
	given.ManagedFields = nil
	if exceptNamespace {
		given.Namespace, detail = "", "must be empty except for namespace"
	}
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, given) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), meta, detail)}
}
