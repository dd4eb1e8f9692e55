package resource

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

func validateClaim(spec *resourcev1.ResourceClaimSpec, path *field.Path) field.ErrorList {
	claim, path := &spec.Devices, path.Child("devices")
	requests := requestsOf(claim)
	errs := set(claim.Requests, resourcev1.DeviceRequestsMaxSize, path.Child("requests"), func(r *resourcev1.DeviceRequest) string { return r.Name }, validateRequest)
	errs = append(errs, each(claim.Constraints, resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"), requests.validateConstraint)...)
	return append(errs, each(claim.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"), func(c *resourcev1.DeviceClaimConfiguration, path *field.Path) field.ErrorList {
		errs := requests.validateRefs(c.Requests, path.Child("requests"))
		return append(errs, validateConfiguration(&c.DeviceConfiguration, false, path)...)
	})...)
}

func validateRequest(r *resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := validateLabel(r.Name, path.Child("name"))
	switch {
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		e, at := r.Exactly, path.Child("exactly")
		errs = append(errs, validateClassName(e.DeviceClassName, at.Child("deviceClassName"))...)
		errs = append(errs, validateSelectors(e.Selectors, false, at.Child("selectors"))...)
		errs = append(errs, validateMode(e.AllocationMode, e.Count, at)...)
		return append(errs, validateTolerations(e.Tolerations, at.Child("tolerations"))...)
	case len(r.FirstAvailable) > 0:
		name := func(s *resourcev1.DeviceSubRequest) string { return s.Name }
		return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"), name, validateSubRequest)...)
	}
	return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
}

func validateSubRequest(r *resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
	errs := validateLabel(r.Name, path.Child("name"))
	errs = append(errs, validateClassName(r.DeviceClassName, path.Child("deviceClassName"))...)
	errs = append(errs, validateSelectors(r.Selectors, false, path.Child("selectors"))...)
	errs = append(errs, validateMode(r.AllocationMode, r.Count, path)...)
	return append(errs, validateTolerations(r.Tolerations, path.Child("tolerations"))...)
}

// validateMode checks the mode and the count of the request at path.
func validateMode(mode resourcev1.DeviceAllocationMode, count int64, path *field.Path) field.ErrorList {
	switch {
	case mode == resourcev1.DeviceAllocationModeAll && count != 0:
		return field.ErrorList{field.Invalid(path.Child("count"), count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode))}
	case mode == resourcev1.DeviceAllocationModeExactCount && count <= 0:
		return field.ErrorList{field.Invalid(path.Child("count"), count, "must be greater than zero")}
	}
	return validate.OneOf(mode, path.Child("allocationMode"), resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
}

// requests are the names of a claim's requests, each with those of its subrequests.
type requests map[string]sets.Set[string]

func requestsOf(claim *resourcev1.DeviceClaim) requests {
	names := requests{}
	for i := range claim.Requests {
		r := &claim.Requests[i]
		names[r.Name] = sets.New[string]()
		for _, sub := range r.FirstAvailable {
			names[r.Name].Insert(sub.Name)
		}
	}
	return names
}

func (r requests) validateConstraint(c *resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
	errs := r.validateRefs(c.Requests, path.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(errs, validateFullyQualified(*c.MatchAttribute, path.Child("matchAttribute"))...)
	case c.DistinctAttribute != nil:
		return append(errs, validateFullyQualified(*c.DistinctAttribute, path.Child("distinctAttribute"))...)
	}
	return append(errs, field.Required(path, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}

func (r requests) validateRefs(names []string, path *field.Path) field.ErrorList {
	return set(names, resourcev1.DeviceRequestsMaxSize, path, itself, func(name *string, path *field.Path) field.ErrorList { return r.validateRef(*name, path) })
}

// validateRef checks a reference: "request" or "request/subrequest".
func (r requests) validateRef(name string, path *field.Path) field.ErrorList {
	unknown := field.Invalid(path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	request, sub, nested := strings.Cut(name, "/")
	if strings.Contains(sub, "/") {
		return field.ErrorList{unknown}
	}
	errs := validateLabel(request, path)
	if nested {
		errs = append(errs, validateLabel(sub, path)...)
	}
	if subs, found := r[request]; !found || nested && !subs.Has(sub) {
		errs = append(errs, unknown)
	}
	return errs
}
