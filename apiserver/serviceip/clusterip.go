package serviceip

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// clusterIPs takes the addresses that the service shall have and has not yet, and notes those that it shall lose.
// An address once given stays: what tries to change it is refused by validation.
func (t *transaction) clusterIPs() error {
	spec := &t.svc.Spec
	external := spec.Type == corev1.ServiceTypeExternalName
	if t.old == nil || t.old.Spec.Type == corev1.ServiceTypeExternalName {
		if external || isHeadless(t.svc) {
			return nil
		}
		return t.takeFamilies(0)
	}
	switch {
	case isHeadless(t.old):
		return nil
	case external:
		t.dropIPs = addressesOf(t.old)
		return nil
	case isHeadless(t.svc), len(spec.ClusterIPs) == 0, keepsPreferDualStack(t.svc, t.old):
		return nil
	}
	switch had, has := len(t.old.Spec.IPFamilies), len(spec.IPFamilies); {
	case had == 1 && has == 2:
		return t.takeFamilies(1)
	case had == 2 && has == 1:
		t.dropIPs = addressesOf(t.old)[1:]
	}
	return nil
}

// takeFamilies takes an address for each of the service's families from index first on, the one that it asks for or
// any.
func (t *transaction) takeFamilies(first int) error {
	spec := &t.svc.Spec
	spec.ClusterIPs = slices.Clone(spec.ClusterIPs) // never the stored service's
	for i := first; i < len(spec.IPFamilies); i++ {
		r := t.a.rangeOf(spec.IPFamilies[i])
		if i < len(spec.ClusterIPs) {
			if err := t.takeAsked(r, spec.ClusterIPs[i]); err != nil {
				return t.invalid(field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs,
					fmt.Sprintf("failed to allocate IP %v: %v", spec.ClusterIPs[i], err)))
			}
			continue
		}
		ip, rev, err := t.a.takeAny(t.ctx, r, t.svc)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
		}
		t.took(ip, rev)
		spec.ClusterIPs = append(spec.ClusterIPs, ip.String())
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

func (t *transaction) takeAsked(r *addressRange, text string) error {
	ip, ok := parseAddr(text)
	if ok {
		in, err := t.a.rangeWith(t.ctx, ip)
		if err != nil {
			return err
		}
		ok = in != nil && in.family == r.family
	}
	if !ok {
		return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", text, r.prefix)
	}
	rev, err := t.a.ips.take(t.ctx, ip, t.svc)
	if err == nil {
		t.took(ip, rev)
	}
	return err
}

func (t *transaction) took(ip netip.Addr, rev int64) {
	if t.takenIPs == nil {
		t.takenIPs = map[netip.Addr]int64{}
	}
	t.takenIPs[ip] = rev
}

func isHeadless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) > 0 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// addressesOf are the cluster IPs that the service holds.
func addressesOf(svc *corev1.Service) []netip.Addr {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || isHeadless(svc) {
		return nil
	}
	var ips []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if ip, ok := parseAddr(text); ok {
			ips = append(ips, ip)
		}
	}
	return ips
}

// parseAddr reads addresses as services may have them: in any spelling, also with the leading zeros of old.
func parseAddr(text string) (netip.Addr, bool) {
	ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return ip.Unmap(), ok
}

func keyOf(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// revisionOf is the service's resource version, 0 when it has none.
func revisionOf(svc *corev1.Service) int64 {
	rev, _ := strconv.ParseInt(svc.ResourceVersion, 10, 64)
	return rev
}
