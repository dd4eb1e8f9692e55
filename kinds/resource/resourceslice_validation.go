package resource

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

func validateSlice(spec, old *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := podspec.CSIDriverName(spec.Driver, path.Child("driver"))
	errs = append(errs, validatePool(&spec.Pool, path.Child("pool"))...)
	if old != nil {
		errs = append(errs, validate.Immutable(spec.Pool.Name, old.Pool.Name, path.Child("pool", "name"))...)
		errs = append(errs, validate.Immutable(spec.Driver, old.Driver, path.Child("driver"))...)
		errs = append(errs, validate.Immutable(spec.NodeName, old.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, validatePlace(spec, path)...)
	if spec.SharedCounters != nil && spec.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	before := map[string]*resourcev1.Device{}
	if old != nil {
		for i := range old.Devices {
			before[old.Devices[i].Name] = &old.Devices[i]
		}
	}
	perDevice := isTrue(spec.PerDeviceNodeSelection)
	errs = append(errs, set(spec.Devices, maxDevices(spec), path.Child("devices"), func(d *resourcev1.Device) string { return d.Name },
		func(d *resourcev1.Device, path *field.Path) field.ErrorList {
			return validateDevice(d, before[d.Name], perDevice, path)
		})...)
	return append(errs, set(spec.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, path.Child("sharedCounters"),
		func(c *resourcev1.CounterSet) string { return c.Name }, func(c *resourcev1.CounterSet, path *field.Path) field.ErrorList {
			errs := requireLabel(c.Name, path.Child("name"))
			return append(errs, validateCounters(c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, path.Child("counters"))...)
		})...)
}

func validatePool(pool *resourcev1.ResourcePool, path *field.Path) field.ErrorList {
	errs := validatePoolName(pool.Name, path.Child("name"))
	if pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), pool.ResourceSliceCount, "must be greater than zero"))
	}
	if pool.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), pool.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

// maxDevices is less when devices may be large.
func maxDevices(spec *resourcev1.ResourceSliceSpec) int {
	for i := range spec.Devices {
		if d := &spec.Devices[i]; len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 || hasLists(d) {
			return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	return resourcev1.ResourceSliceMaxDevices
}

// validatePlace wants a slice to say in one way on which nodes its devices are.
func validatePlace(spec *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var given []string
	if name := spec.NodeName; name != nil {
		if *name == "" {
			errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must be either unset or set to a non-empty string"))
		} else {
			given = append(given, "`nodeName`")
			errs = append(errs, validateNodeName(*name, path.Child("nodeName"))...)
		}
	}
	if s := spec.NodeSelector; s != nil {
		given = append(given, "`nodeSelector`")
		at := path.Child("nodeSelector")
		errs = append(errs, podspec.ValidateNodeSelector(s, false, at)...)
		if len(s.NodeSelectorTerms) != 1 {
			errs = append(errs, field.Invalid(at.Child("nodeSelectorTerms"), s.NodeSelectorTerms, "must have exactly one node selector term"))
		}
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		if isTrue(flag.value) {
			given = append(given, "`"+flag.name+"`")
		} else if flag.value != nil {
			errs = append(errs, field.Invalid(path.Child(flag.name), false, "must be either unset or set to true"))
		}
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(given) {
	case 0:
		errs = append(errs, field.Required(path, one))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, fmt.Sprintf("{%s}", strings.Join(given, ", ")), one+", but multiple fields are set"))
	}
	return errs
}

func validateNodeName(name string, path *field.Path) field.ErrorList {
	return validate.Each(name, path, func(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) })
}

func validateCounters(counters map[string]resourcev1.Counter, limit int, path *field.Path) field.ErrorList {
	switch {
	case len(counters) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(counters) > limit:
		return field.ErrorList{field.TooMany(path, len(counters), limit)}
	}
	var errs field.ErrorList
	for _, name := range sorted(counters) {
		errs = append(errs, validate.Each(name, path, validation.IsDNS1123Label)...)
	}
	return errs
}

func isTrue(b *bool) bool { return b != nil && *b }
