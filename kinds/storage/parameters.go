package storage

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// Limits of the parameters of a class.
const (
	maxParameters     = 512
	maxParameterBytes = 256 << 10 // all keys and values
)

// validateProvisioner checks the name of what serves a class; upper case passes.
func validateProvisioner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return validate.QualifiedName(strings.ToLower(name), path)
}

func validateParameters(parameters map[string]string, path *field.Path) field.ErrorList {
	if len(parameters) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	var errs field.ErrorList
	if _, found := parameters[""]; found {
		errs = append(errs, field.Invalid(path, "", "field can not be empty."))
	}
	if size(parameters) > maxParameterBytes {
		errs = append(errs, field.TooLong(path, "", maxParameterBytes))
	}
	return errs
}

// size is the length of all keys and values.
func size(m map[string]string) int {
	n := 0
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}
