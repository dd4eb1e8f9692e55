// Package memory decides when garbage is collected, and gives memory back that a burst of work has left behind.
//
// The garbage collector lets garbage grow until it equals what lives, and looks at it only when more is allocated. So a server that has
// loaded its caches, taken a thousand TLS handshakes or written a few large lists keeps their garbage for as long as it then has little to
// do: easily more than what it serves from. A [Trimmer] notices that a burst is over and has it collected.
//
// While there is work, [Pace] decides how much garbage may lie. What neither does: bound memory.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The Trimmer looks once a second. It trims when less than calm, or a calmth of what lives, was allocated since it looked last, and the
// heap holds more than least, and more than a quarter of what lives, beyond that. What a process allocates that only keeps alive what it
// has grows with that: a thousand nodes renew their leases.
const (
	interval = time.Second
	calm     = 2 << 20  // bytes
	calmth   = 32       // of the live heap
	least    = 16 << 20 // bytes
	apart    = 60       // looks between two trims, when there was no burst between them
)

// A Trimmer gives memory back to the system once a burst of work is over. The zero value works.
//
// After the start, which is a burst, too, the pages of the program's file that only starting has needed go as well.
//
// A trim is a whole garbage collection, so two of them have at least as much allocated between them as makes one worth while, and a
// burst or a minute.
type Trimmer struct {
	trim func()               // for tests; nil: collect and give back
	read func() (stats stats) // for tests; nil: the runtime's

	settled bool   // the first burst, the start, is over
	last    uint64 // stats.allocated when Run looked last
	trimmed uint64 // stats.allocated at the last trim
	quiet   int    // calm looks since the last trim
	burst   bool   // there was one since the last trim
}

// stats are the runtime's, in bytes.
type stats struct {
	allocated uint64 // since the process began
	live      uint64 // what the last collection has left, stacks not included
	heap      uint64 // objects, garbage included, and free pages that are not given back
}

// Run trims until ctx ends.
func (t *Trimmer) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			t.look()
		}
	}
}

func (t *Trimmer) look() {
	read, trim := t.read, t.trim
	if read == nil {
		read, trim = readStats, debug.FreeOSMemory
	}
	s := read()
	since := s.allocated - t.last
	t.last = s.allocated
	if since >= max(calm, s.live/calmth) {
		t.burst = true
		return
	}
	if !t.settled {
		t.settled = true
		dropProgram()
	}
	t.quiet++
	worth := max(least, s.live/4)
	if s.heap < s.live+worth || s.allocated-t.trimmed < worth || !t.burst && t.quiet < apart {
		return
	}
	trim()
	t.trimmed, t.quiet, t.burst = s.allocated, 0, false
}

func readStats() stats {
	samples := [...]metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples[:])
	v := func(i int) uint64 { return samples[i].Value.Uint64() }
	return stats{allocated: v(0), live: v(1), heap: v(2) + v(3) + v(4)}
}
