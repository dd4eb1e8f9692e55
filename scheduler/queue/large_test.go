package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/scheduler/framework"
)

// check returns an error for the first rule of the queue that is broken: every entry is in the place of its state and in no other,
// knows where in its heap it is, and no heap has an entry before one that comes first.
func (q *Queue) check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	states := map[state]int{}
	for uid, e := range q.entries {
		states[e.state]++
		switch {
		case e.Pod.UID != uid:
			return fmt.Errorf("%s is at %s", e.Pod.UID, uid)
		case e.state == active && q.active.entries[e.index] != e, e.state == backingOff && q.backoff.entries[e.index] != e:
			return fmt.Errorf("%s is not at %d of its heap", uid, e.index)
		case (e.state == refused) != (q.refused[uid] == e):
			return fmt.Errorf("%s in state %d is refused, or the other way round", uid, e.state)
		case e.state != inCycle && (e.next != nil || e.gone || e.again):
			return fmt.Errorf("%s keeps what happened in its cycle", uid)
		}
	}
	if states[active] != q.active.Len() || states[backingOff] != q.backoff.Len() || states[refused] != len(q.refused) {
		return fmt.Errorf("%d active, %d backing off, %d refused, counted %v", q.active.Len(), q.backoff.Len(), len(q.refused), states)
	}
	for _, h := range []*entryHeap{&q.active, &q.backoff} {
		for i := 1; i < h.Len(); i++ {
			if h.Less(i, (i-1)/2) {
				return fmt.Errorf("entry %d of %d comes before the one above it", i, h.Len())
			}
		}
	}
	return nil
}

// Thousands of pods that come, change, go, are refused and retried: the queue keeps its rules, hands out the most urgent, and forgets no pod.
func TestQueue_Large(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		const pods = 4000
		q := New(Backoff{})
		q.flushed = time.Now()
		wanted := map[types.UID]bool{} // by the cluster: neither bound nor deleted
		cycles := map[types.UID]*Entry{}
		largest, step := [4]int{}, 0
		check := func() {
			t.Helper()
			if err := q.check(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			for uid := range wanted {
				if q.entries[uid] == nil {
					t.Fatalf("step %d: %s is forgotten", step, uid)
				}
			}
		}
		pop := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			e, err := q.Pop(ctx)
			if err != nil {
				return
			}
			for _, other := range q.active.entries {
				if q.active.before(other, e) {
					t.Fatalf("step %d: got %s, but %s comes first", step, e.Pod.UID, other.Pod.UID)
				}
			}
			if cycles[e.Pod.UID] != nil {
				t.Fatalf("step %d: %s is in two cycles", step, e.Pod.UID)
			}
			cycles[e.Pod.UID] = e
		}
		events := []framework.Event{framework.NodeAdded, framework.NodeTaints, framework.PodRemoved, framework.StorageChanged}
		for step = range 60000 {
			uid := types.UID(fmt.Sprint("p", rnd.IntN(pods)))
			growing := step%20000 < 8000
			switch n := rnd.IntN(20); {
			case n < 8 && growing || n == 0:
				q.Set(pod(t, string(uid), int32(rnd.IntN(5))), rnd.IntN(2) == 0)
				wanted[uid] = true
			case n < 3:
				q.Remove(uid)
				delete(wanted, uid)
			case n < 12:
				pop()
			case n == 12 && rnd.IntN(50) == 0:
				q.Happened(events[rnd.IntN(len(events))])
			case n == 13:
				time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
			default:
				for uid, e := range cycles {
					delete(cycles, uid)
					switch rnd.IntN(4) {
					case 0:
						q.Retry(e)
					case 1, 2:
						q.Refuse(e, events[rnd.IntN(len(events))])
					default:
						q.Done(e)
						delete(wanted, uid)
					}
					break
				}
			}
			a, b, r := q.Depths()
			largest = [4]int{max(largest[0], a), max(largest[1], b), max(largest[2], r), max(largest[3], len(cycles))}
			if step%100 == 0 {
				check()
			}
		}
		// Everything that is still wanted is scheduled in the end.
		for _, e := range cycles {
			q.Retry(e)
		}
		clear(cycles)
		for range 20 {
			time.Sleep(time.Minute)
			for {
				pop()
				if len(cycles) == 0 {
					break
				}
				for uid, e := range cycles {
					delete(cycles, uid)
					q.Done(e)
					delete(wanted, uid)
				}
			}
			check()
		}
		if a, b, r := q.Depths(); len(wanted) != 0 || a+b+r != 0 || len(q.entries) != 0 {
			t.Errorf("%d pods were never scheduled; %d active, %d backing off, %d refused, %d entries", len(wanted), a, b, r, len(q.entries))
		}
		t.Logf("most active %d, backing off %d, refused %d, in cycles %d", largest[0], largest[1], largest[2], largest[3])
		for i, n := range largest[:3] {
			if n < 300 {
				t.Errorf("place %d had %d pods at most", i, n)
			}
		}
	})
}
