// Package validate has the checks that many kinds share: numbers, names, selectors, immutable fields, each returning
// field errors with upstream's paths and texts (clients and tests look for them). What concerns one kind only belongs
// into its file; what concerns pod specs into kinds/podspec. The checks of k8s.io/apimachinery are used directly
// where they exist.
package validate

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NonNegative rejects numbers below zero.
func NonNegative(value int64, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}

// NonNegativePtr is NonNegative for a field that may be absent.
func NonNegativePtr[T int32 | int64](value *T, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	return NonNegative(int64(*value), path)
}

// Immutable rejects any difference between value and old (semantically: nil and empty are the same).
func Immutable(value, old any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, path)
}

// Each turns the texts of a k8s.io/apimachinery check (validation.IsDNS1123Label and its like) into errors of value.
func Each(value string, path *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, text := range check(value) {
		errs = append(errs, field.Invalid(path, value, text))
	}
	return errs
}

// Name checks a reference to an object whose name is a DNS-1123 subdomain, the rule of most kinds.
func Name(name string, path *field.Path) field.ErrorList {
	return Each(name, path, subdomain)
}

func subdomain(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) }

// QualifiedName checks names like example.com/x.
func QualifiedName(name string, path *field.Path) field.ErrorList {
	return Each(name, path, validation.IsQualifiedName)
}

// OneOf rejects a value that is not in supported, which is listed in the error in the order given. An empty value is
// Required.
func OneOf[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return OneOfOrEmpty(value, path, supported...)
}

// OneOfOrEmpty is OneOf where an empty value is fine.
func OneOfOrEmpty[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if value == "" {
		return nil
	}
	for _, s := range supported {
		if value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// LabelSelector checks a selector strictly; nil is fine.
func LabelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// LabelSelectorUpdate checks a changed selector. Label values that were bad already in the stored one stay acceptable.
func LabelSelectorUpdate(selector, old *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: metav1validation.LabelSelectorHasInvalidLabelValue(old),
	}, path)
}
