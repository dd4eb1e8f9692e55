package test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
)

var (
	crashWrites = flag.Int("crash.writes", 10000, "acknowledged writes in the crash test")
	crashKills  = flag.Int("crash.kills", 5, "kill -9s in the crash test")
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of the crash test; 0 draws one")
)

// Every write that was acknowledged is there after the process was killed at a random moment and started again.
func TestCrash_LosesNoAcknowledgedWrite(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := startCluster(t, "--nodes", "0")

	const writers = 16
	perRound := *crashWrites / (*crashKills + 1)
	acknowledged := map[string]string{} // name to the last acknowledged value
	attempted := map[string]string{}    // name to the value of a write whose outcome the client does not know
	var mu sync.Mutex
	writes := 0
	for round := 0; round <= *crashKills; round++ {
		client := p.Client().CoreV1().ConfigMaps("default")
		ctx, cancel := context.WithCancel(context.Background())
		var done atomic.Int64
		killAt := int64(max(1, *crashWrites-writes)) // the last round writes what is left
		if round < *crashKills {
			killAt = int64(perRound/2 + random.IntN(perRound))
		}
		reached := make(chan struct{})
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name := fmt.Sprintf("c-%d-%d-%d", round, w, i/2) // each is created, then updated
					value := fmt.Sprintf("%d", i)
					object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}
					mu.Lock()
					attempted[name] = value
					mu.Unlock()
					var err error
					if i%2 == 0 {
						_, err = client.Create(ctx, object, metav1.CreateOptions{})
					} else {
						_, err = client.Update(ctx, object, metav1.UpdateOptions{})
					}
					if err != nil {
						if status := apierrors.APIStatus(nil); asStatus(err, &status) && ctx.Err() == nil {
							t.Errorf("write of %s: %v", name, err)
						}
						return
					}
					mu.Lock()
					writes++
					acknowledged[name] = value
					delete(attempted, name)
					mu.Unlock()
					if done.Add(1) == killAt {
						close(reached)
					}
				}
			})
		}
		select {
		case <-reached:
		case <-time.After(2 * eventually.Limit):
			t.Fatalf("only %d of %d writes in round %d", done.Load(), killAt, round)
		}
		if round == *crashKills {
			cancel()
			group.Wait()
			break
		}
		p.Kill()
		cancel()
		group.Wait()
		p.Up()
	}

	list, err := p.Client().CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]string{}
	for _, item := range list.Items {
		stored[item.Name] = item.Data["v"]
	}
	lost := 0
	for name, value := range acknowledged {
		if got := stored[name]; got != value && got != attempted[name] {
			lost++
			if lost < 10 {
				t.Errorf("%s: stored %q, acknowledged %q", name, got, value)
			}
		}
	}
	t.Logf("%d acknowledged writes to %d objects, %d kills, %d objects lost", writes, len(acknowledged), *crashKills, lost)
	if writes < *crashWrites {
		t.Errorf("only %d writes were acknowledged, want %d", writes, *crashWrites)
	}
}
