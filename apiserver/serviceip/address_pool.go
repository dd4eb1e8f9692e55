package serviceip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"vigil/object"
	"vigil/store"
)

// managedBy is the value of label ipaddress.kubernetes.io/managed-by of the addresses of services.
const managedBy = "ipallocator.k8s.io"

// blindTries is how often a random address is tried before it is worth reading which ones are taken.
const blindTries = 4

var ipAddressType = &object.Type{
	APIVersion: "networking.k8s.io/v1", Kind: "IPAddress",
	New: func() runtime.Object { return &networkingv1.IPAddress{} },
}

// addressPool is the IPAddress objects.
type addressPool struct {
	store *store.Store
	now   func() time.Time
}

// storedAddress is an IPAddress as read, with its revision.
type storedAddress struct {
	*networkingv1.IPAddress
	ip  netip.Addr
	rev int64
}

func (p *addressPool) prefix() string { return p.store.Prefix() + "ipaddresses/" }

func (p *addressPool) key(ip netip.Addr) string { return p.prefix() + ip.String() }

// take takes one address for a service; errAddressTaken when it has been taken. The revision is what give needs.
func (p *addressPool) take(ctx context.Context, ip netip.Addr, svc *corev1.Service) (rev int64, err error) {
	value, err := p.encode(ip, svc)
	if err != nil {
		return 0, err
	}
	rev, err = p.store.Create(ctx, p.key(ip), value, 0)
	if errors.Is(err, store.ErrExists) {
		return 0, errAddressTaken
	}
	return rev, err
}

// takeAny takes a random free address of a range, of its lower part only when the upper one is full; errFull when
// both are.
func (p *addressPool) takeAny(ctx context.Context, r *addressRange, svc *corev1.Service) (ip netip.Addr, rev int64, err error) {
	for range blindTries {
		ip = r.at(r.static + rand.Uint64N(r.size-r.static))
		if rev, err = p.take(ctx, ip, svc); !errors.Is(err, errAddressTaken) {
			return ip, rev, err
		}
	}
	taken, err := p.taken(ctx)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	for _, part := range [][2]uint64{{r.static, r.size - r.static}, {0, r.static}} {
		from, n := part[0], part[1]
		if n == 0 {
			continue
		}
		start := rand.Uint64N(n)
		for i := range n {
			ip = r.at(from + (start+i)%n)
			if taken[ip] {
				continue
			}
			if rev, err = p.take(ctx, ip, svc); !errors.Is(err, errAddressTaken) {
				return ip, rev, err
			}
		}
	}
	return netip.Addr{}, 0, errFull
}

// taken reads which addresses are taken.
func (p *addressPool) taken(ctx context.Context) (map[netip.Addr]bool, error) {
	list, err := p.store.List(ctx, p.prefix(), store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read allocated cluster IPs: %w", err)
	}
	taken := make(map[netip.Addr]bool, len(list.KVs))
	for _, kv := range list.KVs {
		if ip, err := netip.ParseAddr(strings.TrimPrefix(kv.Key, p.prefix())); err == nil {
			taken[ip] = true
		}
	}
	return taken, nil
}

// give gives an address back that is as it was at rev; if it is not, somebody else has it.
func (p *addressPool) give(ctx context.Context, ip netip.Addr, rev int64) error {
	_, err := p.store.Delete(ctx, p.key(ip), rev)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// reassign lets an address refer to svc if it still is as it was at rev.
func (p *addressPool) reassign(ctx context.Context, ip netip.Addr, rev int64, svc *corev1.Service) error {
	value, err := p.encode(ip, svc)
	if err != nil {
		return err
	}
	_, err = p.store.Update(ctx, p.key(ip), value, rev, 0)
	return err
}

// get returns the address as stored, nil when it is free.
func (p *addressPool) get(ctx context.Context, ip netip.Addr) (*storedAddress, error) {
	kv, err := p.store.Get(ctx, p.key(ip))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.decode(kv)
}

func (p *addressPool) decode(kv store.KV) (*storedAddress, error) {
	v, err := object.NewVersion(ipAddressType, kv.Key, kv.ModRev, kv.Value)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
	}
	obj, err := v.Decode()
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
	}
	ip, err := netip.ParseAddr(v.Name())
	if err != nil {
		return nil, fmt.Errorf("name of %s: %w", kv.Key, err)
	}
	return &storedAddress{IPAddress: obj.(*networkingv1.IPAddress), ip: ip, rev: kv.ModRev}, nil
}

func (p *addressPool) encode(ip netip.Addr, svc *corev1.Service) ([]byte, error) {
	return object.EncodeStored(ipAddressType, &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:              ip.String(),
			UID:               uuid.NewUUID(),
			CreationTimestamp: metav1.NewTime(p.now().Truncate(time.Second)),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(familyOf(ip)),
				networkingv1.LabelManagedBy:       managedBy,
			},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name},
		},
	})
}

// isOf is true for an address of the service of that name.
func (a *storedAddress) isOf(namespace, name string) bool {
	ref := a.Spec.ParentRef
	return a.isOfService() && ref.Namespace == namespace && ref.Name == name
}

func (a *storedAddress) isOfService() bool {
	ref := a.Spec.ParentRef
	return ref != nil && ref.Group == "" && ref.Resource == "services"
}

// isLabelled is true for an address with the labels that a service's address has.
func (a *storedAddress) isLabelled() bool {
	return a.isManaged() && a.Labels[networkingv1.LabelIPAddressFamily] == string(familyOf(a.ip))
}

func (a *storedAddress) isManaged() bool { return a.Labels[networkingv1.LabelManagedBy] == managedBy }

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
