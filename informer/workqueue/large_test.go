package workqueue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Thousands of names that are added at random, fail at random and ask to come again: each is looked at after the last time it was added,
// until that has worked, by one worker at a time.
func TestQueue_Large(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	synctest.Test(t, func(t *testing.T) {
		const names = 3000
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Millisecond, time.Minute)
		q := New(Config{Name: "test", Limiter: limiter})
		type story struct {
			added  time.Time // the last time it was asked for
			begun  time.Time // the last time that a reconciliation began that succeeded
			busy   bool
			due    time.Time // when it asked to be called again
			failed int
		}
		var mu sync.Mutex
		stories := map[types.NamespacedName]*story{}
		rnd := rand.New(rand.NewPCG(seed, 0)) // guarded by mu, too
		pick := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(n)
		}
		most, busy, runs := 0, 0, 0
		reconcile := func(_ context.Context, k types.NamespacedName) (time.Duration, error) {
			mu.Lock()
			s, begun := stories[k], time.Now()
			if s.busy {
				t.Errorf("two workers on %s", k)
			}
			s.busy = true
			busy++
			runs++
			most = max(most, busy)
			fate, takes := rnd.IntN(10), time.Duration(rnd.IntN(20))*time.Millisecond
			mu.Unlock()
			time.Sleep(takes)
			mu.Lock()
			defer mu.Unlock()
			busy--
			s.busy = false
			switch {
			case fate < 3 && s.failed < 8:
				s.failed++
				return 0, errors.New("not yet")
			case fate == 3:
				s.begun, s.failed, s.due = begun, 0, time.Now().Add(time.Second)
				return time.Second, nil
			}
			s.begun, s.failed = begun, 0
			if !begun.Before(s.due) {
				s.due = time.Time{}
			}
			return 0, nil
		}
		add := func() {
			mu.Lock()
			k := key(fmt.Sprint(rnd.IntN(names)))
			if stories[k] == nil {
				stories[k] = &story{}
			}
			stories[k].added = time.Now()
			after := time.Duration(0)
			if rnd.IntN(5) == 0 {
				after = time.Duration(rnd.IntN(300)) * time.Millisecond
			}
			mu.Unlock()
			q.AddAfter(k, after)
		}
		for range 4 * names {
			add()
		}
		early := q.Len()
		stop := run(q, 16, reconcile)
		for range 30 {
			for range pick(names) {
				add()
			}
			time.Sleep(time.Duration(pick(200)) * time.Millisecond)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if q.Len() != 0 || busy != 0 {
			t.Errorf("%d names wait, %d are worked on, want none", q.Len(), busy)
		}
		for k, s := range stories {
			if s.begun.Before(s.added) || s.failed > 0 || !s.due.IsZero() {
				t.Errorf("%s was added at %v, was due at %v and last done at %v, after %d failures", k, s.added, s.due, s.begun, s.failed)
			}
			if limiter.NumRequeues(k) != 0 {
				t.Errorf("%s still counts %d failures", k, limiter.NumRequeues(k))
			}
		}
		if early < names*9/10 || most != 16 {
			t.Errorf("%d names waited for the start, %d workers were busy at once", early, most)
		}
		_ = stop()
		t.Logf("%d reconciliations of %d names, %d waited for the start", runs, len(stories), early)
	})
}
