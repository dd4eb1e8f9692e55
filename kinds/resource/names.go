package resource

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

func validateLabel(name string, path *field.Path) field.ErrorList {
	return validate.Each(name, path, validation.IsDNS1123Label)
}

// requireLabel is validateLabel for a name that is Required when it is missing.
func requireLabel(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return validateLabel(name, path)
}

func validateClassName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return validate.Name(name, path)
}

// validatePoolName checks the name of a pool: subdomains with slashes between them.
func validatePoolName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, validate.Name(part, path)...)
	}
	return errs
}

func validateUID(uid string, path *field.Path) field.ErrorList {
	if err := uuid.Validate(uid); err != nil {
		return field.ErrorList{field.Invalid(path, uid, fmt.Sprintf("error validating uid: %v", err))}
	}
	if len(uid) != 36 || uid != strings.ToLower(uid) {
		return field.ErrorList{field.Invalid(path, uid,
			"uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
	}
	return nil
}

// validateQualified checks the name of an attribute or a capacity: an identifier, perhaps behind a domain and a slash.
func validateQualified(name string, path *field.Path) field.ErrorList {
	domain, id, found := strings.Cut(name, "/")
	switch {
	case !found:
		return validateIdentifier(name, path)
	case strings.Contains(id, "/"):
		return field.ErrorList{field.Invalid(path, name, "must not contain more than one slash")}
	}
	var errs field.ErrorList
	if domain == "" {
		errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
	} else {
		errs = append(errs, podspec.CSIDriverName(domain, path)...)
	}
	if id == "" {
		return append(errs, field.Invalid(path, "", "the name must not be empty"))
	}
	return append(errs, validateIdentifier(id, path)...)
}

// validateFullyQualified wants the domain.
func validateFullyQualified(name resourcev1.FullyQualifiedName, path *field.Path) field.ErrorList {
	errs := validateQualified(string(name), path)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func validateIdentifier(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, validate.Each(id, path, content.IsCIdentifier)...)
}
