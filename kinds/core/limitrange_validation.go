package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

func validateLimitRange(r *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.LimitType]()
	for i := range r.Spec.Limits {
		item, path := &r.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, validateLimitType(item.Type, path.Child("type"))...)
		if seen.Has(item.Type) {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		seen.Insert(item.Type)
		errs = append(errs, validateLimits(item, path)...)
	}
	return errs
}

func validateLimitType(typ corev1.LimitType, path *field.Path) field.ErrorList {
	if errs := validate.Each(string(typ), path, validation.IsQualifiedName); len(errs) > 0 {
		return errs
	}
	standard := typ == corev1.LimitTypePod || typ == corev1.LimitTypeContainer || typ == corev1.LimitTypePersistentVolumeClaim
	if !standard && !strings.Contains(string(typ), "/") {
		return field.ErrorList{field.Invalid(path, string(typ), "must be a standard limit type or fully qualified")}
	}
	return nil
}

// validateLimits checks one item: the names of its resources, and that its numbers leave room for each other.
func validateLimits(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[corev1.ResourceName]()
	check := func(list corev1.ResourceList, child string) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			names.Insert(name)
			at := path.Child(child).Key(string(name))
			if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
				errs = append(errs, podspec.ContainerResourceName(name, at)...)
			} else {
				errs = append(errs, podspec.ResourceName(name, at)...)
			}
		}
	}
	check(item.Max, "max")
	check(item.Min, "min")
	if item.Type == corev1.LimitTypePod {
		for _, f := range []struct {
			name string
			list corev1.ResourceList
		}{{"default", item.Default}, {"defaultRequest", item.DefaultRequest}} {
			if len(f.list) > 0 {
				errs = append(errs, field.Forbidden(path.Child(f.name), "may not be specified when `type` is 'Pod'"))
			}
		}
	} else {
		check(item.Default, "default")
		check(item.DefaultRequest, "defaultRequest")
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	check(item.MaxLimitRequestRatio, "maxLimitRequestRatio")
	for _, name := range sets.List(names) {
		errs = append(errs, validateLimit(item, name, path)...)
	}
	return errs
}

// validateLimit checks the numbers of one resource against each other.
func validateLimit(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	limit, hasLimit := item.Default[name]
	request, hasRequest := item.DefaultRequest[name]
	if item.Type == corev1.LimitTypePod {
		hasLimit, hasRequest = false, false
	}
	ordered := func(both bool, small, large resource.Quantity, child string, value resource.Quantity, text string) {
		if both && small.Cmp(large) > 0 {
			errs = append(errs, field.Invalid(path.Child(child).Key(string(name)), value.String(), fmt.Sprintf(text, small.String(), large.String())))
		}
	}
	ordered(hasLeast && hasMost, least, most, "min", least, "min value %s is greater than max value %s")
	ordered(hasRequest && hasLeast, least, request, "defaultRequest", request, "min value %s is greater than default request value %s")
	ordered(hasRequest && hasMost, request, most, "defaultRequest", request, "default request value %s is greater than max value %s")
	ordered(hasRequest && hasLimit, request, limit, "defaultRequest", request, "default request value %s is greater than default limit value %s")
	ordered(hasLimit && hasLeast, least, limit, "default", least, "min value %s is greater than default value %s")
	ordered(hasLimit && hasMost, limit, most, "default", most, "default value %s is greater than max value %s")

	if ratio, ok := item.MaxLimitRequestRatio[name]; ok {
		at := path.Child("maxLimitRequestRatio").Key(string(name))
		if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
			errs = append(errs, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
		}
		if possible := most.AsApproximateFloat64() / least.AsApproximateFloat64(); hasLeast && hasMost && ratio.AsApproximateFloat64() > possible {
			errs = append(errs, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), possible)))
		}
	}
	if hasLimit && hasRequest && !podspec.Overcommittable(name) && limit.Cmp(request) != 0 {
		errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(name)), request.String(),
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)))
	}
	return errs
}
