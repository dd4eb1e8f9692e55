package memory

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// floor is the garbage in bytes that may gather beside however small a heap.
const floor = 64 << 20

// headroom is the garbage that may gather beside so many live bytes: a quarter as much, and the floor.
func headroom(live uint64) uint64 { return floor + live/4 }

// percent is the GOGC that gives live bytes their headroom.
func percent(live uint64) int {
	live = max(live, 4<<20) // Go's least heap
	return int(100 * headroom(live) / live)
}

// Pace keeps the headroom until ctx ends, and then restores what was set before. Go's own rule, a heap that may double, fits neither end of a
// watch cache's range: with few objects it collects all the time, with many it lets as much garbage lie as there are objects, although
// these are bytes without pointers that cost little to pass over. It leaves a process alone whose GOGC or GOMEMLIMIT somebody has set.
// It is for a whole process, so whoever puts the process together calls it.
func Pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return
	}
	collected := make(chan struct{}, 1)
	set := percent(live())
	before := debug.SetGCPercent(set)
	defer debug.SetGCPercent(before)
	for afterCollection(collected); ; afterCollection(collected) {
		select {
		case <-collected:
		case <-ctx.Done():
			return
		}
		// Setting it stops the world for a moment: only when it makes a difference.
		if want := percent(live()); want*10 < set*9 || want*9 > set*10 {
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

// live returns the bytes that the last collection found in use.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
