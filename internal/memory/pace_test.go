package memory

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for _, tc := range []struct {
		live uint64
		want int
	}{
		{0, 1625},
		{4 << 20, 1625},
		{64 << 20, 125},
		{256 << 20, 50},
		{4 << 30, 26},
	} {
		if got := percent(tc.live); got != tc.want {
			t.Errorf("%d live bytes: GOGC %d, want %d", tc.live, got, tc.want)
		}
	}
}

// A heap that has grown gets less headroom in proportion, and the process is left as it was found.
func TestPace(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Pace(ctx)
	}()
	large := make([]byte, 512<<20)
	deadline := time.Now().Add(20 * time.Second)
	for got := math.MaxInt; got > 60; runtime.Gosched() {
		runtime.GC()
		got = current()
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d beside 512 MiB", got)
		}
	}
	runtime.KeepAlive(large)
	cancel()
	<-done
	if got := current(); got != 100 {
		t.Errorf("GOGC is %d afterwards, want 100", got)
	}
}

func current() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
