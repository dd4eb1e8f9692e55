package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"vigil/store"
)

func testTTL(t *testing.T, target Target) {
	s := target.Store
	const key = "/registry/events/default/e"
	rev, err := s.Create(t.Context(), key, []byte("v"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	gone := errors.New("gone")
	err = s.Feed(ctx, rev, func(b store.Batch) error {
		for _, e := range b.Events {
			if e.Key == key && e.Value == nil {
				return gone
			}
		}
		return nil
	})
	if !errors.Is(err, gone) {
		t.Fatalf("no deletion of a key with a TTL of 1 s: %v", err)
	}
}

func testLeasesAreShared(t *testing.T, target Target) {
	s := target.Store
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Go(func() {
			for i := range 101 {
				if _, err := s.Create(t.Context(), fmt.Sprintf("/registry/events/default/%d-%d", w, i), nil, time.Hour); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if _, err := s.Create(t.Context(), "/registry/masterleases/10.0.0.1", nil, 15*time.Second); err != nil {
		t.Fatal(err)
	}
	ttls := map[int64]int{}
	for _, id := range leases(t, target.Etcd) {
		ttl, err := target.Etcd.Client().TimeToLive(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		ttls[ttl.GrantedTTL]++
	}
	// 1010 keys of an hour need two leases, longer by a minute; 15 s are longer by 5 %, rounded up.
	if ttls[3660] != 2 || ttls[16] != 1 || len(ttls) != 2 {
		t.Errorf("leases by TTL %v, want 2 of 3660 s and 1 of 16 s", ttls)
	}
}

func testLeaseGone(t *testing.T, target Target) {
	s := target.Store
	if _, err := s.Create(t.Context(), "/registry/events/default/1", nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, id := range leases(t, target.Etcd) {
		if _, err := target.Etcd.Client().Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	rev, err := s.Create(t.Context(), "/registry/events/default/2", []byte("v"), time.Hour)
	if err != nil {
		t.Fatalf("create after the shared lease was revoked: %v", err)
	}
	wantKV(t, s, "/registry/events/default/2", "v", rev)
}

func leases(t testing.TB, e *store.Embedded) []clientv3.LeaseID {
	t.Helper()
	resp, err := e.Client().Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []clientv3.LeaseID
	for _, l := range resp.Leases {
		ids = append(ids, l.ID)
	}
	return ids
}
