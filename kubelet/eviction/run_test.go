package eviction

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// ticking is a machine whose figures are always of now.
type ticking struct {
	*machine
	rounds int
	ages   []time.Duration
}

func (t *ticking) Summary(ctx context.Context, age time.Duration, brief bool) (*statsapi.Summary, error) {
	t.now = time.Now()
	t.rounds++
	t.ages = append(t.ages, age)
	return t.machine.Summary(ctx, age, brief)
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &ticking{machine: newMachine()}
		m.add("first", 0, 0, 300, 1)
		m.add("second", 0, 0, 200, 1)
		manager, _ := manage(t, m.machine, Flags{Hard: map[string]string{"memory.available": "2Gi"}, NoPodsEnforced: true}, func(c *Config) { c.Stats, c.now = m, time.Now })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- manager.Run(ctx) }()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if m.rounds != 3 || len(m.evicted) != 0 {
			t.Errorf("at rest: %d rounds, evicted %v", m.rounds, m.evicted)
		}
		m.memory = 1 // after an eviction there is a GiB more: too little still
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(m.evicted) != 1 || m.rounds != 5 || m.ages[3] == 0 || m.ages[4] != 0 { // the round after an eviction measures anew
			t.Errorf("under pressure: %d rounds over figures of at most %v, evicted %v", m.rounds, m.ages, m.evicted)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(m.evicted) != 2 {
			t.Errorf("then evicted %v", m.evicted)
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("ended with %v", err)
		}
	})
}
