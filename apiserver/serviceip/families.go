package serviceip

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/core"
	"vigil/kinds/validate"
)

// chooseFamilies fills in ipFamilyPolicy and ipFamilies, as far as the service does not say, from its addresses, from
// the stored service and from what the cluster has:
//
//	policy         families asked for   cluster v4      cluster v4,v6
//	(none)         -                    SingleStack v4  SingleStack v4
//	PreferDual     -                    v4              v4,v6
//	RequireDual    v6                   error           v6,v4
//	headless without selector, none: RequireDualStack v4,v6 on any cluster (KEP-3015: its endpoints are the user's)
func (a *Allocator) chooseFamilies(svc, old *corev1.Service) error {
	spec := &svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName || keepsPreferDualStack(svc, old) {
		return nil
	}
	selectorless := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			policy = *old.Spec.IPFamilyPolicy
		case selectorless:
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	invalid := func(errs field.ErrorList) error {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
	}
	var stored []string
	if old != nil {
		stored = old.Spec.ClusterIPs
	}
	if errs := core.ValidateClusterIPs(svc, stored); len(errs) > 0 {
		return invalid(errs)
	}
	errs := a.checkPolicy(svc, old)
	errs = append(errs, a.familiesFromAddresses(spec)...)
	if len(errs) > 0 {
		return invalid(errs)
	}

	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if !selectorless {
		if errs := a.checkConfigured(spec); len(errs) > 0 {
			return invalid(errs)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{a.ranges[0].family}
	}
	if len(spec.IPFamilies) == 1 && !single && (selectorless || len(a.ranges) == 2) {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == corev1.IPv6Protocol {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), other)
	}
	return nil
}

// checkPolicy compares the policy with the number of addresses and families, and lets a service that becomes
// single-stack drop the second ones without saying so.
func (a *Allocator) checkPolicy(svc, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	spec, path := &svc.Spec, field.NewPath("spec", "ipFamilyPolicy")
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if old != nil && single {
		if len(spec.ClusterIPs) > 1 && slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs) {
			spec.ClusterIPs = spec.ClusterIPs[:1:1]
		}
		if len(spec.IPFamilies) > 1 && slices.Equal(spec.IPFamilies, old.Spec.IPFamilies) {
			spec.IPFamilies = spec.IPFamilies[:1:1]
		}
	}
	fewer := func(now, was int) bool { return now > 0 && now < was }
	if old != nil && !single {
		if fewer(len(spec.ClusterIPs), len(old.Spec.ClusterIPs)) {
			errs = append(errs, field.Invalid(path, *spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
		}
		if fewer(len(spec.IPFamilies), len(old.Spec.IPFamilies)) {
			errs = append(errs, field.Invalid(path, *spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
		}
	}
	if single && len(spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(path, *spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"))
	}
	if single && len(spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(path, *spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"))
	}
	return errs
}

// familiesFromAddresses adds the families of addresses that were given without.
func (a *Allocator) familiesFromAddresses(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		family := validate.FamilyOf(ip)
		if a.rangeOf(family) == nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", family)))
			continue
		}
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), family)
	}
	return errs
}

// checkConfigured refuses what the cluster has no ranges for.
func (a *Allocator) checkConfigured(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(a.ranges) < 2 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), *spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range spec.IPFamilies {
		if a.rangeOf(family) == nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, errNotConfigured.Error()))
		}
	}
	return errs
}

// keepsPreferDualStack is true for an update that leaves a PreferDualStack service's addresses alone. It keeps what it
// has, also when the cluster has become dual-stack, or single-stack, since.
func keepsPreferDualStack(svc, old *corev1.Service) bool {
	if old == nil || old.Spec.Type != svc.Spec.Type || svc.Spec.IPFamilyPolicy == nil {
		return false
	}
	prefers := func(p *corev1.IPFamilyPolicy) bool { return p == nil || *p == corev1.IPFamilyPolicyPreferDualStack }
	return prefers(svc.Spec.IPFamilyPolicy) && prefers(old.Spec.IPFamilyPolicy) &&
		slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(svc.Spec.IPFamilies, old.Spec.IPFamilies)
}
