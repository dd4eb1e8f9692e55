package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// serviceWarnings speaks of fields that are deprecated, ignored in this combination or spelled unusually.
func serviceWarnings(svc *corev1.Service) []string {
	var w []string
	spec, path := &svc.Spec, field.NewPath("spec")
	if _, found := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; found {
		w = append(w, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			w = append(w, validate.IPWarnings(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	if spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone {
		if spec.LoadBalancerIP != "" {
			w = append(w, "spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			w = append(w, "spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			w = append(w, "spec.SessionAffinity is ignored for headless services")
		}
	}
	if len(spec.ExternalIPs) > 0 {
		w = append(w, "spec.externalIPs is deprecated") // since 1.36 (KEP-5707)
	}
	for i, ip := range spec.ExternalIPs {
		w = append(w, validate.IPWarnings(path.Child("externalIPs").Index(i), ip)...)
	}
	w = append(w, validate.IPWarnings(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	for i, cidr := range spec.LoadBalancerSourceRanges {
		w = append(w, validate.CIDRWarnings(path.Child("loadBalancerSourceRanges").Index(i), strings.TrimSpace(cidr))...)
	}
	if spec.Type == corev1.ServiceTypeExternalName && len(spec.ExternalIPs) > 0 {
		w = append(w, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName))
	}
	if spec.Type != corev1.ServiceTypeExternalName && spec.ExternalName != "" {
		w = append(w, fmt.Sprintf("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName))
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		w = append(w, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q", corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return w
}
