package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// slowEtcd answers a request for the revision after a second, with the revision at the request's start.
type slowEtcd struct {
	engine
	rev      atomic.Int64
	requests atomic.Int64
	grants   atomic.Int64
}

func (e *slowEtcd) cheapRevision() bool { return false }

func (e *slowEtcd) revision(ctx context.Context) (int64, error) {
	e.requests.Add(1)
	rev := e.rev.Load()
	select {
	case <-time.After(time.Second):
		return rev, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (e *slowEtcd) grant(context.Context, int64) (int64, error) { return e.grants.Add(1), nil }

func (e *slowEtcd) txn(context.Context, *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	return &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{}, Succeeded: true}, nil
}

func (e *slowEtcd) close() error { return nil }

func newSlow(e *slowEtcd) *Store {
	s := &Store{engine: e}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// TestRevision_Shared has 10 callers come every 100 ms for 10 s, each after a write: two round trips' time is the most
// one waits, nobody is told a revision from before its call, and there is one round trip a second.
func TestRevision_Shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &slowEtcd{}
		s := newSlow(e)
		for range 100 {
			for range 10 {
				wrote := e.rev.Add(1)
				go func() {
					start := time.Now()
					rev, err := s.Revision(t.Context())
					if err != nil || rev < wrote {
						t.Errorf("revision %d, %v after a write at %d", rev, err, wrote)
					}
					if d := time.Since(start); d > 2*time.Second {
						t.Errorf("waited %v", d)
					}
				}()
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if n := e.requests.Load(); n > 12 {
			t.Errorf("%d round trips for 1000 callers in 10 s, want at most 12", n)
		}
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRevision_CallerLeaves ends the caller that began a round trip: the others get its answer all the same.
func TestRevision_CallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(&slowEtcd{})
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { _, err := s.Revision(ctx); first <- err }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { _, err := s.Revision(t.Context()); second <- err }()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled caller: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("other caller: %v", err)
		}
		s.Close()
	})
}

func TestRevision_StoreCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(&slowEtcd{})
		waiting := make(chan error, 1)
		go func() { _, err := s.Revision(t.Context()); waiting <- err }()
		synctest.Wait()
		s.Close()
		if err := <-waiting; err == nil {
			t.Error("no error for a caller when the store closed")
		}
		if _, err := s.Revision(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after close: %v, want ErrUnavailable", err)
		}
	})
}

func TestLeases_Time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &slowEtcd{}
		s := newSlow(e)
		create := func(ttl time.Duration) {
			if _, err := s.Create(t.Context(), "/registry/events/e", nil, ttl); err != nil {
				t.Error(err)
			}
		}
		steps := []struct {
			wait, ttl time.Duration
			grants    int64
		}{
			{0, time.Hour, 1},
			{59 * time.Second, time.Hour, 1},
			{time.Second, time.Hour, 2}, // 60 s after the first grant
			{0, 15 * time.Second, 3},    // a TTL of its own
			{700 * time.Millisecond, 15 * time.Second, 3},
			{100 * time.Millisecond, 15 * time.Second, 4}, // 5 % of 15 s are over
			{0, time.Hour, 4},
		}
		for i, step := range steps {
			time.Sleep(step.wait)
			create(step.ttl)
			if got := e.grants.Load(); got != step.grants {
				t.Errorf("step %d: %d grants, want %d", i, got, step.grants)
			}
		}
		s.Close()
	})
}
