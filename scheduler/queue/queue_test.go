package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

func pod(t *testing.T, name string, priority int32) *nodecache.Pod {
	t.Helper()
	p, err := nodecache.NewPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Priority: &priority},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pop returns the name of the next pod and how long it had to be waited for.
func pop(t *testing.T, q *Queue) (*Entry, time.Duration) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	e, err := q.Pop(ctx)
	if err != nil {
		t.Fatalf("nothing came: %v", err)
	}
	return e, time.Since(began)
}

func expect(t *testing.T, q *Queue, name string, wait time.Duration) *Entry {
	t.Helper()
	e, waited := pop(t, q)
	if e.Pod.Pod.Name != name || waited != wait {
		t.Fatalf("got %s after %v, want %s after %v", e.Pod.Pod.Name, waited, name, wait)
	}
	return e
}

func TestPop_UrgentFirstThenOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Set(pod(t, "old", 0), false)
		time.Sleep(time.Millisecond)
		q.Set(pod(t, "young", 0), false)
		q.Set(pod(t, "urgent", 7), false)
		for _, name := range []string{"urgent", "old", "young"} {
			expect(t, q, name, 0)
		}
	})
}

func TestRetry_BacksOffLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Set(pod(t, "a", 0), false)
		e := expect(t, q, "a", 0)
		for _, wait := range []time.Duration{1, 2, 4, 8, 10, 10} {
			q.Retry(e)
			e = expect(t, q, "a", wait*time.Second)
		}
	})
}

func TestRefuse_WaitsForAnEventThatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Set(pod(t, "a", 0), false)
		q.Refuse(expect(t, q, "a", 0), framework.NodeAdded)
		time.Sleep(time.Minute)
		q.Happened(framework.PodRemoved)
		if _, _, refused := q.Depths(); refused != 1 {
			t.Fatal("an event that does not help woke the pod")
		}
		q.Happened(framework.NodeAdded)
		q.Refuse(expect(t, q, "a", 0), framework.NodeAdded) // its backoff is long over
		q.Happened(framework.NodeAdded)
		expect(t, q, "a", 2*time.Second) // this time it is not
	})
}

func TestRefuse_IsTriedAgainWithoutAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Set(pod(t, "a", 0), false)
		q.Refuse(expect(t, q, "a", 0), framework.NodeAdded)
		_, waited := pop(t, q)
		if waited < MaxRefused || waited > MaxRefused+time.Minute {
			t.Errorf("waited %v, want about %v", waited, MaxRefused)
		}
	})
}

func TestRefuse_CountsWhatHappenedDuringTheCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Happened(framework.NodeAdded) // before the cycle: does not count
		q.Set(pod(t, "a", 0), false)
		e := expect(t, q, "a", 0)
		q.Happened(framework.NodeAdded)
		q.Refuse(e, framework.NodeAdded)
		e = expect(t, q, "a", InitialBackoff)
		q.Refuse(e, framework.NodeAdded)
		if _, _, refused := q.Depths(); refused != 1 {
			t.Error("an event from before the cycle was counted")
		}
	})
}

func TestSet_ChangedSpecIsTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Set(pod(t, "a", 0), false)
		q.Refuse(expect(t, q, "a", 0), framework.NodeAdded)
		q.Set(pod(t, "a", 0), false)
		if _, _, refused := q.Depths(); refused != 1 {
			t.Fatal("a status change woke the pod")
		}
		q.Set(pod(t, "a", 0), true)
		expect(t, q, "a", 0)
	})
}

func TestSet_DuringTheCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		q.Set(pod(t, "a", 0), false)
		e := expect(t, q, "a", 0)
		newer := pod(t, "a", 5)
		q.Set(newer, false)
		q.Refuse(e, framework.NodeAdded)
		if _, _, refused := q.Depths(); refused != 1 || e.Pod != newer {
			t.Fatal("a status change during the cycle made the pod try again, or was lost")
		}
		q.Happened(framework.NodeAdded)
		e = expect(t, q, "a", InitialBackoff)
		q.Set(pod(t, "a", 0), true)
		q.Set(pod(t, "a", 0), false)
		q.Refuse(e, framework.NodeAdded)
		expect(t, q, "a", 2*time.Second) // a changed spec did
	})
}

func TestRemove_InEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		p := pod(t, "a", 0)
		empty := func(state string) {
			t.Helper()
			if a, b, c := q.Depths(); a+b+c != 0 || len(q.entries) != 0 {
				t.Fatalf("removed while %s, but the queue holds %d, %d, %d, %d", state, a, b, c, len(q.entries))
			}
		}
		q.Set(p, false)
		q.Remove(p.UID)
		empty("active")

		q.Set(p, false)
		e := expect(t, q, "a", 0)
		q.Remove(p.UID)
		q.Retry(e)
		empty("in a cycle")

		q.Set(p, false)
		q.Retry(expect(t, q, "a", 0))
		q.Remove(p.UID)
		empty("backing off")

		q.Set(p, false)
		q.Refuse(expect(t, q, "a", 0), framework.NodeAdded)
		q.Remove(p.UID)
		empty("refused")
	})
}

func TestPop_WakesForANewPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Backoff{})
		go func() {
			time.Sleep(3 * time.Second)
			q.Set(pod(t, "a", 0), false)
		}()
		expect(t, q, "a", 3*time.Second)
	})
}
