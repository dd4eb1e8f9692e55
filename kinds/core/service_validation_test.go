package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	labelRule     = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	subdomainRule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
	keyNameRule   = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	balancerOnly  = "may only be used when `type` is 'LoadBalancer'"
)

func TestService_Validate(t *testing.T) {
	type specFunc = func(*corev1.ServiceSpec)
	ports := func(ps ...corev1.ServicePort) specFunc { return func(s *corev1.ServiceSpec) { s.Ports = ps } }
	for name, tc := range map[string]struct {
		kind   corev1.ServiceType // "": ClusterIP
		change specFunc
		after  specFunc // after defaulting
		want   []string
	}{
		"ordinary":            {},
		"NodePort":            {kind: "NodePort"},
		"LoadBalancer":        {kind: "LoadBalancer"},
		"ExternalName":        {kind: "ExternalName"},
		"no ports":            {change: ports(), want: []string{"spec.ports: Required value"}},
		"headless":            {change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs, s.Ports = "None", []string{"None"}, nil }},
		"unknown type":        {kind: "Funny", want: []string{`spec.type: Unsupported value: "Funny": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		"headless port":       {kind: "NodePort", change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None"} }, want: []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services`}},
		"headless load":       {kind: "LoadBalancer", change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None"} }, want: []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services`}},
		"kubelet port":        {kind: "LoadBalancer", change: ports(corev1.ServicePort{Port: 10250}), want: []string{"spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"}},
		"external name empty": {kind: "ExternalName", change: func(s *corev1.ServiceSpec) { s.ExternalName = "." }, want: []string{"spec.externalName: Required value"}},
		"external name dot":   {kind: "ExternalName", change: func(s *corev1.ServiceSpec) { s.ExternalName = "example.com." }},
		"external name bad":   {kind: "ExternalName", change: func(s *corev1.ServiceSpec) { s.ExternalName = "_x" }, want: []string{`spec.externalName: Invalid value: "_x": ` + subdomainRule}},
		"external name with addresses": {
			kind: "ExternalName",
			change: func(s *corev1.ServiceSpec) {
				s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = []string{"1.1.1.1"}, []corev1.IPFamily{"IPv4"}, ptr(corev1.IPFamilyPolicySingleStack)
			},
			want: []string{
				"spec.clusterIPs: Forbidden: may not be set for ExternalName services",
				"spec.ipFamilies: Forbidden: may not be set for ExternalName services",
				"spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
			},
		},
		"port names": {
			change: ports(corev1.ServicePort{Port: 1}, corev1.ServicePort{Name: "A", Port: 2}, corev1.ServicePort{Name: "a", Port: 3}, corev1.ServicePort{Name: "a", Port: 4}),
			want:   []string{"spec.ports[0].name: Required value", `spec.ports[1].name: Invalid value: "A": ` + labelRule, `spec.ports[3].name: Duplicate value: "a"`},
		},
		"port fields": {
			change: ports(corev1.ServicePort{Port: 0, Protocol: "ICMP", TargetPort: intstr.FromInt32(65536), AppProtocol: ptr("a b")}),
			want: []string{
				"spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
				`spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
				"spec.ports[0].targetPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
				`spec.ports[0].appProtocol: Invalid value: "a b": ` + keyNameRule,
			},
		},
		"target port name": {change: ports(corev1.ServicePort{Port: 1, TargetPort: intstr.FromString("Web")}), want: []string{`spec.ports[0].targetPort: Invalid value: "Web": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`}},
		"ports twice": {
			change: ports(corev1.ServicePort{Name: "a", Port: 80}, corev1.ServicePort{Name: "b", Port: 80, Protocol: "UDP"}, corev1.ServicePort{Name: "c", Port: 80}),
			want:   []string{`spec.ports[2]: Duplicate value: {"protocol":"TCP","port":80,"targetPort":0}`},
		},
		"node port on ClusterIP": {change: ports(corev1.ServicePort{Port: 80, NodePort: 30000}), want: []string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		"node port twice": {
			kind:   "NodePort",
			change: ports(corev1.ServicePort{Name: "a", Port: 80, NodePort: 30000}, corev1.ServicePort{Name: "b", Port: 81, NodePort: 30000}, corev1.ServicePort{Name: "c", Port: 80, NodePort: 30000, Protocol: "UDP"}),
			want:   []string{"spec.ports[1].nodePort: Duplicate value: 30000"},
		},
		"selector": {change: func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a b": "c"} }, want: []string{`spec.selector: Invalid value: "a b": ` + keyNameRule}},
		"affinity": {change: func(s *corev1.ServiceSpec) { s.SessionAffinity = "x" }, want: []string{`spec.sessionAffinity: Unsupported value: "x": supported values: "ClientIP", "None"`}},
		"affinity timeout": {
			change: func(s *corev1.ServiceSpec) {
				s.SessionAffinity, s.SessionAffinityConfig = "ClientIP", &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(86401))}}
			},
			want: []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400"},
		},
		"affinity None with config": {after: func(s *corev1.ServiceSpec) { s.SessionAffinityConfig = &corev1.SessionAffinityConfig{} }, want: []string{"spec.sessionAffinityConfig: Forbidden: must not be set when session affinity is None"}},
		"external IPs": {
			change: func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"1.1.1.1", "x", "127.0.0.1", "1.1.1.01"} },
			want: []string{
				`spec.externalIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
				`spec.externalIPs[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
				`spec.externalIPs[3]: Invalid value: "1.1.1.01": must not have leading 0s`,
			},
		},
		"source ranges": {
			kind:   "LoadBalancer",
			change: func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{" 10.0.0.0/8 ", "10.0.0.0"} },
			want:   []string{`spec.LoadBalancerSourceRanges[1]: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`},
		},
		"load balancer fields elsewhere": {
			change: func(s *corev1.ServiceSpec) {
				s.LoadBalancerSourceRanges, s.AllocateLoadBalancerNodePorts, s.LoadBalancerClass = []string{"10.0.0.0/8"}, ptr(true), ptr("x")
			},
			want: []string{
				"spec.LoadBalancerSourceRanges: Forbidden: " + balancerOnly,
				"spec.allocateLoadBalancerNodePorts: Forbidden: " + balancerOnly,
				"spec.loadBalancerClass: Forbidden: " + balancerOnly,
			},
		},
		"load balancer class":          {kind: "LoadBalancer", change: func(s *corev1.ServiceSpec) { s.LoadBalancerClass = ptr("a b") }, want: []string{`spec.loadBalancerClass: Invalid value: "a b": ` + keyNameRule}},
		"allocation unknown":           {kind: "LoadBalancer", after: func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = nil }, want: []string{"allocateLoadBalancerNodePorts: Required value"}},
		"external policy":              {change: func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Local" }, want: []string{`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		"external policy bad":          {kind: "NodePort", change: func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "x" }, want: []string{`spec.externalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"`}},
		"external policy missing":      {kind: "NodePort", after: func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "" }, want: []string{"spec.externalTrafficPolicy: Required value"}},
		"health check port":            {kind: "NodePort", change: func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 1 }, want: []string{"spec.healthCheckNodePort: Invalid value: 1: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"}},
		"health check missing":         {kind: "LoadBalancer", change: func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Local" }, want: []string{"spec.healthCheckNodePort: Required value"}},
		"internal policy":              {change: func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicy("x")) }, want: []string{`spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"`}},
		"internal policy missing":      {after: func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = nil }, want: []string{"spec.internalTrafficPolicy: Required value"}},
		"distribution":                 {change: func(s *corev1.ServiceSpec) { s.TrafficDistribution = ptr("x") }, want: []string{`spec.trafficDistribution: Unsupported value: "x": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`}},
		"distribution ok":              {change: func(s *corev1.ServiceSpec) { s.TrafficDistribution = ptr("PreferSameNode") }},
		"clusterIPs without clusterIP": {change: func(s *corev1.ServiceSpec) { s.ClusterIP = "" }, want: []string{"spec.clusterIPs: Invalid value: [\"10.96.0.5\"]: must be empty when `clusterIP` is not specified"}},
		"clusterIP without clusterIPs": {change: func(s *corev1.ServiceSpec) { s.ClusterIPs = nil }, want: []string{"spec.clusterIPs: Required value"}},
		"clusterIPs do not match":      {change: func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.6" }, want: []string{"spec.clusterIPs: Invalid value: [\"10.96.0.5\"]: first value must match `clusterIP`"}},
		"address bad":                  {change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "x", []string{"x"} }, want: []string{`spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		"None and more":                {change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None", "::1"} }, want: []string{`spec.clusterIPs: Invalid value: ["None","::1"]: 'None' must be the first and only value`}},
		"one family twice": {
			change: func(s *corev1.ServiceSpec) {
				s.ClusterIPs, s.IPFamilies = []string{"10.96.0.5", "10.96.0.6"}, []corev1.IPFamily{"IPv4", "IPv4"}
			},
			want: []string{`spec.ipFamilies[1]: Duplicate value: "IPv4"`, `spec.clusterIPs: Invalid value: ["10.96.0.5","10.96.0.6"]: may specify no more than one IP for each IP family`},
		},
		"three addresses": {
			change: func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"10.96.0.5", "::1", "::2"} },
			want:   []string{`spec.clusterIPs: Invalid value: ["10.96.0.5","::1","::2"]: may only hold up to 2 values`},
		},
		"family of address": {change: func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{"IPv6"} }, want: []string{"spec.clusterIPs[0]: Invalid value: \"10.96.0.5\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
		"unknown family and policy": {
			change: func(s *corev1.ServiceSpec) {
				s.ClusterIP, s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = "", nil, []corev1.IPFamily{"IPv5"}, ptr(corev1.IPFamilyPolicy("x"))
			},
			want: []string{`spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"`, `spec.ipFamilyPolicy: Unsupported value: "x": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []func(*corev1.Service){}
			if tc.kind != "" {
				changes = append(changes, typed(tc.kind))
			}
			if tc.change != nil {
				changes = append(changes, spec(tc.change))
			}
			svc := validService(changes...)
			if tc.after != nil {
				tc.after(&svc.Spec)
			}
			wantErrors(t, Service().Validate(svc), tc.want...)
		})
	}
}

func TestService_ValidateAnnotations(t *testing.T) {
	svc := validService()
	svc.Annotations = map[string]string{
		"service.kubernetes.io/topology-aware-hints":             "auto",
		"service.kubernetes.io/topology-mode":                    "disabled",
		"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, x",
	}
	wantErrors(t, Service().Validate(svc),
		`metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "disabled": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified`,
		"metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Forbidden: "+balancerOnly,
		`metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
	)
}

func TestService_Names(t *testing.T) {
	for name, ok := range map[string]bool{"a-1": true, "1a": true, "A": false, "a.b": false, "a-": false} {
		if texts := Service().ValidateName(name, false); (len(texts) == 0) != ok {
			t.Errorf("%q: %v", name, texts)
		}
	}
}

func TestService_ValidateUpdate(t *testing.T) {
	dual := func(svc *corev1.Service) {
		svc.Spec.ClusterIPs = []string{"10.96.0.5", "fd00::5"}
		svc.Spec.IPFamilies = []corev1.IPFamily{"IPv4", "IPv6"}
		svc.Spec.IPFamilyPolicy = ptr(corev1.IPFamilyPolicyRequireDualStack)
	}
	local := func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = "LoadBalancer", "Local", 30000
		svc.Spec.LoadBalancerClass = ptr("a")
	}
	for name, tc := range map[string]struct {
		old    *corev1.Service
		change func(*corev1.ServiceSpec)
		want   []string
	}{
		"nothing": {old: validService(), change: func(*corev1.ServiceSpec) {}},
		"address": {
			old: validService(), change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "10.96.0.6", []string{"10.96.0.6"} },
			want: []string{`spec.clusterIPs[0]: Invalid value: ["10.96.0.6"]: may not change once set`},
		},
		"address unset": {
			old: validService(), change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "", nil },
			want: []string{"spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"},
		},
		"to headless": {
			old: validService(), change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None"} },
			want: []string{`spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set`},
		},
		"family": {
			old: validService(), change: func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{"IPv6"} },
			want: []string{
				`spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set`,
				"spec.clusterIPs[0]: Invalid value: \"10.96.0.5\": expected an IPv6 value as indicated by `ipFamilies[0]`",
			},
		},
		"second address gained": {old: validService(), change: func(s *corev1.ServiceSpec) {
			s.ClusterIPs, s.IPFamilies = []string{"10.96.0.5", "fd00::5"}, []corev1.IPFamily{"IPv4", "IPv6"}
		}},
		"second address lost": {
			old: validService(dual), change: func(s *corev1.ServiceSpec) { s.ClusterIPs, s.IPFamilies = s.ClusterIPs[:1], s.IPFamilies[:1] },
			want: []string{
				`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary clusterIP`,
				`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily`,
			},
		},
		"second address lost as it should": {old: validService(dual), change: func(s *corev1.ServiceSpec) {
			s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = s.ClusterIPs[:1], s.IPFamilies[:1], ptr(corev1.IPFamilyPolicySingleStack)
		}},
		"to ExternalName": {old: validService(), change: func(s *corev1.ServiceSpec) {
			*s = corev1.ServiceSpec{Type: "ExternalName", ExternalName: "x", SessionAffinity: "None"}
		}},
		"class": {
			old: validService(local), change: func(s *corev1.ServiceSpec) { s.LoadBalancerClass = ptr("b") },
			want: []string{`spec.loadBalancerClass: Invalid value: "b": may not change once set`},
		},
		"health check port": {
			old: validService(local), change: func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30001 },
			want: []string{"spec.healthCheckNodePort: Forbidden: field is immutable"},
		},
		"old spelling of external IPs": {
			old:    validService(spec(func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"1.1.1.01"} })),
			change: func(s *corev1.ServiceSpec) { s.ExternalIPs = append(s.ExternalIPs, "1.1.1.02") },
			want:   []string{`spec.externalIPs[1]: Invalid value: "1.1.1.02": must not have leading 0s`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := tc.old.DeepCopy()
			tc.change(&svc.Spec)
			wantErrors(t, Service().ValidateUpdate(svc, tc.old), tc.want...)
		})
	}
}

func TestService_Status(t *testing.T) {
	status := Service().Subresource("status")
	old := validService(typed("LoadBalancer"))
	svc := validService(typed("ExternalName"))
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "1.1.1.1", IPMode: ptr(corev1.LoadBalancerIPModeProxy)},
		{IP: "x", IPMode: ptr(corev1.LoadBalancerIPMode("y"))},
		{IP: "1.1.1.1"},
		{Hostname: "1.1.1.1", IPMode: ptr(corev1.LoadBalancerIPModeVIP)},
		{Hostname: "_"},
	}
	sent := svc.Status.DeepCopy()
	status.Prepare(svc, old)
	wantSame(t, "through status", &corev1.Service{Spec: old.Spec, Status: *sent}, svc)
	path := "status.loadBalancer.ingress"
	wantErrors(t, status.Validate(svc, old),
		path+`[1].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		path+`[1].ipMode: Unsupported value: "y": supported values: "Proxy", "VIP"`,
		path+"[2].ipMode: Required value: must be specified when `ip` is set",
		path+"[3].ipMode: Forbidden: may not be specified when `ip` is not set",
		path+`[3].hostname: Invalid value: "1.1.1.1": must be a DNS name, not an IP address`,
		path+`[4].hostname: Invalid value: "_": `+subdomainRule,
	)
	svc.Spec.Type = corev1.ServiceTypeNodePort
	wantErrors(t, status.Validate(svc, old), path+": Forbidden: may only be used when `spec.type` is 'LoadBalancer'")
}
