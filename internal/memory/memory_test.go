package memory

import (
	"runtime"
	"testing"
)

// TestTrimmer tells what happens from one look to the next.
func TestTrimmer(t *testing.T) {
	const mb = 1 << 20
	var s stats
	trims := 0
	trimmer := &Trimmer{read: func() stats { return s }, trim: func() { trims++ }}
	type beat struct {
		name      string
		allocates uint64
		live      uint64
		heap      uint64
		trims     bool
	}
	story := []beat{
		{"begins", 50 * mb, 10 * mb, 60 * mb, false},
		{"works on", 100 * mb, 40 * mb, 90 * mb, false},
		{"is calm", mb, 40 * mb, 90 * mb, true},
		{"stays calm; the collector has not told yet", mb, 40 * mb, 90 * mb, false},
		{"has little to give back", mb, 40 * mb, 45 * mb, false},
		{"another burst", 30 * mb, 60 * mb, 100 * mb, false},
		{"is over", mb, 60 * mb, 100 * mb, true},
		{"trickle", mb, 60 * mb, 61 * mb, false},
		{"a large heap", 3000 * mb, 4000 * mb, 4500 * mb, false},
		{"needs more to be worth while", mb, 4000 * mb, 4500 * mb, false},
		{"as now", mb, 4000 * mb, 5100 * mb, true},
		{"a large process is never quite still", 100 * mb, 4000 * mb, 5100 * mb, false},
	}
	for range apart - 2 {
		story = append(story, beat{"keeps what it has alive", 100 * mb, 4000 * mb, 5100 * mb, false})
	}
	story = append(story, beat{"a minute has passed", 100 * mb, 4000 * mb, 5100 * mb, true})
	for _, c := range story {
		before := trims
		s = stats{allocated: s.allocated + c.allocates, live: c.live, heap: c.heap}
		trimmer.look()
		if got := trims > before; got != c.trims {
			t.Errorf("%s: trimmed %v", c.name, got)
		}
	}
}

// TestReadStats holds the runtime's names against what they are taken for.
func TestReadStats(t *testing.T) {
	runtime.GC() // live is 0 until the first has ended
	before := readStats()
	garbage := make([]byte, 64<<20)
	between := readStats()
	runtime.KeepAlive(garbage)
	if grown := between.allocated - before.allocated; grown < 64<<20 {
		t.Errorf("allocated %d more", grown)
	}
	if between.heap < 64<<20 || between.live == 0 {
		t.Errorf("%+v", between)
	}
}
