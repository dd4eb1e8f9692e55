package store

import (
	"context"
	"sync"
	"time"
)

// leases shares etcd leases between keys of the same TTL, as kube-apiserver's lease manager does: a lease per event
// would cost etcd more than the event. A lease is handed out for up to a minute, or 5 % of the TTL if that is less,
// and for up to 1000 keys; its own TTL is longer by that time, so that no key disappears early.
type leases struct {
	mu    sync.Mutex
	byTTL map[time.Duration]*sharedLease
}

const (
	leaseShareTime = time.Minute
	leaseShareKeys = 1000
)

type sharedLease struct {
	id    int64
	until time.Time // handed out until then
	keys  int
}

// take returns a lease that lasts at least ttl from now. Callers with the same need wait for one grant.
func (l *leases) take(ctx context.Context, e engine, ttl time.Duration) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byTTL[ttl]; s != nil && s.keys < leaseShareKeys && time.Now().Before(s.until) {
		s.keys++
		return s.id, nil
	}
	share := min(leaseShareTime, ttl/20)
	seconds := int64((ttl + share + time.Second - 1) / time.Second)
	until := time.Now().Add(share)
	id, err := e.grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	if l.byTTL == nil {
		l.byTTL = make(map[time.Duration]*sharedLease)
	}
	l.byTTL[ttl] = &sharedLease{id: id, until: until, keys: 1}
	return id, nil
}

// forget stops handing out a lease that etcd does not know.
func (l *leases) forget(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ttl, s := range l.byTTL {
		if s.id == id {
			delete(l.byTTL, ttl)
		}
	}
}
