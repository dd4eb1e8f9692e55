package memory

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"vigil/internal/eventually"
)

func TestHeadroom(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name   string
		cycle  cycle
		before uint64
		want   uint64
	}{
		{"nothing has happened yet", cycle{}, 0, 64 * mb},
		{"bytes: collecting takes a fiftieth", cycle{n: 1, wall: time.Second, busy: 1, collect: .02, allocated: 80 * mb, live: 64 * mb}, 80 * mb, 80 * mb},
		{"pointers: collecting takes a sixth", cycle{n: 1, wall: time.Second, busy: 1, collect: .2, allocated: 100 * mb, live: 400 * mb}, 164 * mb, 380 * mb},
		{"never more than as much as lives, and the floor", cycle{n: 1, wall: time.Second, busy: 1, collect: 1, allocated: 400 * mb, live: 400 * mb}, 164 * mb, 464 * mb},
		{"one went unseen", cycle{n: 2, wall: 2 * time.Second, busy: 2, collect: .4, allocated: 200 * mb, live: 400 * mb}, 164 * mb, 380 * mb},
		{"the burst may be over", cycle{n: 1, wall: 10 * time.Second, busy: 1, collect: .1, allocated: 100 * mb, live: 400 * mb}, 464 * mb, 270 * mb},
		{"it is", cycle{n: 1, wall: 5 * time.Minute, busy: 1, collect: .1, allocated: 100 * mb, live: 400 * mb}, 190 * mb, 164 * mb},
	} {
		if got := c.cycle.headroom(c.before); got/mb != c.want/mb {
			t.Errorf("%s: %d MB, want %d MB", c.name, got/mb, c.want/mb)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		g        gauge
		headroom uint64
		want     int
	}{
		{gauge{}, 64 << 20, 1600},
		{gauge{live: 64 << 20}, 80 << 20, 125},
		{gauge{live: 300 << 20, roots: 100 << 20}, 200 << 20, 50},
	} {
		if got := c.g.percent(c.headroom); got != c.want {
			t.Errorf("%+v: GOGC %d for %d bytes, want %d", c.g, got, c.headroom, c.want)
		}
	}
}

// TestReadGauge holds the runtime's names against what they are taken for.
func TestReadGauge(t *testing.T) {
	runtime.GC()
	before := readGauge()
	garbage := make([]byte, 64<<20)
	runtime.KeepAlive(garbage)
	runtime.GC()
	c := readGauge().since(before)
	if c.allocated < 64<<20 || c.collect <= 0 || c.wall <= 0 || c.n == 0 || c.live == 0 {
		t.Errorf("%+v", c)
	}
}

// A heap of bytes that has grown gets less headroom in proportion, and the process is left as it was found.
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
	eventually.Nil(t, "GOGC fits 512 MiB", func() error {
		runtime.GC()
		if got := current(); got > 113 { // (512 MiB + floor) / 512 MiB
			return fmt.Errorf("it is %d", got)
		}
		return nil
	})
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
