package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
)

// What quotas can be set on without naming a domain, by what uses it up.
var (
	podCompute = sets.New(corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory)
	volumeQuota = sets.New(corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage)
	otherQuota  = sets.New(corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage)
)

func standardQuota(name corev1.ResourceName) bool {
	return podCompute.Has(name) || volumeQuota.Has(name) || otherQuota.Has(name) ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// quotaScopes are the scopes, each with what it can narrow.
var quotaScopes = map[corev1.ResourceQuotaScope]func(corev1.ResourceName) bool{
	corev1.ResourceQuotaScopeTerminating:               ofPods,
	corev1.ResourceQuotaScopeNotTerminating:            ofPods,
	corev1.ResourceQuotaScopeNotBestEffort:             ofPods,
	corev1.ResourceQuotaScopePriorityClass:             ofPods,
	corev1.ResourceQuotaScopeCrossNamespacePodAffinity: ofPods,
	corev1.ResourceQuotaScopeBestEffort:                func(name corev1.ResourceName) bool { return name == corev1.ResourcePods },
	corev1.ResourceQuotaScopeVolumeAttributesClass:     volumeQuota.Has,
}

func ofPods(name corev1.ResourceName) bool {
	return name == corev1.ResourcePods || podCompute.Has(name)
}

// withoutValues are the scopes that an object either has or has not.
var withoutValues = sets.New(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
	corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity)

func validateQuota(spec *corev1.ResourceQuotaSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateQuotaList(spec.Hard, path.Child("hard"))
	scopes := path.Child("scopes")
	for _, scope := range spec.Scopes {
		if quotaScopes[scope] == nil {
			errs = append(errs, field.Invalid(scopes, spec.Scopes, "unsupported scope"))
		}
		for range misplaced(scope, spec.Hard) {
			errs = append(errs, field.Invalid(scopes, spec.Scopes, "unsupported scope applied to resource"))
		}
	}
	errs = append(errs, conflictingScopes(spec.Scopes, spec, scopes)...)
	if spec.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(spec, path.Child("scopeSelector", "matchExpressions"))...)
	}
	return errs
}

// misplaced are the standard resources in hard that a scope cannot narrow.
func misplaced(scope corev1.ResourceQuotaScope, hard corev1.ResourceList) []corev1.ResourceName {
	narrows := quotaScopes[scope]
	if narrows == nil {
		return nil
	}
	var names []corev1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		if standardQuota(name) && !narrows(name) {
			names = append(names, name)
		}
	}
	return names
}

func conflictingScopes(scopes []corev1.ResourceQuotaScope, spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			errs = append(errs, field.Invalid(path, spec.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

func validateScopeSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		if quotaScopes[r.ScopeName] == nil {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for range misplaced(r.ScopeName, spec.Hard) {
			errs = append(errs, field.Invalid(path, spec.ScopeSelector, "unsupported scope applied to resource"))
		}
		if withoutValues.Has(r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator,
				"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "+
					"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(path.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	return append(errs, conflictingScopes(scopes, spec, path)...)
}

func validateQuotaUpdate(spec, old *corev1.ResourceQuotaSpec) field.ErrorList {
	errs := validateQuota(spec)
	if !sets.New(spec.Scopes...).Equal(sets.New(old.Scopes...)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), spec.Scopes, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

func validateQuotaStatus(s *corev1.ResourceQuotaStatus) field.ErrorList {
	path := field.NewPath("status")
	return append(validateQuotaList(s.Hard, path.Child("hard")), validateQuotaList(s.Used, path.Child("used"))...)
}

func validateQuotaList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at := path.Key(string(name))
		errs = append(errs, podspec.ResourceName(name, at)...)
		if !strings.Contains(string(name), "/") && !standardQuota(name) {
			errs = append(errs, field.Invalid(at, string(name), "must be a standard resource for quota"))
		}
		errs = append(errs, podspec.ResourceQuantity(name, list[name], at)...)
	}
	return errs
}
