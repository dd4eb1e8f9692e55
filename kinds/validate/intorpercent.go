package validate

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IntOrPercent accepts numbers from zero on and texts like "25%".
func IntOrPercent(value intstr.IntOrString, path *field.Path) field.ErrorList {
	switch value.Type {
	case intstr.String:
		return Each(value.StrVal, path, validation.IsValidPercent)
	case intstr.Int:
		return NonNegative(int64(value.IntValue()), path)
	default:
		return field.ErrorList{field.Invalid(path, value, "must be an integer or percentage (e.g '5%%')")}
	}
}

// NotOver100Percent rejects percentages above 100; numbers and other texts pass.
func NotOver100Percent(value intstr.IntOrString, path *field.Path) field.ErrorList {
	if percent, ok := Percent(value); ok && percent > 100 {
		return field.ErrorList{field.Invalid(path, value, "must not be greater than 100%")}
	}
	return nil
}

// Percent returns 25 for "25%", and false for what is no percentage.
func Percent(value intstr.IntOrString) (int, bool) {
	if value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return n, err == nil
}

// IntOrPercentValue is the number, or the number in front of the percent sign: what is compared with zero when two
// such values must not both be zero.
func IntOrPercentValue(value intstr.IntOrString) int {
	if percent, ok := Percent(value); ok {
		return percent
	}
	return value.IntValue()
}
