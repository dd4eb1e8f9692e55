package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object"
	"vigil/store"
)

// masterTTL is how long a server counts as living after it has said so: upstream's --endpoint-reconciler-type=lease.
const masterTTL = 15 * time.Second

// Store is what is needed of etcd, besides the Writer, for the leases of the servers:
//
//	/registry/masterleases/192.168.0.7   an Endpoints object with that address; it disappears with the etcd lease
//
// *store.Store is one.
type Store interface {
	Get(ctx context.Context, key string) (store.KV, error)
	Update(ctx context.Context, key string, value []byte, ifRev int64, ttl time.Duration) (rev int64, err error)
	Delete(ctx context.Context, key string, ifRev int64) (rev int64, err error)
	List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error)
}

var masterLeaseType = &object.Type{
	APIVersion: "v1", Kind: "Endpoints", Namespaced: true,
	New: func() runtime.Object { return &corev1.Endpoints{} },
}

func (b *Bootstrap) masterLeases() string { return b.config.Prefix + "masterleases/" }

func (b *Bootstrap) masterLease() string { return b.masterLeases() + b.config.Address.String() }

// renew says that this server lives.
func (b *Bootstrap) renew(ctx context.Context) error {
	lease := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: b.config.Address.String()}},
	}}}
	var revision int64
	switch kv, err := b.config.Store.Get(ctx, b.masterLease()); {
	case err == nil:
		revision = kv.ModRev
	case !errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("read lease of this server: %w", err)
	}
	// As upstream does: a lease that differs from the one before is written whatever the store thinks of equal values.
	lease.Generation = revision
	value, err := object.EncodeStored(masterLeaseType, lease)
	if err != nil {
		return fmt.Errorf("encode lease of this server: %w", err)
	}
	if _, err := b.config.Store.Update(ctx, b.masterLease(), value, revision, masterTTL); err != nil {
		return fmt.Errorf("renew lease of this server: %w", err)
	}
	return nil
}

// living returns the addresses of the servers whose leases have not run out, sorted.
func (b *Bootstrap) living(ctx context.Context) ([]netip.Addr, error) {
	found, err := b.config.Store.List(ctx, b.masterLeases(), store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read leases of servers: %w", err)
	}
	var servers []netip.Addr
	for _, kv := range found.KVs {
		server, err := netip.ParseAddr(strings.TrimPrefix(kv.Key, b.masterLeases()))
		if err != nil {
			b.config.Logger.Warn("a key among the leases of API servers does not end in an address; it is ignored: delete it from etcd", "key", kv.Key)
			continue
		}
		servers = append(servers, server)
	}
	slices.SortFunc(servers, netip.Addr.Compare)
	return servers, nil
}

// Leave takes this server out of the endpoints of the Service, for others to be asked instead, and deletes its Lease. It is called when
// the server is about to stop.
func (b *Bootstrap) Leave(ctx context.Context) error {
	return errors.Join(b.leaveIdentity(ctx), b.leaveEndpoints(ctx))
}

func (b *Bootstrap) leaveEndpoints(ctx context.Context) error {
	if !b.config.Address.IsValid() {
		return nil
	}
	kv, err := b.config.Store.Get(ctx, b.masterLease())
	if err == nil {
		_, err = b.config.Store.Delete(ctx, kv.Key, kv.ModRev)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("give up lease of this server: %w", err)
	}
	return b.publish(ctx)
}
