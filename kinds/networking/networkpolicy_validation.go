package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"vigil/kinds/validate"
)

// policyCheck is one validation of a policy.
type policyCheck struct {
	selectors metav1validation.LabelSelectorValidationOptions
	stored    validate.Stored // networks
}

// validatePolicy checks a policy; old is nil on create. An update may keep what has become invalid since: networks
// anywhere in it, label values when the old pod selector has bad ones.
func validatePolicy(spec, old *networkingv1.NetworkPolicySpec) field.ErrorList {
	var c policyCheck
	if old != nil {
		c.stored = validate.Stored{}
		c.selectors.AllowInvalidLabelValueInSelector = metav1validation.LabelSelectorHasInvalidLabelValue(&old.PodSelector)
		visitRules(old, nil, func(_ []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, _, _ *field.Path) {
			for _, peer := range peers {
				if peer.IPBlock != nil {
					c.stored[peer.IPBlock.CIDR] = true
					for _, except := range peer.IPBlock.Except {
						c.stored[except] = true
					}
				}
			}
		})
	}
	path := field.NewPath("spec")
	errs := metav1validation.ValidateLabelSelector(&spec.PodSelector, c.selectors, path.Child("podSelector"))
	visitRules(spec, path, func(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, portsAt, peersAt *field.Path) {
		for i := range ports {
			errs = append(errs, validatePolicyPort(&ports[i], portsAt.Index(i))...)
		}
		for i := range peers {
			errs = append(errs, c.peer(&peers[i], peersAt.Index(i))...)
		}
	})
	types := path.Child("policyTypes")
	if len(spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(types, spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range spec.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			errs = append(errs, field.NotSupported(types.Index(i), t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}))
		}
	}
	return errs
}

func validatePolicyPort(port *networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := port.Protocol; p != nil && *p != corev1.ProtocolTCP && *p != corev1.ProtocolUDP && *p != corev1.ProtocolSCTP {
		errs = append(errs, field.NotSupported(path.Child("protocol"), *p, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}))
	}
	end := path.Child("endPort")
	switch {
	case port.Port == nil:
		if port.EndPort != nil {
			errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is not specified"))
		}
	case port.Port.Type == intstr.Int:
		errs = append(errs, validate.PortNumber(port.Port.IntVal, path.Child("port"))...)
		if port.EndPort != nil {
			if *port.EndPort < port.Port.IntVal {
				errs = append(errs, field.Invalid(end, *port.EndPort, "must be greater than or equal to `port`"))
			}
			errs = append(errs, validate.PortNumber(*port.EndPort, end)...)
		}
	default:
		if port.EndPort != nil {
			errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric"))
		}
		errs = append(errs, validate.Each(port.Port.StrVal, path.Child("port"), validation.IsValidPortName)...)
	}
	return errs
}

func (c *policyCheck) peer(peer *networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(peer.PodSelector, c.selectors, path.Child("podSelector"))
	errs = append(errs, metav1validation.ValidateLabelSelector(peer.NamespaceSelector, c.selectors, path.Child("namespaceSelector"))...)
	if peer.IPBlock != nil {
		errs = append(errs, c.block(peer.IPBlock, path.Child("ipBlock"))...)
	}
	selected := peer.PodSelector != nil || peer.NamespaceSelector != nil
	switch {
	case !selected && peer.IPBlock == nil:
		errs = append(errs, field.Required(path, "must specify a peer"))
	case selected && peer.IPBlock != nil:
		errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
	}
	return errs
}

func (c *policyCheck) block(block *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	at := path.Child("cidr")
	if block.CIDR == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := validate.LegacyCIDR(at, block.CIDR, c.stored)
	_, whole, err := netutils.ParseCIDRSloppy(block.CIDR)
	if err != nil {
		return errs
	}
	for i, text := range block.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, validate.LegacyCIDR(at, text, c.stored)...)
		_, except, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		bits, _ := whole.Mask.Size()
		exceptBits, _ := except.Mask.Size()
		if !whole.Contains(except.IP) || bits >= exceptBits {
			errs = append(errs, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
