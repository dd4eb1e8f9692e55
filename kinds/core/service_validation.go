package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// kubeletPort may not be exposed by load balancers.
const kubeletPort = 10250

const onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"

// validateService checks a service; old is nil on create. Spellings of addresses that are stored already are not
// questioned again. The order of checks is upstream's, so that lists of errors read the same.
func validateService(svc, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	spec := &svc.Spec
	was := &corev1.ServiceSpec{}
	if old != nil {
		was = &old.Spec
	}

	errs := validateTopologyMode(svc)
	if len(spec.Ports) == 0 && !isHeadless(svc) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, validateServiceType(svc, path)...)

	names := map[string]bool{}
	for i := range spec.Ports {
		errs = append(errs, validateServicePort(&spec.Ports[i], len(spec.Ports) > 1, names, path.Child("ports").Index(i))...)
	}
	errs = append(errs, metav1validation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	errs = append(errs, validateSessionAffinity(spec, path)...)
	errs = append(errs, ValidateClusterIPs(svc, was.ClusterIPs)...)
	stored := validate.StoredOf(was.ExternalIPs)
	for i, ip := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if bad := validate.LegacyIP(at, ip, stored); len(bad) > 0 {
			errs = append(errs, bad...)
		} else {
			errs = append(errs, validate.OrdinaryIP(ip, at)...)
		}
	}
	errs = append(errs, validate.OneOf(spec.Type, path.Child("type"),
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	errs = append(errs, validatePortsTogether(spec, path.Child("ports"))...)
	errs = append(errs, validateSourceRanges(svc, old, path)...)
	errs = append(errs, validateLoadBalancerFields(spec, path)...)
	errs = append(errs, validateTrafficPolicies(svc, path)...)
	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, validate.OneOfOrEmpty(*d, path.Child("trafficDistribution"),
			corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

func validateTopologyMode(svc *corev1.Service) field.ErrorList {
	hints, hintsSet := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, modeSet := svc.Annotations[corev1.AnnotationTopologyMode]
	if !hintsSet || !modeSet || hints == mode {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints))}
}

// validateServiceType checks what only some types allow or demand.
func validateServiceType(svc *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec := &svc.Spec
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for i, p := range spec.Ports {
			if p.Port == kubeletPort {
				errs = append(errs, field.Invalid(path.Child("ports").Index(i), p.Port, fmt.Sprintf("may not expose port %v externally since it is used by kubelet", kubeletPort)))
			}
		}
		fallthrough
	case corev1.ServiceTypeNodePort:
		if isHeadless(svc) {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIPs[0], fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		const no = "may not be set for ExternalName services"
		if len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(path.Child("clusterIPs"), no))
		}
		if len(spec.IPFamilies) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ipFamilies"), no))
		}
		if spec.IPFamilyPolicy != nil {
			errs = append(errs, field.Forbidden(path.Child("ipFamilyPolicy"), no))
		}
		if name := strings.TrimSuffix(spec.ExternalName, "."); name == "" { // a final dot marks a full name
			errs = append(errs, field.Required(path.Child("externalName"), ""))
		} else {
			errs = append(errs, validate.Each(name, path.Child("externalName"), validation.IsDNS1123Subdomain)...)
		}
	}
	return errs
}

func validateServicePort(p *corev1.ServicePort, nameRequired bool, names map[string]bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name != "":
		errs = append(errs, validate.Each(p.Name, path.Child("name"), validation.IsDNS1123Label)...)
		if names[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
	case nameRequired:
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, validate.PortNumber(p.Port, path.Child("port"))...)
	errs = append(errs, validate.Protocol(p.Protocol, path.Child("protocol"))...)
	if p.TargetPort.Type == intstr.Int {
		errs = append(errs, validate.PortNumber(p.TargetPort.IntVal, path.Child("targetPort"))...)
	} else {
		errs = append(errs, validate.Each(p.TargetPort.StrVal, path.Child("targetPort"), validation.IsValidPortName)...)
	}
	if p.AppProtocol != nil {
		errs = append(errs, validate.QualifiedName(*p.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}

func validateSessionAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := validate.OneOf(spec.SessionAffinity, path.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config := path.Child("sessionAffinityConfig")
	switch c := spec.SessionAffinityConfig; spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
		const when = "when session affinity type is ClientIP"
		switch {
		case c == nil:
			errs = append(errs, field.Required(config, when))
		case c.ClientIP == nil:
			errs = append(errs, field.Required(config.Child("clientIP"), when))
		case c.ClientIP.TimeoutSeconds == nil:
			errs = append(errs, field.Required(config.Child("clientIP").Child("timeoutSeconds"), when))
		case *c.ClientIP.TimeoutSeconds <= 0 || *c.ClientIP.TimeoutSeconds > 86400:
			errs = append(errs, field.Invalid(config.Child("clientIP").Child("timeoutSeconds"), *c.ClientIP.TimeoutSeconds, "must be greater than 0 and less than 86400"))
		}
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(config, "must not be set when session affinity is None"))
		}
	}
	return errs
}

// validatePortsTogether finds node ports where there can be none, and ports that clash.
func validatePortsTogether(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type portOf struct {
		protocol corev1.Protocol
		number   int32
	}
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i, p := range spec.Ports {
			if p.NodePort != 0 {
				errs = append(errs, field.Forbidden(path.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	nodePorts := map[portOf]bool{}
	for i, p := range spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		if nodePorts[portOf{p.Protocol, p.NodePort}] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), p.NodePort))
		}
		nodePorts[portOf{p.Protocol, p.NodePort}] = true
	}
	ports := map[portOf]bool{}
	for i, p := range spec.Ports {
		if ports[portOf{p.Protocol, p.Port}] {
			errs = append(errs, field.Duplicate(path.Index(i), corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		}
		ports[portOf{p.Protocol, p.Port}] = true
	}
	return errs
}

// validateSourceRanges checks spec.loadBalancerSourceRanges or, where that is empty, its predecessor, an annotation.
// The path has upstream's capital L.
func validateSourceRanges(svc, old *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at, ranges, stored := path.Child("LoadBalancerSourceRanges"), svc.Spec.LoadBalancerSourceRanges, validate.Stored{}
	if old != nil {
		for _, cidr := range old.Spec.LoadBalancerSourceRanges {
			stored[strings.TrimSpace(cidr)] = true
		}
	}
	itemPath := at.Index
	if len(ranges) == 0 {
		text, found := svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
		if !found {
			return nil
		}
		at = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
		itemPath = func(int) *field.Path { return at }
		if strings.TrimSpace(text) != "" {
			ranges = strings.Split(text, ",")
		}
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at, onlyLoadBalancer))
	}
	for i, cidr := range ranges {
		errs = append(errs, validate.LegacyCIDR(itemPath(i), strings.TrimSpace(cidr), stored)...)
	}
	return errs
}

func validateLoadBalancerFields(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	if spec.AllocateLoadBalancerNodePorts != nil && !balanced {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer))
	}
	if spec.AllocateLoadBalancerNodePorts == nil && balanced {
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	if class := spec.LoadBalancerClass; class != nil {
		if balanced {
			errs = append(errs, validate.QualifiedName(*class, path.Child("loadBalancerClass"))...)
		} else {
			errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), onlyLoadBalancer))
		}
	}
	return errs
}

func validateTrafficPolicies(svc *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec := &svc.Spec
	external := path.Child("externalTrafficPolicy")
	if externallyAccessible(svc) {
		errs = append(errs, validate.OneOf(spec.ExternalTrafficPolicy, external, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}

	health := path.Child("healthCheckNodePort")
	switch needed, port := needsHealthCheckPort(svc), spec.HealthCheckNodePort; {
	case needed && port == 0:
		errs = append(errs, field.Required(health, ""))
	case needed:
		errs = append(errs, validate.PortNumber(port, health)...)
	case port != 0:
		errs = append(errs, field.Invalid(health, port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}

	internal := path.Child("internalTrafficPolicy")
	if policy := spec.InternalTrafficPolicy; policy != nil {
		errs = append(errs, validate.OneOfOrEmpty(*policy, internal, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
		if *policy == "" {
			errs = append(errs, field.NotSupported(internal, *policy, []corev1.ServiceInternalTrafficPolicy{corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal}))
		}
	} else if spec.Type == corev1.ServiceTypeClusterIP || spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Required(internal, ""))
	}
	return errs
}

func validateServiceUpdate(svc, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateClusterIPChange(svc, old, path)
	errs = append(errs, validateFamilyChange(svc, old, path)...)
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		!samePtr(svc.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), svc.Spec.LoadBalancerClass, mayNotChange))
	}
	if needsHealthCheckPort(old) && needsHealthCheckPort(svc) && svc.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, validateService(svc, old)...)
}
