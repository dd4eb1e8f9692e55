package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// validService is a service as it is after defaulting and allocation.
func validService(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"a": "b"},
		ClusterIP: "10.96.0.5", ClusterIPs: []string{"10.96.0.5"},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: ptr(corev1.IPFamilyPolicySingleStack),
	}}
	for _, f := range change {
		f(svc)
	}
	defaultService(svc)
	return svc
}

func typed(t corev1.ServiceType) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Type = t
		if t == corev1.ServiceTypeExternalName {
			svc.Spec = corev1.ServiceSpec{Type: t, ExternalName: "example.com"}
		}
	}
}

func spec(change func(*corev1.ServiceSpec)) func(*corev1.Service) {
	return func(svc *corev1.Service) { change(&svc.Spec) }
}

func TestService_Default(t *testing.T) {
	var (
		cluster      = corev1.ServiceExternalTrafficPolicyCluster
		inside       = ptr(corev1.ServiceInternalTrafficPolicyCluster)
		defaultPorts = []corev1.ServicePort{{Port: 80, Protocol: "TCP", TargetPort: intstr.FromInt32(80)}}
	)
	for name, tc := range map[string]struct{ in, want corev1.ServiceSpec }{
		"ClusterIP": {
			in:   corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			want: corev1.ServiceSpec{Ports: defaultPorts, Type: "ClusterIP", SessionAffinity: "None", InternalTrafficPolicy: inside},
		},
		"externalIPs": {
			in: corev1.ServiceSpec{ExternalIPs: []string{"1.1.1.1"}},
			want: corev1.ServiceSpec{
				Type: "ClusterIP", SessionAffinity: "None", InternalTrafficPolicy: inside, ExternalTrafficPolicy: cluster, ExternalIPs: []string{"1.1.1.1"},
			},
		},
		"NodePort": {
			in:   corev1.ServiceSpec{Type: "NodePort", Ports: []corev1.ServicePort{{Port: 80, Protocol: "UDP", TargetPort: intstr.FromString("dns")}}},
			want: corev1.ServiceSpec{Type: "NodePort", Ports: []corev1.ServicePort{{Port: 80, Protocol: "UDP", TargetPort: intstr.FromString("dns")}}, SessionAffinity: "None", InternalTrafficPolicy: inside, ExternalTrafficPolicy: cluster},
		},
		"LoadBalancer": {
			in:   corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("")}}},
			want: corev1.ServiceSpec{Type: "LoadBalancer", Ports: defaultPorts, SessionAffinity: "None", InternalTrafficPolicy: inside, ExternalTrafficPolicy: cluster, AllocateLoadBalancerNodePorts: ptr(true)},
		},
		"LoadBalancer as asked": {
			in:   corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local", InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyLocal), AllocateLoadBalancerNodePorts: ptr(false)},
			want: corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local", InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyLocal), AllocateLoadBalancerNodePorts: ptr(false), SessionAffinity: "None"},
		},
		"ExternalName": {
			in:   corev1.ServiceSpec{Type: "ExternalName", ExternalName: "example.com"},
			want: corev1.ServiceSpec{Type: "ExternalName", ExternalName: "example.com", SessionAffinity: "None"},
		},
		"ClientIP": {
			in:   corev1.ServiceSpec{SessionAffinity: "ClientIP"},
			want: corev1.ServiceSpec{Type: "ClusterIP", InternalTrafficPolicy: inside, SessionAffinity: "ClientIP", SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(10800))}}},
		},
		"None with config": {
			in:   corev1.ServiceSpec{SessionAffinity: "None", SessionAffinityConfig: &corev1.SessionAffinityConfig{}},
			want: corev1.ServiceSpec{Type: "ClusterIP", InternalTrafficPolicy: inside, SessionAffinity: "None"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &corev1.Service{Spec: tc.in}
			Service().Default(svc)
			wantSame(t, "spec", tc.want, svc.Spec)
		})
	}
	svc := &corev1.Service{Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "1.1.1.1"}, {Hostname: "x"}}}}}
	Service().Default(svc)
	wantSame(t, "ingress", []corev1.LoadBalancerIngress{{IP: "1.1.1.1", IPMode: ptr(corev1.LoadBalancerIPModeVIP)}, {Hostname: "x"}}, svc.Status.LoadBalancer.Ingress)
}

func TestService_Create(t *testing.T) {
	svc := &corev1.Service{
		Spec:   corev1.ServiceSpec{ClusterIP: "None"},
		Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}}},
	}
	Service().PrepareCreate(svc)
	wantSame(t, "service", &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}}, svc)
}

// TestService_Update is what becomes of what a client sends, given what is stored.
func TestService_Update(t *testing.T) {
	nodePort := func(ports ...corev1.ServicePort) corev1.ServiceSpec {
		return corev1.ServiceSpec{Type: "NodePort", ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}, Ports: ports, ExternalTrafficPolicy: "Cluster"}
	}
	for name, tc := range map[string]struct{ old, sent, want corev1.ServiceSpec }{
		"addresses are kept": {
			old:  corev1.ServiceSpec{ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}},
			sent: corev1.ServiceSpec{},
			want: corev1.ServiceSpec{ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}},
		},
		"an old client does not know clusterIPs": {
			old:  corev1.ServiceSpec{ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1", "::1"}},
			sent: corev1.ServiceSpec{ClusterIP: "1.1.1.1"},
			want: corev1.ServiceSpec{ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1", "::1"}},
		},
		"only clusterIP is changed": {
			old:  corev1.ServiceSpec{ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}},
			sent: corev1.ServiceSpec{ClusterIP: "2.2.2.2", ClusterIPs: []string{"1.1.1.1"}},
			want: corev1.ServiceSpec{ClusterIP: "2.2.2.2", ClusterIPs: []string{"2.2.2.2"}},
		},
		"node ports are kept by name": {
			old:  nodePort(corev1.ServicePort{Name: "a", Port: 1, NodePort: 30001}, corev1.ServicePort{Name: "b", Port: 2, NodePort: 30002}),
			sent: nodePort(corev1.ServicePort{Name: "b", Port: 3}, corev1.ServicePort{Name: "c", Port: 4}),
			want: nodePort(corev1.ServicePort{Name: "b", Port: 3, NodePort: 30002}, corev1.ServicePort{Name: "c", Port: 4}),
		},
		"unless another port has it now": {
			old:  nodePort(corev1.ServicePort{Name: "a", Port: 1, NodePort: 30001}),
			sent: nodePort(corev1.ServicePort{Name: "a", Port: 1}, corev1.ServicePort{Name: "b", Port: 2, NodePort: 30001}),
			want: nodePort(corev1.ServicePort{Name: "a", Port: 1}, corev1.ServicePort{Name: "b", Port: 2, NodePort: 30001}),
		},
		"NodePort becomes ClusterIP": {
			old:  nodePort(corev1.ServicePort{Port: 1, NodePort: 30001}),
			sent: corev1.ServiceSpec{Type: "ClusterIP", Ports: []corev1.ServicePort{{Port: 1, NodePort: 30001}}, ExternalTrafficPolicy: "Cluster"},
			want: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}, Ports: []corev1.ServicePort{{Port: 1}}},
		},
		"and what was changed stays for validation": {
			old:  nodePort(corev1.ServicePort{Port: 1, NodePort: 30001}),
			sent: corev1.ServiceSpec{Type: "ClusterIP", Ports: []corev1.ServicePort{{Port: 1, NodePort: 30002}}, ExternalTrafficPolicy: "Local"},
			want: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}, Ports: []corev1.ServicePort{{Port: 1, NodePort: 30002}}, ExternalTrafficPolicy: "Local"},
		},
		"ClusterIP becomes ExternalName": {
			old:  corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}, IPFamilies: []corev1.IPFamily{"IPv4"}, IPFamilyPolicy: ptr(corev1.IPFamilyPolicySingleStack)},
			sent: corev1.ServiceSpec{Type: "ExternalName", ClusterIP: "1.1.1.1", ClusterIPs: []string{"1.1.1.1"}, IPFamilies: []corev1.IPFamily{"IPv4"}, IPFamilyPolicy: ptr(corev1.IPFamilyPolicySingleStack), ExternalName: "x"},
			want: corev1.ServiceSpec{Type: "ExternalName", ExternalName: "x"},
		},
		"LoadBalancer becomes ClusterIP": {
			old:  corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local", HealthCheckNodePort: 30000, LoadBalancerClass: ptr("x"), AllocateLoadBalancerNodePorts: ptr(false)},
			sent: corev1.ServiceSpec{Type: "ClusterIP", ExternalTrafficPolicy: "Local", HealthCheckNodePort: 30000, LoadBalancerClass: ptr("x"), AllocateLoadBalancerNodePorts: ptr(false)},
			want: corev1.ServiceSpec{Type: "ClusterIP"},
		},
		"health check port is kept": {
			old:  corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local", HealthCheckNodePort: 30000},
			sent: corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local"},
			want: corev1.ServiceSpec{Type: "LoadBalancer", ExternalTrafficPolicy: "Local", HealthCheckNodePort: 30000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := &corev1.Service{Spec: tc.old, Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}}}}
			svc := &corev1.Service{Spec: tc.sent}
			Service().PrepareUpdate(svc, old)
			wantSame(t, "service", &corev1.Service{Spec: tc.want, Status: old.Status}, svc)
		})
	}
}

func TestService_Row(t *testing.T) {
	balancer := validService(typed("LoadBalancer"))
	balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "9.9.9.9"}, {Hostname: "lb"}, {IP: "1.1.1.1"}, {IP: "9.9.9.9"}}
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		want []any
	}{
		"ClusterIP":    {validService(), []any{"s", "ClusterIP", "10.96.0.5", "<none>", "80/TCP", "5m", "a=b"}},
		"external IPs": {validService(spec(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"1.1.1.1", "2.2.2.2"} })), []any{"s", "ClusterIP", "10.96.0.5", "1.1.1.1,2.2.2.2", "80/TCP", "5m", "a=b"}},
		"headless":     {validService(spec(func(s *corev1.ServiceSpec) { s.ClusterIPs, s.Ports, s.Selector = []string{"None"}, nil, nil })), []any{"s", "ClusterIP", "None", "<none>", "<none>", "5m", "<none>"}},
		"NodePort": {validService(typed("NodePort"), spec(func(s *corev1.ServiceSpec) {
			s.Ports[0].NodePort = 30080
			s.Ports = append(s.Ports, corev1.ServicePort{Port: 53, Protocol: "UDP"})
		})), []any{"s", "NodePort", "10.96.0.5", "<none>", "80:30080/TCP,53/UDP", "5m", "a=b"}},
		"LoadBalancer":         {balancer, []any{"s", "LoadBalancer", "10.96.0.5", "1.1.1.1,9.9.9.9,lb", "80/TCP", "5m", "a=b"}},
		"LoadBalancer pending": {validService(typed("LoadBalancer")), []any{"s", "LoadBalancer", "10.96.0.5", "<pending>", "80/TCP", "5m", "a=b"}},
		"ExternalName":         {validService(typed("ExternalName")), []any{"s", "ExternalName", "<none>", "example.com", "<none>", "5m", "<none>"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			tc.svc.Name, tc.svc.CreationTimestamp = "s", metav1.NewTime(now.Add(-5*time.Minute))
			wantSame(t, "row", tc.want, Service().Row(tc.svc, now))
		})
	}
}

func TestService_Warnings(t *testing.T) {
	loud := validService(spec(func(s *corev1.ServiceSpec) {
		s.ClusterIP, s.ClusterIPs = "None", []string{"None"}
		s.LoadBalancerIP, s.ExternalIPs = "010.0.0.1", []string{"FD00::1"}
		s.SessionAffinity, s.ExternalName = "ClientIP", "x"
		s.LoadBalancerSourceRanges = []string{" 10.0.0.1/8"}
		s.TrafficDistribution = ptr("PreferClose")
	}))
	loud.Annotations = map[string]string{"service.kubernetes.io/topology-aware-hints": "auto"}
	wantSame(t, "warnings", []string{
		"annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
		"spec.loadBalancerIP is ignored for headless services",
		"spec.externalIPs is ignored for headless services",
		"spec.SessionAffinity is ignored for headless services",
		"spec.externalIPs is deprecated",
		`spec.externalIPs[0]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`,
		`spec.loadBalancerIP: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"`,
		`spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)`,
		`spec.externalName is ignored when spec.type is not "ExternalName"`,
		`spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`,
	}, Service().Warnings(loud, nil))
	wantSame(t, "warnings of an ordinary service", []string(nil), Service().Warnings(validService(), nil))
}
