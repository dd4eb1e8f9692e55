package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"vigil/internal/eventually"
	"vigil/store"
	"vigil/store/storetest"
)

// An etcd whose database has reached its quota raises an alarm, and refuses all writes but deletes until somebody disarms it, also when
// there is space again. Run does, for the etcd in this process and for another one.
func TestQuota(t *testing.T) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprintf("remote=%v", remote), func(t *testing.T) {
			t.Parallel() // they wait for the history to become old
			certs := storetest.Certs(t)
			e := storetest.NewEmbedded(t, store.EmbeddedConfig{ClientAddr: "127.0.0.1:0", Client: certs, QuotaBytes: 8 << 20})
			cfg := store.Config{Embedded: e, CompactInterval: time.Hour}
			if remote {
				cfg = store.Config{Endpoints: e.Endpoints(), CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile, CompactInterval: time.Hour}
			}
			s := storetest.Open(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { s.Run(ctx) })
			defer running.Wait()
			defer cancel()

			const size = 100_000
			create := func(n int) error {
				_, err := s.Create(ctx, key(n), storetest.Value(n, size), 0)
				return err
			}
			n := 0
			var err error
			for ; err == nil && n < 1000; n++ {
				err = create(n)
			}
			if !errors.Is(err, store.ErrNoSpace) {
				t.Fatalf("create %d: %v, want ErrNoSpace", n, err)
			}
			list, err := s.List(ctx, "/registry/", store.ListOptions{})
			if err != nil || len(list.KVs) < n-1 { // the one that was refused may be there
				t.Fatalf("%d values, %v, want %d or one more", len(list.KVs), err, n-1)
			}
			for _, kv := range list.KVs[10:] { // etcd notices late that the quota is reached: there may be twice as much
				if _, err := s.Delete(ctx, kv.Key, kv.ModRev); err != nil {
					t.Fatal(err)
				}
			}
			eventually.Nil(t, "there is room after the deletes", func() error {
				err := create(n + 1)
				if err != nil && !errors.Is(err, store.ErrNoSpace) {
					t.Fatalf("create after the deletes: %v", err)
				}
				return err
			})
			alarms, err := e.Client().AlarmList(ctx)
			if err != nil || len(alarms.Alarms) != 0 {
				t.Errorf("alarms: %v, %v", alarms, err)
			}
		})
	}
}
