package h2

import "golang.org/x/net/http2"

// guard bounds what a client can make the server do for nothing: two budgets, refilled with time. Guarded by conn.mu.
//
//	resets    streams that were opened and reset, refused or malformed: a handler was started for nothing; large header lists
//	controls  frames that carry nothing but have to be read, and some answered
type guard struct {
	resets, controls         int
	maxResets, maxControls   int
	resetsEach, controlsEach int // second
}

func newGuard(l *limits) guard {
	return guard{
		resets: l.resets, maxResets: l.resets, resetsEach: l.resetn,
		controls: l.controls, maxControls: l.controls, controlsEach: l.ctln,
	}
}

func (g *guard) reset() error {
	if g.resets--; g.resets < 0 {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many resets"}
	}
	return nil
}

func (g *guard) control() error {
	if g.controls--; g.controls < 0 {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many control frames"}
	}
	return nil
}

// large pays for a header list of n bytes, if it is large: HPACK can make it of a few hundred, and looking at it costs more than most answers do.
func (g *guard) large(n uint32) error {
	if g.resets -= int(n / largeList); g.resets < 0 {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many large header lists"}
	}
	return nil
}

// work pays for a frame that is as much work as n others.
func (g *guard) work(n int) error {
	if g.controls -= n; g.controls < 0 {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too much work for all streams"}
	}
	return nil
}

// refill is called by the sweep for every second that has passed.
func (g *guard) refill() {
	g.resets = min(g.resets+g.resetsEach, g.maxResets)
	g.controls = min(g.controls+g.controlsEach, g.maxControls)
}

// recent remembers the streams that ended last. A frame for one of them may have been under way; for one that never was, it is
// an error. Guarded by conn.mu.
type recent struct {
	ids  [32]uint32 // the lowest bit, always 1 in a client's stream, says whether we did not end it by RST_STREAM
	next uint8
}

func (r *recent) add(id uint32, reset bool) {
	if reset {
		id &^= 1
	}
	r.ids[r.next%uint8(len(r.ids))] = id
	r.next++
}

func (r *recent) find(id uint32) (found, reset bool) {
	for _, v := range r.ids {
		if v|1 == id {
			return true, v != id
		}
	}
	return false, false
}
