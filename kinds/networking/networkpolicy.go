package networking

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// NetworkPolicy is the row of network policies.
func NetworkPolicy() *kinds.Kind {
	return &kinds.Kind{
		GVK:        networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		Resource:   "networkpolicies",
		Singular:   "networkpolicy",
		ShortNames: []string{"netpol"},
		Namespaced: true,
		Path:       "networkpolicies",
		Type: &object.Type{
			APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespaced: true,
			New: func() runtime.Object { return &networkingv1.NetworkPolicy{} },
		},
		New:     func() kinds.Object { return &networkingv1.NetworkPolicy{} },
		NewList: func() runtime.Object { return &networkingv1.NetworkPolicyList{} },

		Default:       func(obj kinds.Object) { defaultPolicy(&obj.(*networkingv1.NetworkPolicy).Spec) },
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validatePolicy(&obj.(*networkingv1.NetworkPolicy).Spec, nil)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validatePolicy(&obj.(*networkingv1.NetworkPolicy).Spec, &old.(*networkingv1.NetworkPolicy).Spec)
		},
		Warnings:            func(obj, _ kinds.Object) []string { return policyWarnings(&obj.(*networkingv1.NetworkPolicy).Spec) },
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			policy := obj.(*networkingv1.NetworkPolicy)
			return []any{policy.Name, metav1.FormatLabelSelector(&policy.Spec.PodSelector), column.Since(policy.CreationTimestamp, now)}
		},
	}
}

// defaultPolicy: a policy is for incoming traffic, and for outgoing traffic when it has rules for that.
func defaultPolicy(spec *networkingv1.NetworkPolicySpec) {
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) != 0 {
			spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	visitRules(spec, nil, func(ports []networkingv1.NetworkPolicyPort, _ []networkingv1.NetworkPolicyPeer, _, _ *field.Path) {
		for i := range ports {
			if ports[i].Protocol == nil {
				tcp := corev1.ProtocolTCP
				ports[i].Protocol = &tcp
			}
		}
	})
}

// visitRules calls visit for each rule with its ports and peers and their paths; ingress comes first.
func visitRules(spec *networkingv1.NetworkPolicySpec, path *field.Path, visit func(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, portsAt, peersAt *field.Path)) {
	for i, rule := range spec.Ingress {
		at := path.Child("ingress").Index(i)
		visit(rule.Ports, rule.From, at.Child("ports"), at.Child("from"))
	}
	for i, rule := range spec.Egress {
		at := path.Child("egress").Index(i)
		visit(rule.Ports, rule.To, at.Child("ports"), at.Child("to"))
	}
}

func policyWarnings(spec *networkingv1.NetworkPolicySpec) []string {
	var texts []string
	visitRules(spec, field.NewPath("spec"), func(_ []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, _, at *field.Path) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			block := at.Index(i).Child("ipBlock")
			texts = append(texts, validate.CIDRWarnings(block.Child("cidr"), peer.IPBlock.CIDR)...)
			for j, except := range peer.IPBlock.Except {
				texts = append(texts, validate.CIDRWarnings(block.Child("except").Index(j), except)...)
			}
		}
	})
	return texts
}
