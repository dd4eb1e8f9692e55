package watchcache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowStore answers a request for progress after a while, and counts them.
type slowStore struct {
	noStore
	server *Server
	rev    int64
	delay  time.Duration // negative: never

	mu    sync.Mutex
	asked []time.Time
}

func (s *slowStore) Revision(context.Context) (int64, error) { return s.rev, nil }

func (s *slowStore) RequestProgress(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	if s.delay >= 0 {
		time.AfterFunc(s.delay, func() {
			s.server.mu.Lock()
			defer s.server.mu.Unlock()
			s.server.publish(s.rev)
		})
	}
	return nil
}

func newSlow(rev int64, delay time.Duration) (*Server, *slowStore) {
	st := &slowStore{rev: rev, delay: delay}
	st.server = newServer(st, Config{}, defaultTuning)
	st.server.rev.Store(100)
	return st.server, st
}

func TestWaitFresh(t *testing.T) {
	cases := []struct {
		name  string
		rev   int64
		delay time.Duration
		after time.Duration // when the wait ends
		asked int
		err   error
	}{
		{name: "there already", rev: 100, delay: -1},
		{name: "after one request", rev: 110, delay: time.Millisecond, after: 6 * time.Millisecond, asked: 1},
		{name: "slow progress", rev: 110, delay: 40 * time.Millisecond, after: 45 * time.Millisecond, asked: 2},
		{name: "never", rev: 110, delay: -1, after: 3 * time.Second, asked: 31, err: ErrAhead},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := newSlow(tc.rev, tc.delay)
				start := time.Now()
				err := s.WaitFresh(t.Context(), tc.rev)
				if !errors.Is(err, tc.err) {
					t.Errorf("got %v, want %v", err, tc.err)
				}
				var ahead *AheadError
				if errors.As(err, &ahead) && (ahead.Requested != tc.rev || ahead.Current != 100 || ahead.Error() != "Too large resource version: 110, current: 100") {
					t.Errorf("error %v", ahead)
				}
				if took := time.Since(start); took != tc.after {
					t.Errorf("took %v, want %v", took, tc.after)
				}
				synctest.Wait()
				if len(st.asked) != tc.asked {
					t.Errorf("%d requests for progress, want %d", len(st.asked), tc.asked)
				}
				if n := s.fresh.waiters.Load(); n != 0 || len(s.fresh.waiting) != 0 {
					t.Errorf("%d waiters are left", n)
				}
			})
		})
	}
}

// A thousand waiting reads ask for progress as often as one.
func TestWaitFresh_SharesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := newSlow(110, -1)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if err := s.WaitFresh(t.Context(), 110); !errors.Is(err, ErrAhead) {
					t.Errorf("got %v, want ErrAhead", err)
				}
			})
		}
		wg.Wait()
		if n := len(st.asked); n > 32 {
			t.Errorf("%d requests, want as many as one read makes", n)
		}
	})
}

func TestWaitFresh_Cancelled(t *testing.T) {
	s, _ := newSlow(110, -1)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	if err := s.WaitFresh(ctx, 110); !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
}

// Each waits for its own revision, not for the greatest.
func TestWaitFresh_InOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSlow(110, -1)
		done := make(chan int64, 10)
		for rev := int64(101); rev <= 110; rev++ {
			go func() {
				if err := s.WaitFresh(t.Context(), rev); err == nil {
					done <- rev
				}
			}()
		}
		synctest.Wait()
		s.apply(batchTo(105))
		synctest.Wait()
		if len(done) != 5 {
			t.Errorf("%d waits have ended at revision 105, want 5", len(done))
		}
		s.apply(batchTo(110))
		synctest.Wait()
		if len(done) != 10 {
			t.Errorf("%d waits have ended at revision 110, want 10", len(done))
		}
	})
}
