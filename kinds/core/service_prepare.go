package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func defaultService(svc *corev1.Service) {
	spec := &svc.Spec
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			timeout := corev1.DefaultClientIPServiceAffinitySeconds
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
		}
	}
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		defaultServicePort(&spec.Ports[i])
	}
	if spec.ExternalTrafficPolicy == "" && externallyAccessible(svc) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.InternalTrafficPolicy == nil && spec.Type != corev1.ServiceTypeExternalName {
		cluster := corev1.ServiceInternalTrafficPolicyCluster
		spec.InternalTrafficPolicy = &cluster
	}
	if spec.AllocateLoadBalancerNodePorts == nil && spec.Type == corev1.ServiceTypeLoadBalancer {
		yes := true
		spec.AllocateLoadBalancerNodePorts = &yes
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		if ingress := &svc.Status.LoadBalancer.Ingress[i]; ingress.IPMode == nil && ingress.IP != "" {
			vip := corev1.LoadBalancerIPModeVIP
			ingress.IPMode = &vip
		}
	}
}

func defaultServicePort(p *corev1.ServicePort) {
	if p.Protocol == "" {
		p.Protocol = corev1.ProtocolTCP
	}
	if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
		p.TargetPort = intstr.FromInt32(p.Port)
	}
}

// prepareService takes the status away and lets clusterIP, which old clients set alone, stand for clusterIPs.
func prepareService(svc *corev1.Service) {
	svc.Status = corev1.ServiceStatus{}
	if svc.Spec.ClusterIP != "" && len(svc.Spec.ClusterIPs) == 0 {
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
}

// prepareServiceUpdate makes out what a client means that sends only a part of the linked fields: clusterIP and
// clusterIPs follow each other, allocated values that are missing are kept, and fields that the new type does not
// have are dropped when the client did not touch them. What it changes besides is left for validation to judge.
func prepareServiceUpdate(svc, old *corev1.Service) {
	svc.Status = *old.Status.DeepCopy()
	linkClusterIPs(svc, old)
	keepAllocated(svc, old)
	dropFieldsOfOldType(svc, old)
}

func linkClusterIPs(svc, old *corev1.Service) {
	now, was := &svc.Spec, &old.Spec
	if len(was.ClusterIPs) > 0 && len(now.ClusterIPs) == 0 && was.ClusterIP == now.ClusterIP {
		now.ClusterIPs = slices.Clone(was.ClusterIPs) // an old client, which knows clusterIP only
	}
	if was.ClusterIP == now.ClusterIP || !slices.Equal(was.ClusterIPs, now.ClusterIPs) {
		return
	}
	// Only the singular was changed: the plural follows.
	if now.ClusterIP == "" {
		now.ClusterIPs = nil
	} else {
		now.ClusterIPs = []string{now.ClusterIP}
	}
}

// keepAllocated fills in what the server had chosen and a replacing client (kubectl replace, a PUT without them) left
// out. Node ports are found again by the name of their port.
func keepAllocated(svc, old *corev1.Service) {
	now, was := &svc.Spec, &old.Spec
	if needsClusterIP(old) && needsClusterIP(svc) {
		if now.ClusterIP == "" {
			now.ClusterIP = was.ClusterIP
		}
		if len(now.ClusterIPs) == 0 && now.ClusterIP == was.ClusterIP {
			now.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	if needsNodePorts(old) && needsNodePorts(svc) {
		taken, byName := nodePortSet(svc), map[string]int32{}
		for _, p := range was.Ports {
			byName[p.Name] = p.NodePort
		}
		for i := range now.Ports {
			if p := &now.Ports[i]; p.NodePort == 0 && !taken[byName[p.Name]] {
				p.NodePort = byName[p.Name]
			}
		}
	}
	if needsHealthCheckPort(old) && needsHealthCheckPort(svc) && now.HealthCheckNodePort == 0 {
		now.HealthCheckNodePort = was.HealthCheckNodePort
	}
}

func dropFieldsOfOldType(svc, old *corev1.Service) {
	now, was := &svc.Spec, &old.Spec
	if needsClusterIP(old) && !needsClusterIP(svc) {
		if was.ClusterIP == now.ClusterIP && slices.Equal(was.ClusterIPs, now.ClusterIPs) {
			now.ClusterIP, now.ClusterIPs = "", nil
		}
		if slices.Equal(was.IPFamilies, now.IPFamilies) {
			now.IPFamilies = nil
		}
		if samePtr(was.IPFamilyPolicy, now.IPFamilyPolicy) {
			now.IPFamilyPolicy = nil
		}
	}
	if needsNodePorts(old) && !needsNodePorts(svc) && noNewNodePorts(svc, old) {
		for i := range now.Ports {
			now.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheckPort(old) && !needsHealthCheckPort(svc) && was.HealthCheckNodePort == now.HealthCheckNodePort {
		now.HealthCheckNodePort = 0
	}
	if was.Type == corev1.ServiceTypeLoadBalancer && now.Type != corev1.ServiceTypeLoadBalancer {
		if samePtr(was.AllocateLoadBalancerNodePorts, now.AllocateLoadBalancerNodePorts) {
			now.AllocateLoadBalancerNodePorts = nil
		}
		if samePtr(was.LoadBalancerClass, now.LoadBalancerClass) {
			now.LoadBalancerClass = nil
		}
	}
	if externallyAccessible(old) && !externallyAccessible(svc) && was.ExternalTrafficPolicy == now.ExternalTrafficPolicy {
		now.ExternalTrafficPolicy = ""
	}
}

// noNewNodePorts is true when every node port of svc is one of old: ports may have been dropped or edited.
func noNewNodePorts(svc, old *corev1.Service) bool {
	known := nodePortSet(old)
	for port := range nodePortSet(svc) {
		if !known[port] {
			return false
		}
	}
	return true
}

// nodePortSet are the node ports in use; 0 is never one.
func nodePortSet(svc *corev1.Service) map[int32]bool {
	set := map[int32]bool{}
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			set[p.NodePort] = true
		}
	}
	return set
}

func needsClusterIP(svc *corev1.Service) bool { return svc.Spec.Type != corev1.ServiceTypeExternalName }

func needsNodePorts(svc *corev1.Service) bool {
	if svc.Spec.Type == corev1.ServiceTypeNodePort {
		return true
	}
	allocate := svc.Spec.AllocateLoadBalancerNodePorts
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && (allocate == nil || *allocate)
}

func needsHealthCheckPort(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func externallyAccessible(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(svc.Spec.ExternalIPs) > 0
	}
	return false
}

func samePtr[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
