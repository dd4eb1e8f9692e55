package networking

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/kinds/kindtest"
)

type policy = kindtest.Case[networkingv1.NetworkPolicy]

func goodPolicy() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Port: kindtest.Ptr(intstr.FromInt32(80)), EndPort: kindtest.Ptr(int32(90))}},
				From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}},
			}},
		},
	}
}

func TestNetworkPolicy_Minimal(t *testing.T) {
	kindtest.Minimal(t, NetworkPolicy(),
		`{metadata: {namespace: default, name: x}}`,
		`{metadata: {namespace: default, name: x, generation: 1}, spec: {podSelector: {}, policyTypes: [Ingress]}}`)
	kindtest.Minimal(t, NetworkPolicy(),
		`{metadata: {namespace: default, name: x}, spec: {ingress: [{ports: [{port: 80}]}], egress: [{ports: [{}]}]}}`,
		`{metadata: {namespace: default, name: x, generation: 1}, spec: {podSelector: {}, policyTypes: [Ingress, Egress],
			ingress: [{ports: [{port: 80, protocol: TCP}]}], egress: [{ports: [{protocol: TCP}]}]}}`)
}

func TestNetworkPolicy_Create(t *testing.T) {
	port := func(p networkingv1.NetworkPolicyPort) func(*networkingv1.NetworkPolicy) {
		return func(n *networkingv1.NetworkPolicy) { n.Spec.Ingress[0].Ports[0] = p }
	}
	peer := func(edit func(*networkingv1.NetworkPolicyPeer)) func(*networkingv1.NetworkPolicy) {
		return func(n *networkingv1.NetworkPolicy) { edit(&n.Spec.Ingress[0].From[0]) }
	}
	name := intstr.FromString("http")
	kindtest.Create(t, NetworkPolicy(), goodPolicy(),
		policy{
			Name: "selector", Edit: func(n *networkingv1.NetworkPolicy) {
				n.Spec.PodSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
			},
			Want: []string{`spec.podSelector.matchExpressions[0].operator: Invalid value: "x": not a valid selector operator`},
		},
		policy{
			Name: "protocol", Edit: port(networkingv1.NetworkPolicyPort{Protocol: kindtest.Ptr(corev1.Protocol("X"))}),
			Want: []string{`spec.ingress[0].ports[0].protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"`},
		},
		policy{
			Name: "number", Edit: port(networkingv1.NetworkPolicyPort{Port: kindtest.Ptr(intstr.FromInt32(0))}),
			Want: []string{`spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive`},
		},
		policy{
			Name: "end before", Edit: port(networkingv1.NetworkPolicyPort{Port: kindtest.Ptr(intstr.FromInt32(9)), EndPort: kindtest.Ptr(int32(8))}),
			Want: []string{"spec.ingress[0].ports[0].endPort: Invalid value: 8: must be greater than or equal to `port`"},
		},
		policy{
			Name: "end of a name", Edit: port(networkingv1.NetworkPolicyPort{Port: &name, EndPort: kindtest.Ptr(int32(8))}),
			Want: []string{"spec.ingress[0].ports[0].endPort: Invalid value: 8: may not be specified when `port` is non-numeric"},
		},
		policy{
			Name: "end of nothing", Edit: port(networkingv1.NetworkPolicyPort{EndPort: kindtest.Ptr(int32(8))}),
			Want: []string{"spec.ingress[0].ports[0].endPort: Invalid value: 8: may not be specified when `port` is not specified"},
		},
		policy{
			Name: "name", Edit: port(networkingv1.NetworkPolicyPort{Port: kindtest.Ptr(intstr.FromString("a--b"))}),
			Want: []string{`spec.ingress[0].ports[0].port: Invalid value: "a--b": must not contain consecutive hyphens`},
		},
		policy{
			Name: "no peer", Edit: peer(func(p *networkingv1.NetworkPolicyPeer) { p.IPBlock = nil }),
			Want: []string{"spec.ingress[0].from[0]: Required value: must specify a peer"},
		},
		policy{
			Name: "two peers", Edit: peer(func(p *networkingv1.NetworkPolicyPeer) { p.PodSelector = &metav1.LabelSelector{} }),
			Want: []string{"spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"},
		},
		policy{Name: "two selectors", Edit: peer(func(p *networkingv1.NetworkPolicyPeer) {
			p.IPBlock, p.PodSelector, p.NamespaceSelector = nil, &metav1.LabelSelector{}, &metav1.LabelSelector{}
		})},
		policy{
			Name: "no network", Edit: peer(func(p *networkingv1.NetworkPolicyPeer) { p.IPBlock.CIDR = "" }),
			Want: []string{"spec.ingress[0].from[0].ipBlock.cidr: Required value"},
		},
		policy{
			Name: "network", Edit: peer(func(p *networkingv1.NetworkPolicyPeer) { p.IPBlock.CIDR = "x" }),
			Want: []string{`spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`},
		},
		policy{
			Name: "exceptions", Edit: peer(func(p *networkingv1.NetworkPolicyPeer) { p.IPBlock.Except = []string{"x", "11.0.0.0/16", "10.0.0.0/8"} }),
			Want: []string{
				`spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
				"spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
				"spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
			},
		},
		policy{
			Name: "egress", Edit: func(n *networkingv1.NetworkPolicy) {
				n.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{}}}}
			},
			Want: []string{"spec.egress[0].to[0]: Required value: must specify a peer"},
		},
		policy{
			Name: "type", Edit: func(n *networkingv1.NetworkPolicy) { n.Spec.PolicyTypes = []networkingv1.PolicyType{"x"} },
			Want: []string{`spec.policyTypes[0]: Unsupported value: "x": supported values: "Ingress", "Egress"`},
		},
		policy{
			Name: "types", Edit: func(n *networkingv1.NetworkPolicy) { n.Spec.PolicyTypes = []networkingv1.PolicyType{"a", "b", "c"} },
			Want: []string{`spec.policyTypes: Invalid value: ["a","b","c"]: may not specify more than two policyTypes`},
		},
	)
}

func TestNetworkPolicy_Update(t *testing.T) {
	old := goodPolicy()
	old.Spec.Ingress[0].From[0].IPBlock = &networkingv1.IPBlock{CIDR: "010.0.0.0/8", Except: []string{"10.01.0.0/16"}}
	kindtest.Update(t, NetworkPolicy(), old,
		policy{Name: "old spellings elsewhere", Edit: func(n *networkingv1.NetworkPolicy) {
			n.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: n.Spec.Ingress[0].From}}
			n.Spec.Ingress = nil
		}},
		policy{
			Name: "no peer", Edit: func(n *networkingv1.NetworkPolicy) { n.Spec.Ingress[0].From[0].IPBlock = nil },
			Want: []string{"spec.ingress[0].from[0]: Required value: must specify a peer"},
		},
	)
	want := []string{"spec.ingress[0].from[0].ipBlock.cidr", "spec.ingress[0].from[0].ipBlock.except[0]"}
	var got []string
	for _, text := range NetworkPolicy().Warnings(old, nil) {
		for _, path := range want {
			if len(text) > len(path) && text[:len(path)+1] == path+":" {
				got = append(got, path)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields warned of (-want +got):\n%s", diff)
	}
}

func TestNetworkPolicy_Row(t *testing.T) {
	kindtest.Row(t, NetworkPolicy(), goodPolicy(), time.Now(), "x", "app=web", "<unknown>")
}
