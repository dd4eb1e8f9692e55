package podcontrol

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
)

func TestSlowStart(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	for _, c := range []struct{ count, failsFrom, calls int }{
		{0, 100, 0},
		{1, 100, 1},
		{500, 1000, 500},
		{500, 1, 1},  // the first batch has one
		{500, 4, 7},  // 1 + 2 + 4
		{10, 9, 10},  // the last batch is what is left
		{500, 7, 7},  // the last of a batch
		{500, 8, 15}, // the first of the next
	} {
		var calls atomic.Int64
		refused := errors.New("refused")
		err := SlowStart(logger, c.count, func() error {
			if n := calls.Add(1); n >= int64(c.failsFrom) {
				return refused
			}
			return nil
		})
		if got := int(calls.Load()); got != c.calls || (err != nil) != (c.failsFrom <= c.count) {
			t.Errorf("%d, of which the %dth fails: %d calls, error %v; want %d", c.count, c.failsFrom, got, err, c.calls)
		}
	}
}

func TestEach(t *testing.T) {
	var now, most, calls atomic.Int64
	logger := slog.New(slog.DiscardHandler)
	err := Each(logger, 200, 8, func(i int) error {
		defer now.Add(-1)
		most.Store(max(most.Load(), now.Add(1)))
		calls.Add(int64(i))
		if i == 17 {
			panic("planted")
		}
		return nil
	})
	if err == nil || calls.Load() != 199*200/2 || most.Load() > 8 {
		t.Errorf("error %v, sum of arguments %d, %d at once", err, calls.Load(), most.Load())
	}
}
