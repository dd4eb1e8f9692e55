package networking

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type ip = kindtest.Case[networkingv1.IPAddress]

func goodAddress() *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.1"},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "kubernetes"}},
	}
}

func TestIPAddress_Minimal(t *testing.T) {
	const minimal = `{metadata: {name: "fd00::1"}, spec: {parentRef: {resource: services, name: x}}}`
	kindtest.Minimal(t, IPAddress(), minimal, minimal)
}

func TestIPAddress_Create(t *testing.T) {
	parent := func(edit func(*networkingv1.ParentReference)) func(*networkingv1.IPAddress) {
		return func(a *networkingv1.IPAddress) { edit(a.Spec.ParentRef) }
	}
	kindtest.Create(t, IPAddress(), goodAddress(),
		ip{
			Name: "name", Edit: func(a *networkingv1.IPAddress) { a.Name = "x" },
			Want: []string{`metadata.name: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		},
		ip{
			Name: "spelling", Edit: func(a *networkingv1.IPAddress) { a.Name = "FD00::1" },
			Want: []string{`metadata.name: Invalid value: "FD00::1": must be in canonical form ("fd00::1")`},
		},
		ip{
			Name: "no parent", Edit: func(a *networkingv1.IPAddress) { a.Spec.ParentRef = nil },
			Want: []string{`spec.parentRef: Required value`},
		},
		ip{
			Name: "empty parent", Edit: parent(func(p *networkingv1.ParentReference) { *p = networkingv1.ParentReference{} }),
			Want: []string{`spec.parentRef.resource: Required value`, `spec.parentRef.name: Required value`},
		},
		ip{
			Name: "bad parent", Edit: parent(func(p *networkingv1.ParentReference) {
				*p = networkingv1.ParentReference{Group: "a", Resource: "a/b", Namespace: "..", Name: "a%"}
			}),
			Want: []string{
				`spec.parentRef.resource: Invalid value: "a/b": may not contain '/'`,
				`spec.parentRef.name: Invalid value: "a%": may not contain '%'`,
				`spec.parentRef.namespace: Invalid value: "..": may not be '..'`,
			},
		},
	)
}

func TestIPAddress_Update(t *testing.T) {
	kindtest.Update(t, IPAddress(), goodAddress(),
		ip{Name: "label", Edit: func(a *networkingv1.IPAddress) { a.Labels = map[string]string{"a": "b"} }},
		ip{
			Name: "parent", Edit: func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Name = "x" },
			Want: []string{`spec.parentRef: Invalid value: {"resource":"services","namespace":"default","name":"x"}: field is immutable`},
		},
	)
}

func TestIPAddress_Row(t *testing.T) {
	address := goodAddress()
	kindtest.Row(t, IPAddress(), address, time.Now(), "10.96.0.1", "services/default/kubernetes")
	address.Spec.ParentRef = &networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Name: "x"}
	kindtest.Row(t, IPAddress(), address, time.Now(), "10.96.0.1", "gateways.gateway.networking.k8s.io/x")
	address.Spec.ParentRef = nil
	kindtest.Row(t, IPAddress(), address, time.Now(), "10.96.0.1", "<none>")
}
