package networking

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type (
	ingress = kindtest.Case[networkingv1.Ingress]
	class   = kindtest.Case[networkingv1.IngressClass]
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badWildcard  = `a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badLabel     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
)

func goodIngress() *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		Spec: networkingv1.IngressSpec{
			IngressClassName: kindtest.Ptr("nginx"),
			TLS:              []networkingv1.IngressTLS{{Hosts: []string{"a.example.com", "*.example.com"}, SecretName: "s"}},
			Rules: []networkingv1.IngressRule{{
				Host: "a.example.com",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: kindtest.Ptr(networkingv1.PathTypePrefix), Backend: goodBackend(),
				}}}},
			}},
		},
	}
}

func goodBackend() networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func TestIngress_Minimal(t *testing.T) {
	kindtest.Minimal(t, Ingress(),
		`{metadata: {namespace: default, name: x}, spec: {defaultBackend: {service: {name: web, port: {name: http}}}}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}`,
		`{metadata: {namespace: default, name: x, generation: 1}, spec: {defaultBackend: {service: {name: web, port: {name: http}}}}}`)
}

func TestIngress_Create(t *testing.T) {
	path := func(edit func(*networkingv1.HTTPIngressPath)) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { edit(&i.Spec.Rules[0].HTTP.Paths[0]) }
	}
	backend := func(b networkingv1.IngressBackend) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { i.Spec.DefaultBackend = &b }
	}
	service := func(name string, port networkingv1.ServiceBackendPort) func(*networkingv1.Ingress) {
		return backend(networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: port}})
	}
	host := func(host string) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = host }
	}
	const at = "spec.rules[0].http.paths[0]"
	kindtest.Create(t, Ingress(), goodIngress(),
		ingress{
			Name: "nothing", Edit: func(i *networkingv1.Ingress) { i.Spec.Rules = nil },
			Want: []string{"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"},
		},
		ingress{Name: "wildcard", Edit: host("*.example.com")},
		ingress{Name: "bad wildcard", Edit: host("a.*.com"), Want: []string{`spec.rules[0].host: Invalid value: "a.*.com": ` + badWildcard}},
		ingress{Name: "bad host", Edit: host("A"), Want: []string{`spec.rules[0].host: Invalid value: "A": ` + badSubdomain}},
		ingress{Name: "address", Edit: host("10.0.0.1"), Want: []string{`spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address`}},
		ingress{
			Name: "no paths", Edit: func(i *networkingv1.Ingress) { i.Spec.Rules[0].HTTP.Paths = nil },
			Want: []string{"spec.rules[0].http.paths: Required value"},
		},
		ingress{
			Name: "no path type", Edit: path(func(p *networkingv1.HTTPIngressPath) { p.PathType = nil }),
			Want: []string{at + ".pathType: Required value: pathType must be specified"},
		},
		ingress{
			Name: "path type", Edit: path(func(p *networkingv1.HTTPIngressPath) { p.PathType = kindtest.Ptr(networkingv1.PathType("x")) }),
			Want: []string{at + `.pathType: Unsupported value: "x": supported values: "Exact", "ImplementationSpecific", "Prefix"`},
		},
		ingress{
			Name: "relative", Edit: path(func(p *networkingv1.HTTPIngressPath) { p.Path = "x" }),
			Want: []string{at + `.path: Invalid value: "x": must be an absolute path`},
		},
		ingress{
			Name: "sequences", Edit: path(func(p *networkingv1.HTTPIngressPath) { p.Path = "//%2f%2F/./../x/.." }),
			Want: []string{
				at + `.path: Invalid value: "//%2f%2F/./../x/..": must not contain '//'`,
				at + `.path: Invalid value: "//%2f%2F/./../x/..": must not contain '/./'`,
				at + `.path: Invalid value: "//%2f%2F/./../x/..": must not contain '/../'`,
				at + `.path: Invalid value: "//%2f%2F/./../x/..": must not contain '%2f'`,
				at + `.path: Invalid value: "//%2f%2F/./../x/..": must not contain '%2F'`,
				at + `.path: Invalid value: "//%2f%2F/./../x/..": cannot end with '/..'`,
			},
		},
		ingress{
			Name: "end", Edit: path(func(p *networkingv1.HTTPIngressPath) {
				p.Path, p.PathType = "/.", kindtest.Ptr(networkingv1.PathTypeExact)
			}),
			Want: []string{at + `.path: Invalid value: "/.": cannot end with '/.'`},
		},
		ingress{
			Name: "specific", Edit: path(func(p *networkingv1.HTTPIngressPath) {
				p.Path, p.PathType = "x", kindtest.Ptr(networkingv1.PathTypeImplementationSpecific)
			}),
			Want: []string{at + `.path: Invalid value: "x": must be an absolute path`},
		},
		ingress{Name: "no backend", Edit: backend(networkingv1.IngressBackend{}), Want: []string{`spec.defaultBackend: Invalid value: "": resource or service backend is required`}},
		ingress{
			Name: "two backends", Edit: backend(networkingv1.IngressBackend{Service: goodBackend().Service, Resource: &corev1.TypedLocalObjectReference{}}),
			Want: []string{`spec.defaultBackend: Invalid value: "": cannot set both resource and service backends`},
		},
		ingress{
			Name: "resource", Edit: backend(networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{APIGroup: kindtest.Ptr("A"), Kind: "a/b"}}),
			Want: []string{
				`spec.defaultBackend.resource.apiGroup: Invalid value: "A": ` + badSubdomain,
				`spec.defaultBackend.resource.kind: Invalid value: "a/b": may not contain '/'`,
				`spec.defaultBackend.resource.name: Required value`,
			},
		},
		ingress{
			Name: "service", Edit: service("", networkingv1.ServiceBackendPort{}),
			Want: []string{"spec.defaultBackend.service.name: Required value", "spec.defaultBackend: Required value: port name or number is required"},
		},
		ingress{
			Name: "service name", Edit: service("A", networkingv1.ServiceBackendPort{Number: 70000}),
			Want: []string{
				`spec.defaultBackend.service.name: Invalid value: "A": ` + badLabel,
				`spec.defaultBackend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive`,
			},
		},
		ingress{
			Name: "two ports", Edit: service("a", networkingv1.ServiceBackendPort{Number: 1, Name: "x"}),
			Want: []string{`spec.defaultBackend: Invalid value: "": cannot set both port name & port number`},
		},
		ingress{
			Name: "port name", Edit: service("a", networkingv1.ServiceBackendPort{Name: "a--b"}),
			Want: []string{`spec.defaultBackend.service.port.name: Invalid value: "a--b": must not contain consecutive hyphens`},
		},
		ingress{
			Name: "tls", Edit: func(i *networkingv1.Ingress) {
				i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"*", "A"}, SecretName: "A"}, {}}
			},
			Want: []string{
				`spec.tls[0].hosts[0]: Invalid value: "*": ` + badWildcard,
				`spec.tls[0].hosts[1]: Invalid value: "A": ` + badSubdomain,
				`spec.tls[0].secretName: Invalid value: "A": ` + badSubdomain,
			},
		},
		ingress{
			Name: "class", Edit: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = kindtest.Ptr("A") },
			Want: []string{`spec.ingressClassName: Invalid value: "A": ` + badSubdomain},
		},
		ingress{
			Name: "two classes", Edit: func(i *networkingv1.Ingress) { i.Annotations = map[string]string{ClassAnnotation: "x"} },
			Want: []string{"annotations.kubernetes.io/ingress.class: Invalid value: \"x\": must match `ingressClassName` when both are specified"},
		},
	)
}

func TestIngress_Update(t *testing.T) {
	old := goodIngress()
	old.Spec.TLS[0].SecretName = "A"
	old.Spec.Rules[0].Host = "*.example.com"
	old.Spec.Rules[0].HTTP.Paths = nil
	old.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "1.2.3.4"}}
	kindtest.Update(t, Ingress(), old,
		ingress{Name: "what is stored already", Edit: func(i *networkingv1.Ingress) { i.Status = networkingv1.IngressStatus{} }},
		ingress{
			Name: "no type", Edit: func(i *networkingv1.Ingress) {
				i.Spec.Rules[0].Host, i.Spec.Rules[0].HTTP = "a.example.com", goodIngress().Spec.Rules[0].HTTP
				i.Spec.Rules[0].HTTP.Paths[0].PathType = nil
			},
			Want: []string{"spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"},
		},
	)
	changed := old.DeepCopy()
	changed.Status = networkingv1.IngressStatus{}
	kindtest.Change(Ingress(), "", changed, old)
	if diff := cmp.Diff(old.Status, changed.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestIngress_Status(t *testing.T) {
	old := goodIngress()
	old.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "01.2.3.4"}}
	point := func(p networkingv1.IngressLoadBalancerIngress) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) {
			i.Spec.Rules = nil
			i.Status.LoadBalancer.Ingress = append(i.Status.LoadBalancer.Ingress, p)
		}
	}
	kindtest.UpdateSubresource(t, Ingress(), "status", old,
		ingress{Name: "good", Edit: point(networkingv1.IngressLoadBalancerIngress{IP: "fd00::1", Hostname: "a.example.com"})},
		ingress{
			Name: "bad", Edit: point(networkingv1.IngressLoadBalancerIngress{IP: "x", Hostname: "A"}),
			Want: []string{
				`status.loadBalancer.ingress[1].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
				`status.loadBalancer.ingress[1].hostname: Invalid value: "A": ` + badSubdomain,
			},
		},
		ingress{
			Name: "address as name", Edit: point(networkingv1.IngressLoadBalancerIngress{Hostname: "1.2.3.4"}),
			Want: []string{`status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`},
		},
	)
}

func TestIngress_Warnings(t *testing.T) {
	obj := goodIngress()
	obj.Spec.IngressClassName = nil
	obj.Annotations = map[string]string{ClassAnnotation: "x"}
	want := []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
	if diff := cmp.Diff(want, Ingress().Warnings(obj, nil)); diff != "" {
		t.Errorf("create (-want +got):\n%s", diff)
	}
	if got := Ingress().Warnings(obj, obj); len(got) != 0 {
		t.Errorf("update: %q", got)
	}
}

func TestIngress_Row(t *testing.T) {
	obj := goodIngress()
	kindtest.Row(t, Ingress(), obj, time.Now(), "x", "nginx", "a.example.com", "", "80, 443", "<unknown>")
	obj.Spec = networkingv1.IngressSpec{}
	obj.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "2.2.2.2"}, {Hostname: "b"}, {IP: "1.1.1.1", Hostname: "a"}, {Hostname: "b"}}
	kindtest.Row(t, Ingress(), obj, time.Now(), "x", "<none>", "*", "1.1.1.1,2.2.2.2,b", "80", "<unknown>")
	obj.Spec.Rules = []networkingv1.IngressRule{{Host: "a"}, {}, {Host: "b"}, {Host: "c"}, {Host: "d"}, {Host: "e"}}
	kindtest.Row(t, Ingress(), obj, time.Now(), "x", "<none>", "a,b,c + 2 more...", "1.1.1.1,2.2.2.2,b", "80", "<unknown>")
}

func goodClass() *networkingv1.IngressClass {
	return &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: networkingv1.IngressClassSpec{
			Controller: "example.com/x",
			Parameters: &networkingv1.IngressClassParametersReference{APIGroup: kindtest.Ptr("g"), Kind: "K", Name: "n", Scope: kindtest.Ptr("Cluster")},
		},
	}
}

func TestIngressClass_Minimal(t *testing.T) {
	kindtest.Minimal(t, IngressClass(),
		`{metadata: {name: x}, spec: {controller: example.com/x, parameters: {kind: K, name: n}}}`,
		`{metadata: {name: x, generation: 1}, spec: {controller: example.com/x, parameters: {kind: K, name: n, scope: Cluster}}}`)
}

func TestIngressClass_Create(t *testing.T) {
	parameters := func(p networkingv1.IngressClassParametersReference) func(*networkingv1.IngressClass) {
		return func(c *networkingv1.IngressClass) { c.Spec.Parameters = &p }
	}
	kindtest.Create(t, IngressClass(), goodClass(),
		class{
			Name: "no controller", Edit: func(c *networkingv1.IngressClass) { c.Spec.Controller = "" },
			Want: []string{"spec.controller: Required value"},
		},
		class{
			Name: "controller", Edit: func(c *networkingv1.IngressClass) { c.Spec.Controller = "x" },
			Want: []string{`spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")`},
		},
		class{
			Name: "empty reference", Edit: parameters(networkingv1.IngressClassParametersReference{Scope: kindtest.Ptr("x")}),
			Want: []string{
				"spec.parameters.kind: Required value",
				"spec.parameters.name: Required value",
				`spec.parameters.scope: Unsupported value: "x": supported values: "Cluster", "Namespace"`,
			},
		},
		class{
			Name: "no namespace", Edit: parameters(networkingv1.IngressClassParametersReference{Kind: "K", Name: "n", Scope: kindtest.Ptr("Namespace")}),
			Want: []string{"spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"},
		},
		class{
			Name: "bad namespace", Edit: parameters(networkingv1.IngressClassParametersReference{Kind: "K", Name: "n", Scope: kindtest.Ptr("Namespace"), Namespace: kindtest.Ptr("A")}),
			Want: []string{`spec.parameters.namespace: Invalid value: "A": ` + badLabel},
		},
		class{
			Name: "namespace", Edit: parameters(networkingv1.IngressClassParametersReference{Kind: "K", Name: "n", Namespace: kindtest.Ptr("a")}),
			Want: []string{"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"},
		},
	)
	kindtest.Update(t, IngressClass(), goodClass(),
		class{Name: "parameters", Edit: func(c *networkingv1.IngressClass) { c.Spec.Parameters = nil }},
		class{
			Name: "controller", Edit: func(c *networkingv1.IngressClass) { c.Spec.Controller = "example.com/y" },
			Want: []string{`spec.controller: Invalid value: "example.com/y": field is immutable`},
		},
	)
}

func TestIngressClass_Row(t *testing.T) {
	obj := goodClass()
	kindtest.Row(t, IngressClass(), obj, time.Now(), "x", "example.com/x", "K.g/n", "<unknown>")
	obj.Spec.Parameters = nil
	kindtest.Row(t, IngressClass(), obj, time.Now(), "x", "example.com/x", "<none>", "<unknown>")
}
