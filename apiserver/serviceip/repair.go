package serviceip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"vigil/kinds/core"
	"vigil/object"
	"vigil/store"
)

// Repair makes what is taken agree with what services have. Several servers may repair at the same time, and while
// others allocate: everything is changed on condition that it is as it was when it was looked at.
func (a *Allocator) Repair(ctx context.Context) error {
	return errors.Join(a.repairAddresses(ctx), a.repairPorts(ctx))
}

// services reads all services, in order of their keys.
func (a *Allocator) services(ctx context.Context) ([]*corev1.Service, error) {
	kind := core.Service()
	prefix := a.store.Prefix() + kind.Path + "/"
	list, err := a.store.List(ctx, prefix, store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read services: %w", err)
	}
	services := make([]*corev1.Service, 0, len(list.KVs))
	for _, kv := range list.KVs {
		v, err := object.NewVersion(kind.Type, kv.Key, kv.ModRev, kv.Value)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
		}
		obj, err := v.Decode()
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
		}
		services = append(services, obj.(*corev1.Service))
	}
	return services, nil
}

// repairAddresses compares IPAddress objects with services:
//
//	service has it   IPAddress              then
//	yes              none                   create it, report
//	yes              of nobody who has it   make it the service's, report
//	yes              of another that has it report a duplicate
//	no               of a service, old      delete it, report
//	no               of a service, young    leave it: its service may be about to be written
//
// Addresses are read before services, so that a service that is seen without its address really lacks it.
func (a *Allocator) repairAddresses(ctx context.Context) error {
	list, err := a.store.List(ctx, a.ips.prefix(), store.ListOptions{})
	if err != nil {
		return fmt.Errorf("read allocated cluster IPs: %w", err)
	}
	stored := make(map[netip.Addr]*storedAddress, len(list.KVs))
	for _, kv := range list.KVs {
		address, err := a.ips.decode(kv)
		if err != nil {
			a.log.Error("the API server cannot decode a stored IPAddress; no service gets the address until the object is deleted", "key", kv.Key, "error", err)
			continue
		}
		stored[address.ip] = address
	}
	services, err := a.services(ctx)
	if err != nil {
		return err
	}
	users := map[netip.Addr][]*corev1.Service{}
	for _, svc := range services {
		for _, ip := range addressesOf(svc) {
			users[ip] = append(users[ip], svc)
		}
	}

	var errs []error
	for ip, who := range users {
		errs = append(errs, a.repairAddress(ctx, ip, stored[ip], who))
	}
	for ip, address := range stored {
		if len(users[ip]) == 0 && address.isManaged() {
			errs = append(errs, a.freeLeaked(ctx, address))
		}
	}
	return errors.Join(errs...)
}

// repairAddress looks after one address that services have: one, or several in case of a duplicate.
func (a *Allocator) repairAddress(ctx context.Context, ip netip.Addr, stored *storedAddress, users []*corev1.Service) error {
	family := familyOf(ip)
	in, err := a.rangeWith(ctx, ip)
	if err != nil {
		return err
	}
	if in == nil {
		for _, svc := range users {
			a.report(svc, "ClusterIPOutOfRange", fmt.Sprintf("Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip))
		}
		return nil
	}
	owner := users[0]
	if stored != nil {
		if at := slices.IndexFunc(users, func(svc *corev1.Service) bool { return stored.isOf(svc.Namespace, svc.Name) }); at >= 0 {
			owner = users[at]
		}
	}
	for _, svc := range users {
		if svc != owner {
			a.report(svc, "ClusterIPAlreadyAllocated", fmt.Sprintf("Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip))
		}
	}
	switch {
	case stored == nil:
		_, err := a.ips.take(ctx, ip, owner)
		if errors.Is(err, errAddressTaken) {
			return nil // taken since we looked, by its owner most likely
		}
		if err != nil {
			return fmt.Errorf("allocate %s to %s: %w", ip, keyOf(owner), err)
		}
		a.report(owner, "ClusterIPNotAllocated", fmt.Sprintf("Cluster IP [%v]: %s is not allocated; repairing", family, ip))
	case !stored.isOf(owner.Namespace, owner.Name) || !stored.isLabelled():
		err := a.ips.reassign(ctx, ip, stored.rev, owner)
		if errors.Is(err, store.ErrConflict) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("allocate %s to %s: %w", ip, keyOf(owner), err)
		}
		a.report(owner, "ClusterIPNotAllocated", fmt.Sprintf("the ClusterIP [%v]: %s for Service %s has a wrong reference; repairing", family, ip, keyOf(owner)))
	}
	return nil
}

// freeLeaked deletes an address that no service has, unless it is so young that one may be about to be written.
func (a *Allocator) freeLeaked(ctx context.Context, address *storedAddress) error {
	if age := a.now().Sub(address.CreationTimestamp.Time); age <= grace && address.isOfService() {
		return nil
	}
	if err := a.ips.give(ctx, address.ip, address.rev); err != nil {
		return fmt.Errorf("free leaked %s: %w", address.ip, err)
	}
	a.log.Warn("the API server freed a cluster IP that no service has", "ip", address.ip, "service", refOf(address.Spec.ParentRef))
	return nil
}

func refOf(ref *networkingv1.ParentReference) string {
	if ref == nil {
		return ""
	}
	return strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
}

// report tells the log and, as an Event, whoever looks at the service.
func (a *Allocator) report(svc *corev1.Service, reason, note string) {
	a.log.Warn("the API server found a service whose cluster IPs or node ports are not allocated as they should be", "service", keyOf(svc), "reason", reason, "note", note)
	a.event(svc, reason, note)
}
