package bootstrap

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/scheduling"
)

// ensureServiceCIDR makes the ServiceCIDR of the configured networks and says that it is ready. A network of another
// family that came later is added; another change of the configuration has to be brought about by hand (KEP-1880).
func (b *Bootstrap) ensureServiceCIDR(ctx context.Context) error {
	var cidrs []string
	for _, r := range b.config.ServiceRanges {
		cidrs = append(cidrs, r.Masked().String())
	}
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: serviceName},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
	setReady(cidr)
	have, err := b.newest(serviceCIDRs, "", serviceName)
	if err != nil {
		return err
	}
	current, ok := have.(*networkingv1.ServiceCIDR)
	if !ok {
		return b.create(ctx, serviceCIDRs, "", serviceName, cidr)
	}
	switch have := current.Spec.CIDRs; {
	case slices.Equal(have, cidrs):
	case len(have) == 1 && len(cidrs) == 2 && have[0] == cidrs[0]:
		current.Spec.CIDRs = cidrs
		return b.update(ctx, serviceCIDRs, "", serviceName, "", current)
	default:
		b.config.Logger.Warn("the ServiceCIDR kubernetes differs from --service-cluster-ip-range; it stays as it is: make the two equal", "have", have, "configured", cidrs)
	}
	if current.DeletionTimestamp == nil && meta.FindStatusCondition(current.Status.Conditions, networkingv1.ServiceCIDRConditionReady) == nil {
		setReady(current)
		return b.update(ctx, serviceCIDRs, "", serviceName, "status", current)
	}
	return nil
}

func setReady(cidr *networkingv1.ServiceCIDR) {
	meta.SetStatusCondition(&cidr.Status.Conditions, metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "NetworksReady",
		Message: "Kubernetes default Service CIDR is ready",
	})
}

// ensurePriorityClasses makes the classes of the system's own pods.
func (b *Bootstrap) ensurePriorityClasses(ctx context.Context) error {
	for _, class := range scheduling.SystemClasses() {
		class.TypeMeta = metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"}
		if err := b.create(ctx, priorityClasses, "", class.Name, class); err != nil {
			return err
		}
	}
	return nil
}
