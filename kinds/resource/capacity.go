package resource

import (
	"fmt"
	"math"

	"gopkg.in/inf.v0"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateCapacity checks how much of a device requests may have (KEP-5075).
func validateCapacity(c resourcev1.DeviceCapacity, shared bool, path *field.Path) field.ErrorList {
	policy, path := c.RequestPolicy, path.Child("requestPolicy")
	switch {
	case policy == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(path, "allowMultipleAllocations must be true")}
	case len(policy.ValidValues) > 0 && policy.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(policy.ValidValues) > 0:
		if policy.Default == nil {
			return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
		}
		return validateValues(policy.ValidValues, *policy.Default, c.Value, path.Child("validValues"))
	case policy.ValidRange != nil:
		if policy.Default == nil {
			return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
		}
		return validateRange(policy.ValidRange, *policy.Default, c.Value, path.Child("validRange"))
	}
	return nil
}

// maxValues is how many values a policy may name.
const maxValues = 10

// validateValues wants ascending values up to all that there is, the default among them.
func validateValues(values []resource.Quantity, preset, all resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, set(values, maxValues, path, func(q *resource.Quantity) string { return q.AsDec().String() },
		func(q *resource.Quantity, path *field.Path) field.ErrorList {
			found = found || q.Cmp(preset) == 0
			if q.Cmp(all) > 0 {
				return field.ErrorList{field.Invalid(path, q.String(), "option is larger than capacity value: "+all.String())}
			}
			return nil
		})...)
	if !found {
		errs = append(errs, field.Invalid(path, preset.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

func validateRange(r *resourcev1.CapacityRequestPolicyRange, preset, all resource.Quantity, path *field.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(path.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	wrong := func(member string, value *resource.Quantity, text string, than *resource.Quantity) {
		errs = append(errs, field.Invalid(path.Child(member), value.String(), text+than.String()))
	}
	if r.Min.Cmp(all) > 0 {
		wrong("min", r.Min, "min is larger than capacity value: ", &all)
	}
	if preset.Cmp(*r.Min) < 0 {
		wrong("default", &preset, "default is less than min: ", r.Min)
	}
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			wrong("max", r.Min, "min is larger than max: ", r.Max)
		}
		if r.Max.Cmp(all) > 0 {
			wrong("max", r.Max, "max is larger than capacity value: ", &all)
		}
		if preset.Cmp(*r.Max) > 0 {
			wrong("default", &preset, "default is more than max: ", r.Max)
		}
	}
	milli := isFractional(&preset) || isFractional(r.Min) || isFractional(r.Max) || isFractional(r.Step)
	if milli {
		if unfit := eachBound(r, &preset, path, notMilli); len(unfit) > 0 {
			return append(errs, unfit...)
		}
	}
	if r.Step == nil {
		return errs
	}
	if r.Step.Sign() <= 0 {
		return append(errs, field.Invalid(path.Child("step"), r.Step.String(), "must be greater than zero"))
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(all) > 0 {
		wrong("step", r.Step, fmt.Sprintf("one step %s is larger than capacity value: ", first.String()), &all)
	}
	if !milli {
		if unfit := eachBound(r, &preset, path, notInt64); len(unfit) > 0 {
			return append(errs, unfit...)
		}
	}
	for _, q := range []*resource.Quantity{&preset, r.Max} {
		if q != nil && !isStep(q, r, milli) {
			errs = append(errs, field.Invalid(path.Child("step"), q.String(),
				fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String())))
		}
	}
	return errs
}

// eachBound checks that the numbers of a range can be reckoned with.
func eachBound(r *resourcev1.CapacityRequestPolicyRange, preset *resource.Quantity, path *field.Path, unfit func(*resource.Quantity) string) field.ErrorList {
	var errs field.ErrorList
	for _, b := range []struct {
		member string
		value  *resource.Quantity
	}{{"default", preset}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}} {
		if b.value == nil {
			continue
		}
		if text := unfit(b.value); text != "" {
			errs = append(errs, field.Invalid(path.Child(b.member), b.value.String(), text))
		}
	}
	return errs
}

func notMilli(q *resource.Quantity) string {
	if q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), q.Format)) != 0 {
		return "value cannot be represented as a milli value"
	}
	return ""
}

func notInt64(q *resource.Quantity) string {
	switch {
	case q.Sign() < 0:
		return apivalidation.IsNegativeErrorMsg
	case q.CmpInt64(math.MaxInt64) > 0:
		return "must not be larger than 9223372036854775807"
	}
	return ""
}

func isStep(q *resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, milli bool) bool {
	if milli {
		return (q.MilliValue()-r.Min.MilliValue())%r.Step.MilliValue() == 0
	}
	return (q.Value()-r.Min.Value())%r.Step.Value() == 0
}

func isFractional(q *resource.Quantity) bool {
	if q == nil {
		return false
	}
	whole := (&inf.Dec{}).Round(q.AsDec(), 0, inf.RoundDown)
	return q.AsDec().Cmp(whole) != 0
}
