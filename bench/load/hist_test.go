package main

import (
	"testing"
	"time"
)

func TestHist_Quantiles(t *testing.T) {
	var h hist
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond, 1: time.Second} {
		got := h.quantile(q)
		if off := float64(got-want) / float64(want); off < -.02 || off > .02 {
			t.Errorf("quantile %g is %v, want about %v", q, got, want)
		}
	}
	if h.count() != 1000 {
		t.Errorf("count is %d", h.count())
	}
}
