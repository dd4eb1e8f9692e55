package podspec

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hasBackstep says whether an element of a file path is "..".
func hasBackstep(file string) bool {
	return slices.Contains(strings.Split(file, "/"), "..")
}

func noBackstep(file string, at *field.Path) field.ErrorList {
	if hasBackstep(file) {
		return field.ErrorList{field.Invalid(at, file, "must not contain '..'")}
	}
	return nil
}

// relativePath wants a path that stays below where it starts.
func relativePath(file string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(file) {
		errs = append(errs, field.Invalid(at, file, "must be a relative path"))
	}
	return append(errs, noBackstep(file, at)...)
}

// plainRelativePath is relativePath without the names that begin with "..", which the kubelet keeps to itself.
func plainRelativePath(file string, at *field.Path) field.ErrorList {
	errs := relativePath(file, at)
	if strings.HasPrefix(file, "..") && !strings.HasPrefix(file, "../") {
		errs = append(errs, field.Invalid(at, file, "must not start with '..'"))
	}
	return errs
}

func fileMode(mode *int32, at *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}
