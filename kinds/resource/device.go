package resource

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
)

// validateDevice checks a device; old is the one of the same name that is stored, or nil. perDevice says that devices
// have nodes of their own.
func validateDevice(d, old *resourcev1.Device, perDevice bool, path *field.Path) field.ErrorList {
	errs := validateLabel(d.Name, path.Child("name"))
	if n, limit := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > limit {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", limit)))
	}
	if n, limit := countValues(d.Attributes), resourcev1.ResourceSliceMaxAttributeValuesPerDevice; n > limit {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attribute values must not exceed %d", limit)))
	}
	const longestKey = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength
	at := path.Child("attributes")
	for _, name := range sorted(d.Attributes) {
		errs = append(errs, validateQualified(string(name), at)...)
		errs = append(errs, validateAttribute(d.Attributes[name], at.Key(shorten(string(name), longestKey)))...)
	}
	if at := path.Child("capacity"); old == nil || !apiequality.Semantic.DeepEqual(old.Capacity, d.Capacity) {
		for _, name := range sorted(d.Capacity) {
			errs = append(errs, validateQualified(string(name), at)...)
			errs = append(errs, validateCapacity(d.Capacity[name], isTrue(d.AllowMultipleAllocations), at.Key(shorten(string(name), longestKey)))...)
		}
	}
	if old == nil || !apiequality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, each(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"), func(t *resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
			return validateTaint(t, nil, path)
		})...)
	}
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path.Child("consumesCounters"),
		func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c *resourcev1.DeviceCounterConsumption, path *field.Path) field.ErrorList {
			errs := requireLabel(c.CounterSet, path.Child("counterSet"))
			return append(errs, validateCounters(c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, path.Child("counters"))...)
		})...)
	if perDevice {
		errs = append(errs, validateDevicePlace(d, path)...)
	} else if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
		errs = append(errs, field.Invalid(path, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"))
	}
	return append(errs, validateBinding(d.BindingConditions, d.BindingFailureConditions, path)...)
}

func validateDevicePlace(d *resourcev1.Device, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var given []string
	if name := d.NodeName; name != nil {
		if *name == "" {
			errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must not be empty"))
		} else {
			given = append(given, "`nodeName`")
			errs = append(errs, validateNodeName(*name, path.Child("nodeName"))...)
		}
	}
	if d.NodeSelector != nil {
		given = append(given, "`nodeSelector`")
		errs = append(errs, podspec.ValidateNodeSelector(d.NodeSelector, false, path.Child("nodeSelector"))...)
	}
	if isTrue(d.AllNodes) {
		given = append(given, "`allNodes`")
	} else if d.AllNodes != nil {
		errs = append(errs, field.Invalid(path.Child("allNodes"), false, "must be either unset or set to true"))
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	switch len(given) {
	case 0:
		errs = append(errs, field.Required(path, one))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, fmt.Sprintf("{%s}", strings.Join(given, ", ")), one))
	}
	return errs
}

// countValues counts each element of lists.
func countValues(attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute) int {
	n := 0
	for _, a := range attributes {
		n += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	return n
}

// version is a version of semver.org 2.0.0.
var version = func() *regexp.Regexp {
	const (
		number = `(0|[1-9]\d*)`
		pre    = `(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)`
		build  = `[0-9a-zA-Z-]+`
	)
	return regexp.MustCompile(`^` + number + `\.` + number + `\.` + number + `(-` + pre + `(\.` + pre + `)*)?(\+` + build + `(\.` + build + `)*)?$`)
}()

func validateAttribute(a resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	given := 0
	have := func(member string, there bool, size int) {
		if !there {
			return
		}
		if given++; size == 0 {
			errs = append(errs, field.Invalid(path.Child(member), "", "must not be empty if specified"))
		}
	}
	have("bool", a.BoolValue != nil, 1)
	have("int", a.IntValue != nil, 1)
	have("string", a.StringValue != nil, 1)
	have("version", a.VersionValue != nil, 1)
	have("bools", a.BoolValues != nil, len(a.BoolValues))
	have("ints", a.IntValues != nil, len(a.IntValues))
	have("strings", a.StringValues != nil, len(a.StringValues))
	have("versions", a.VersionValues != nil, len(a.VersionValues))
	if a.StringValue != nil {
		errs = append(errs, validateText(*a.StringValue, path.Child("string"))...)
	}
	if a.VersionValue != nil {
		errs = append(errs, validateVersion(*a.VersionValue, path.Child("version"))...)
	}
	for i, text := range a.StringValues {
		errs = append(errs, validateText(text, path.Child("strings").Index(i))...)
	}
	for i, text := range a.VersionValues {
		errs = append(errs, validateVersion(text, path.Child("versions").Index(i))...)
	}
	switch given {
	case 0:
		errs = append(errs, field.Invalid(path, "", "exactly one value must be specified"))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, a, "exactly one value must be specified"))
	}
	return errs
}

func validateText(text string, path *field.Path) field.ErrorList {
	if len(text) > resourcev1.DeviceAttributeMaxValueLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.DeviceAttributeMaxValueLength)}
	}
	return nil
}

func validateVersion(text string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !version.MatchString(text) {
		errs = append(errs, field.Invalid(path, text, "must be a string compatible with semver.org spec 2.0.0"))
	}
	return append(errs, validateText(text, path)...)
}

// validateBinding checks the conditions that a device has to fulfil before a pod is bound, and those that stop it.
func validateBinding(conditions, failures []string, path *field.Path) field.ErrorList {
	good, bad := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	label := func(name *string, path *field.Path) field.ErrorList {
		return metav1validation.ValidateLabelName(*name, path)
	}
	errs := set(conditions, resourcev1.BindingConditionsMaxSize, good, itself, label)
	errs = append(errs, set(failures, resourcev1.BindingFailureConditionsMaxSize, bad, itself, label)...)
	for i, name := range failures {
		if slices.Contains(conditions, name) {
			errs = append(errs, field.Invalid(bad.Index(i), name, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		errs = append(errs, field.Invalid(good, conditions, "bindingConditions are required to use bindingFailureConditions"))
	case len(failures) == 0 && len(conditions) > 0:
		errs = append(errs, field.Invalid(bad, failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
