// Package eventually waits in tests for what becomes true by itself.
//
//	eventually.Nil(t, "the node is ready", func() error { return ready(client, "node-1") })
//
// A test waits for a condition and never for a time. The condition runs in the test's goroutine, so it may end the test when waiting has
// become pointless. It should be cheap: it is tried often at first, and every 20 ms later.
package eventually

import (
	"testing"
	"time"
)

// Limit is how long a condition may take to come true. It is no measure of speed: it ends tests of which the condition never comes true, on a
// busy machine as well.
const Limit = 5 * time.Minute

// least and most bound the pause between two tries.
const (
	least = time.Millisecond
	most  = 20 * time.Millisecond
)

// Nil calls check until it returns nil. An error says what is still missing: the last one fails the test after [Limit].
func Nil(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := try(check); err != nil {
		t.Fatalf("not within %v: %s: %v", Limit, what, err)
	}
}

// True calls holds until it returns true. It is for conditions of which what says all there is to say.
func True(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !tryTrue(holds) {
		t.Fatalf("not within %v: %s", Limit, what)
	}
}

// try returns the last error of a check that did not return nil in time.
func try(check func() error) (last error) {
	tryTrue(func() bool {
		last = check()
		return last == nil
	})
	return last
}

func tryTrue(holds func() bool) bool {
	deadline := time.Now().Add(Limit)
	for pause := least; !holds(); pause = min(2*pause, most) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
