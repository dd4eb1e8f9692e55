package serviceip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"vigil/kinds/networking"
	"vigil/object"
	"vigil/store"
)

// added are the ranges of a family that ServiceCIDRs add to the configured ones: those that are ready and stay (KEP-1880). They are
// read from etcd each time, since they are asked for only when the configured range does not do.
func (a *Allocator) added(ctx context.Context, family corev1.IPFamily) ([]addressRange, error) {
	kind := networking.ServiceCIDR()
	list, err := a.store.List(ctx, a.store.Prefix()+kind.Path+"/", store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read service CIDRs: %w", err)
	}
	var ranges []addressRange
	for _, kv := range list.KVs {
		v, err := object.NewVersion(kind.Type, kv.Key, kv.ModRev, kv.Value)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
		}
		obj, err := v.Decode()
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
		}
		cidr := obj.(*networkingv1.ServiceCIDR)
		if cidr.DeletionTimestamp != nil || !meta.IsStatusConditionTrue(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			continue
		}
		for _, text := range cidr.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}
			r, err := newAddressRange(prefix)
			if err != nil || r.family != family || slices.ContainsFunc(a.ranges, func(own addressRange) bool { return own.prefix == r.prefix }) {
				continue // a network without usable addresses, or one that is configured
			}
			ranges = append(ranges, r)
		}
	}
	return ranges, nil
}

// rangeWith is the range that has an address: that of its family, or one that was added; nil if none has it.
func (a *Allocator) rangeWith(ctx context.Context, ip netip.Addr) (*addressRange, error) {
	if r := a.rangeOf(familyOf(ip)); r == nil || r.contains(ip) {
		return r, nil
	}
	added, err := a.added(ctx, familyOf(ip))
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(added, func(r addressRange) bool { return r.contains(ip) }); i >= 0 {
		return &added[i], nil
	}
	return nil, nil
}

// takeAny takes a free address of a family's range, and when that is full, of one that was added.
func (a *Allocator) takeAny(ctx context.Context, r *addressRange, svc *corev1.Service) (ip netip.Addr, rev int64, err error) {
	if ip, rev, err = a.ips.takeAny(ctx, r, svc); !errors.Is(err, errFull) {
		return ip, rev, err
	}
	added, err := a.added(ctx, r.family)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	for i := range added {
		if ip, rev, err = a.ips.takeAny(ctx, &added[i], svc); !errors.Is(err, errFull) {
			return ip, rev, err
		}
	}
	return netip.Addr{}, 0, errFull
}
