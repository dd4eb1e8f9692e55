package memory

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Collecting may take a twentieth of the CPU that a busy process uses, and of a quarter of a core in one that is calm. The garbage that
// may gather for that has bounds: at least floor and a quarter of what lives, at most floor and as much as lives.
const (
	floor     = 64 << 20 // bytes
	share     = .05
	leastBusy = .25 // cores
)

// cycle is what happened between the ends of two collections, or of more when the first of them went unseen.
type cycle struct {
	n             uint64 // collections
	wall          time.Duration
	busy, collect float64 // CPU seconds of the program itself, and of the collector
	allocated     uint64  // bytes
	live          uint64  // bytes that the second collection has left
}

// headroom returns how many bytes of garbage may gather after c, where before is what it was.
//
// A collection costs the same however much garbage there is, so its share of the CPU falls as the headroom grows. Headroom grows at
// once and shrinks by halves: a burst mostly is not over after one collection.
func (c cycle) headroom(before uint64) uint64 {
	busy := max(c.busy, leastBusy*c.wall.Seconds())
	want := 0.0
	if busy > 0 && c.n > 0 {
		want = float64(c.allocated) / float64(c.n) * c.collect / busy * (1 - share) / share
	}
	want = max(want, (want+float64(before))/2)
	return uint64(min(max(want, float64(floor+c.live/4)), float64(floor+c.live)))
}

// gauge is what the runtime has measured up to the end of the last collection.
type gauge struct {
	at            time.Time
	busy, collect float64 // CPU seconds since the process began
	allocated     uint64  // bytes since the process began
	live          uint64  // bytes
	roots         uint64  // bytes of stacks and globals, which GOGC is a percentage of, too
	n             uint64  // collections
}

func (g gauge) since(before gauge) cycle {
	return cycle{
		n: g.n - before.n, wall: g.at.Sub(before.at), busy: g.busy - before.busy, collect: g.collect - before.collect,
		allocated: g.allocated - before.allocated, live: g.live,
	}
}

// percent is the GOGC that lets headroom bytes of garbage gather.
func (g gauge) percent(headroom uint64) int {
	counted := max(g.live+g.roots, 4<<20) // Go's least heap
	return int(100 * headroom / counted)
}

func readGauge() gauge {
	samples := [...]metrics.Sample{
		{Name: "/cpu/classes/user:cpu-seconds"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples[:])
	bytes := func(i int) uint64 { return samples[i].Value.Uint64() }
	return gauge{
		at: time.Now(), busy: samples[0].Value.Float64(), collect: samples[1].Value.Float64(),
		allocated: bytes(2), live: bytes(3), roots: bytes(4) + bytes(5), n: bytes(6),
	}
}

// Pace decides after each collection how much garbage may gather before the next, until ctx ends, and then restores what was set before.
// Go's own rule, a heap that may double, fits neither end of Vigil's range: with few objects it collects all the time, and where
// most of what lives are bytes without pointers, which cost little to pass over, it lets as much garbage lie as there are objects. Where
// collecting is expensive, with many nodes and controllers in the process, Pace comes near Go's rule while there is work. It leaves a
// process alone whose GOGC or GOMEMLIMIT somebody has set. It is for a whole process, so whoever puts the process together calls it.
func Pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return
	}
	collected := make(chan struct{}, 1)
	last := readGauge()
	room := cycle{live: last.live}.headroom(0)
	set := last.percent(room)
	before := debug.SetGCPercent(set)
	defer debug.SetGCPercent(before)
	for afterCollection(collected); ; afterCollection(collected) {
		select {
		case <-collected:
		case <-ctx.Done():
			return
		}
		g := readGauge()
		room = g.since(last).headroom(room)
		last = g
		// Setting it stops the world for a moment: only when it makes a difference.
		if want := g.percent(room); want*10 < set*9 || want*9 > set*10 {
			set = want
			debug.SetGCPercent(set)
		}
	}
}

// afterCollection sends to collected after the next collection.
func afterCollection(collected chan<- struct{}) {
	runtime.AddCleanup(&struct{ _ [16]byte }{}, func(c chan<- struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}, collected)
}
