package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"vigil/kinds/validate"
)

const mayNotChange = "may not change once set"

// isHeadless is true for a service without cluster IP.
func isHeadless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) == 1 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// ValidateClusterIPs checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy of a service against each other.
// Addresses in stored are accepted as they are spelled. It serves before allocation, when the fields may be empty, as
// well as after.
func ValidateClusterIPs(svc *corev1.Service, stored []string) field.ErrorList {
	spec := &svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil // which may have none of these, checked elsewhere
	}
	path := field.NewPath("spec")
	ipsPath, familiesPath := path.Child("clusterIPs"), path.Child("ipFamilies")
	var errs field.ErrorList

	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(ipsPath, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(ipsPath, ""))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(ipsPath, spec.ClusterIPs, "first value must match `clusterIP`"))
	}

	families := map[corev1.IPFamily]bool{}
	for i, family := range spec.IPFamilies {
		if family != corev1.IPv4Protocol && family != corev1.IPv6Protocol {
			errs = append(errs, field.NotSupported(familiesPath.Index(i), family, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if families[family] {
			errs = append(errs, field.Duplicate(familiesPath.Index(i), family))
		}
		families[family] = true
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		supported := []corev1.IPFamilyPolicy{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack}
		if !slices.Contains(supported, *policy) {
			errs = append(errs, field.NotSupported(path.Child("ipFamilyPolicy"), *policy, supported))
		}
	}

	invalid, known := false, validate.StoredOf(stored)
	for i, ip := range spec.ClusterIPs {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				invalid = true
				errs = append(errs, field.Invalid(ipsPath, spec.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		bad := validate.LegacyIP(ipsPath.Index(i), ip, known)
		invalid = invalid || len(bad) > 0
		errs = append(errs, bad...)
	}
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(ipsPath, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if invalid {
		return errs // what follows would only talk about the same values again
	}

	if len(spec.ClusterIPs) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err != nil || !dual {
			errs = append(errs, field.Invalid(ipsPath, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if isHeadless(svc) {
		return errs
	}
	for i, ip := range spec.ClusterIPs {
		if i < len(spec.IPFamilies) && spec.IPFamilies[i] != validate.FamilyOf(ip) {
			errs = append(errs, field.Invalid(ipsPath.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", spec.IPFamilies[i], i)))
		}
	}
	return errs
}

// validateClusterIPChange lets a service gain or lose its second address, never change the first.
func validateClusterIPChange(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	if !needsClusterIP(svc) || !needsClusterIP(old) || isHeadless(svc) && isHeadless(old) {
		return nil
	}
	var errs field.ErrorList
	now, was := svc.Spec.ClusterIPs, old.Spec.ClusterIPs
	at := path.Child("clusterIPs")
	if len(now) == len(was) {
		for i := range was {
			if now[i] != was[i] {
				errs = append(errs, field.Invalid(at.Index(i), now, mayNotChange))
			}
		}
		return errs
	}
	if len(now) == 0 {
		errs = append(errs, field.Invalid(at.Index(0), now, "primary clusterIP can not be unset"))
	}
	if len(now) > 0 && len(was) > 0 && now[0] != was[0] {
		errs = append(errs, field.Invalid(at.Index(0), now, mayNotChange))
	}
	if len(now) == 1 && len(was) > 1 && !isSingleStack(svc) {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), svc.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

// validateFamilyChange is validateClusterIPChange for ipFamilies. Headless services may change them.
func validateFamilyChange(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	if !needsClusterIP(svc) || !needsClusterIP(old) || isHeadless(svc) || isHeadless(old) {
		return nil
	}
	var errs field.ErrorList
	now, was := svc.Spec.IPFamilies, old.Spec.IPFamilies
	first := path.Child("ipFamilies").Index(0)
	if len(now) == len(was) {
		for i := range was {
			if now[i] != was[i] {
				errs = append(errs, field.Invalid(first, now, mayNotChange))
			}
		}
		return errs
	}
	if len(now) < len(was) && len(svc.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(first, now, "primary ipFamily can not be unset"))
	}
	if len(now) > 0 && len(was) > 0 && now[0] != was[0] {
		errs = append(errs, field.Invalid(first, svc.Spec.ClusterIPs, mayNotChange))
	}
	if len(now) == 1 && len(was) > 1 && !isSingleStack(svc) {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), svc.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}

func isSingleStack(svc *corev1.Service) bool {
	return svc.Spec.IPFamilyPolicy != nil && *svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}
