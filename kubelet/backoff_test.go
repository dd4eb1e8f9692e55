package kubelet

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBackoff_DoublesToFiveMinutesAndForgets(t *testing.T) {
	b := backoff{}
	now := time.Unix(0, 0)
	// crash lets the container run for a time and end, and returns how long it waits then.
	crash := func(ran time.Duration) time.Duration {
		c := &Container{Name: "c", Started: now, Finished: now.Add(ran)}
		until := b.until(c)
		if again := b.until(c); !again.Equal(until) {
			t.Errorf("asked twice: %v, then %v", until, again)
		}
		now = until
		b.restarted("c")
		return until.Sub(c.Finished)
	}
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		if got := crash(time.Second); got != want*time.Second {
			t.Errorf("end %d: waits %v, want %v s", i+1, got, int(want))
		}
	}
	if got := crash(resetDelay - time.Second); got != maxDelay {
		t.Errorf("after not quite 10 minutes: waits %v", got)
	}
	if got := crash(resetDelay); got != 0 {
		t.Errorf("after 10 minutes: waits %v", got)
	}
	if got := crash(0); got != initialDelay {
		t.Errorf("then: waits %v", got)
	}
	if never := b.until(&Container{Name: "c", Finished: now}); !never.Equal(now.Add(2 * initialDelay)) { // its command is not there
		t.Errorf("a container that was never started waits %v", never.Sub(now))
	}
	if got := b.until(&Container{Name: "other", Finished: now}); !got.Equal(now) {
		t.Errorf("another container waits %v", got.Sub(now))
	}
}

func TestPullFailed(t *testing.T) {
	now := time.Unix(0, 0)
	var w *waiting
	for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		w = pullFailed(w, "image", "ErrImagePull", errors.New("no such image"), now)
		if w.reason != "ErrImagePull" || w.message != "no such image" || w.until.Sub(now) != want*time.Second {
			t.Errorf("got %+v, want %v s", w, int(want))
		}
		if w.backOff(now.Add(retryDelay - 1)) {
			t.Error("backs off before the failure was seen")
		}
		if !w.backOff(now.Add(retryDelay)) || w.reason != "ImagePullBackOff" || w.message != `Back-off pulling image "image": ErrImagePull: no such image` {
			t.Errorf("backing off: %+v", w)
		}
		if w.backOff(now.Add(retryDelay)) {
			t.Error("backs off twice")
		}
	}
	if w = pullFailed(w, "other", "ErrImagePull", errors.New("no"), now); w.delay != initialDelay || w.backsOff("image") || !w.backsOff("other") {
		t.Errorf("another image: %+v", w)
	}
}

func TestBackoff_IsRememberedByStatuses(t *testing.T) {
	ran := func(d time.Duration) corev1.ContainerState {
		begin := time.Unix(1000, 0)
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(begin), FinishedAt: metav1.NewTime(begin.Add(d))}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 1m20s restarting failed container=d pod=p_ns(u)"}}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "fresh", State: running},
		{Name: "once", RestartCount: 1, State: running, LastTerminationState: ran(time.Second)},
		{Name: "often", RestartCount: 1000, State: running, LastTerminationState: ran(time.Second)},
		{Name: "long-ago", RestartCount: 3, State: running, LastTerminationState: ran(resetDelay)},
		{Name: "waits", RestartCount: 4, State: waits, LastTerminationState: ran(time.Second)},
	}}}
	want := backoff{"once": 10 * time.Second, "often": 5 * time.Minute, "waits": 80 * time.Second}
	if diff := cmp.Diff(want, remembered(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
