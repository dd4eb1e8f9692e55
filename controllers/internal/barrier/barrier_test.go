package barrier

import "testing"

func TestBarrier(t *testing.T) {
	b := New()
	if !b.Passed("a", "") {
		t.Error("nothing was written, but the barrier is closed")
	}
	b.Wrote("a", "12")
	b.Wrote("a", "9")
	if b.Passed("a", "11") || b.Passed("a", "") {
		t.Error("passed before the write is visible")
	}
	if !b.Passed("b", "1") {
		t.Error("another owner's write counts")
	}
	if !b.Passed("a", "12") || !b.Passed("a", "1") {
		t.Error("not passed, or not forgotten, after the write was visible")
	}
	b.Wrote("a", "20")
	b.Forget("a")
	if !b.Passed("a", "1") {
		t.Error("a forgotten owner's write counts")
	}
}
