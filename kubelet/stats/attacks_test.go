package stats

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestAttack_CountDisks: a pod that cannot be measured, since it has millions of files or its volume's server is gone, keeps its figures. The others
// are counted all the same, and no goroutine is added with each round.
func TestAttack_CountDisks(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		var asked, size atomic.Uint64
		var slow atomic.Bool
		pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "slow", UID: "slow"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}}
		p := New(Config{
			Pods: func() []*corev1.Pod { return pods }, Runtime: &node{}, Images: &node{images: dir}, RootDir: dir, LogDir: dir,
			Volumes: func(_ context.Context, pod types.UID) []Volume {
				if pod == "slow" {
					asked.Add(1)
					if slow.Load() {
						<-answers
					}
				}
				return []Volume{{Name: "v", Bytes: size.Load()}}
			},
		})
		count := func(wantSlow, wantOther uint64) {
			t.Helper()
			began := time.Now()
			if err := p.CountDisks(t.Context()); err != nil || time.Since(began) > countPatience {
				t.Errorf("counted with %v after %v", err, time.Since(began))
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if got := p.disks["slow"].volumes[0].Bytes; got != wantSlow {
				t.Errorf("the slow pod has %d bytes, want %d", got, wantSlow)
			}
			if got := p.disks["other"].volumes[0].Bytes; got != wantOther {
				t.Errorf("the other pod has %d bytes, want %d", got, wantOther)
			}
		}
		size.Store(1)
		count(1, 1)
		slow.Store(true)
		size.Store(2)
		count(1, 2)
		size.Store(3)
		count(1, 3)
		count(1, 3)
		if asked.Load() != 2 {
			t.Errorf("the slow pod was asked %d times, want twice", asked.Load())
		}
		close(answers)
		synctest.Wait()
		slow.Store(false)
		count(3, 3)
	})
}
