// Package attacktest measures what an attack costs whoever is attacked, and fails a test when that is more than the attack may cost.
//
//	attacktest.Budget{Memory: 1 << 20, CPU: time.Second, Time: time.Minute}.Spend(t, func() { read(sparseFile) })
//
// Budgets are for the difference between what is bounded and what is not: megabytes for what would take gigabytes, a second for what would take
// minutes. Within that they are generous, since tests share their machine with others. With the race detector they are a multiple.
package attacktest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// Budget is what an attack may cost at most. The attacker's own part, where the test plays it in the same process, counts as well.
type Budget struct {
	Memory uint64        // bytes of heap in use at once, beyond what is in use before; 0: not checked
	CPU    time.Duration // of all threads of the process; 0: not checked
	Time   time.Duration // until it is over, which ends what would hang and is no measure of speed; 0: 5 minutes
}

// Spend calls do, logs what that has cost, and fails the test when it is more than the budget. When time is over it does not wait for do.
func (b Budget) Spend(t testing.TB, do func()) {
	t.Helper()
	limit := b.Time
	if limit == 0 {
		limit = 5 * time.Minute
	}
	b.Memory, b.CPU, limit = b.Memory*larger, b.CPU*slower, limit*slower
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // so that what is garbage does not count for long
	runtime.GC()
	heap := newGauge()
	cpu, began := cpuTime(), time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-over.C:
			t.Fatalf("not over after %v", limit)
		case <-tick.C:
		}
		heap.look()
	}
	took, used := time.Since(began), cpuTime()-cpu
	t.Logf("%s of memory, %v of CPU time, %v", bytes(heap.most), used.Round(time.Millisecond), took.Round(time.Millisecond))
	if b.Memory > 0 && heap.most > b.Memory {
		t.Errorf("%s of memory, which may be %s", bytes(heap.most), bytes(b.Memory))
	}
	if b.CPU > 0 && used > b.CPU {
		t.Errorf("%v of CPU time, which may be %v", used, b.CPU)
	}
}

// gauge watches the heap.
type gauge struct {
	sample       [1]metrics.Sample
	before, most uint64
}

func newGauge() *gauge {
	g := &gauge{}
	g.sample[0].Name = "/memory/classes/heap/objects:bytes"
	metrics.Read(g.sample[:])
	g.before = g.sample[0].Value.Uint64()
	return g
}

func (g *gauge) look() {
	metrics.Read(g.sample[:])
	if now := g.sample[0].Value.Uint64(); now > g.before {
		g.most = max(g.most, now-g.before)
	}
}

func bytes(n uint64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
