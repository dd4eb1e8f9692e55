package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// validateServiceStatus checks what a load balancer reports; only services of that type have something to report.
func validateServiceStatus(svc, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "loadBalancer", "ingress")
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer && len(svc.Status.LoadBalancer.Ingress) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	stored := validate.Stored{}
	for _, ingress := range old.Status.LoadBalancer.Ingress {
		stored[ingress.IP] = true
	}
	for i, ingress := range svc.Status.LoadBalancer.Ingress {
		errs = append(errs, validateIngress(&ingress, stored, path.Index(i))...)
	}
	return errs
}

func validateIngress(ingress *corev1.LoadBalancerIngress, stored validate.Stored, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ingress.IP != "" {
		errs = append(errs, validate.LegacyIP(path.Child("ip"), ingress.IP, stored)...)
	}
	mode := path.Child("ipMode")
	switch {
	case ingress.IP != "" && ingress.IPMode == nil:
		errs = append(errs, field.Required(mode, "must be specified when `ip` is set"))
	case ingress.IP == "" && ingress.IPMode != nil:
		errs = append(errs, field.Forbidden(mode, "may not be specified when `ip` is not set"))
	case ingress.IPMode != nil:
		errs = append(errs, validate.OneOfOrEmpty(*ingress.IPMode, mode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
	}
	if ingress.Hostname != "" {
		errs = append(errs, validate.Each(ingress.Hostname, path.Child("hostname"), validation.IsDNS1123Subdomain)...)
		if validate.IsIP(ingress.Hostname) {
			errs = append(errs, field.Invalid(path.Child("hostname"), ingress.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}
