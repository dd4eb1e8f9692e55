package h2

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"golang.org/x/net/http2"

	"vigil/internal/eventually"
)

// TestLines compares lines with a list of all that wait, which is searched from its beginning.
func TestLines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for turn := range 50 {
		ls := &lines{turn: ^uint32(0) - 100} // turns begin anew on the way
		streams := make([]*stream, 40)
		for i := range streams {
			streams[i] = &stream{id: uint32(i)}
		}
		var order []*stream // that wait, first come first
		first := func(is func(*stream) bool) *stream {
			if i := slices.IndexFunc(order, is); i >= 0 {
				return order[i]
			}
			return nil
		}
		leave := func(st *stream) { order = slices.DeleteFunc(order, func(o *stream) bool { return o == st }) }
		for step := range 2000 {
			st := streams[rnd.IntN(len(streams))]
			switch rnd.IntN(3) {
			case 0:
				if st.line == nil {
					st.wantsRoom = rnd.IntN(4) == 0
					order = append(order, st)
				}
				ls.add(st)
			case 1:
				leave(st)
				ls.remove(st)
			case 2:
				before := st.window > 0
				st.window = int32(rnd.IntN(3) - 1)
				ls.move(st)
				if st.line != nil && !st.wantsRoom && before != (st.window > 0) {
					leave(st)
					order = append(order, st)
				}
			}
			header := func(st *stream) bool { return st.wantsRoom }
			if got, want := ls.next(false), first(header); got != want {
				t.Fatalf("turn %d, step %d, no window: %v, want %v", turn, step, got, want)
			}
			if got, want := ls.next(true), first(func(st *stream) bool { return st.wantsRoom || st.window > 0 }); got != want {
				t.Fatalf("turn %d, step %d: %v, want %v", turn, step, got, want)
			}
		}
	}
}

// TestLines_Shut: streams whose windows the client has shut are in nobody's way: whoever looks for a stream that can send does not find them.
func TestLines_Shut(t *testing.T) {
	const streams = 200
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) })})
	a := attack(t, s.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	block := a.encode(requestFields("GET", "/")...)
	for i := range uint32(streams) {
		a.request(2*i+1, true, block)
	}
	a.pong()
	c := s.snapshot(nil)[0]
	count := func() (headers, data, shut int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, l := range []*line{&c.lines.headers, &c.lines.data, &c.lines.shut} {
			for st := l.first; st != nil; st = st.next {
				*[]*int{&headers, &data, &shut}[i]++
			}
		}
		return headers, data, shut
	}
	eventually.Nil(t, "the handlers have run, and all streams wait for windows of their own", func() error {
		if headers, data, shut := count(); headers+data != 0 || shut != streams {
			return fmt.Errorf("%d wait for room, %d for the connection's window, %d of %d for their own", headers, data, shut, streams)
		}
		return nil
	})
	a.must(a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 2000}))
	a.send()
	ended := 0
	if !a.until(func(f http2.Frame) bool {
		if data, ok := f.(*http2.DataFrame); ok && data.StreamEnded() {
			if ended++; ended*1000 > 60_000 { // beyond the connection's first window
				return true
			}
			a.must(a.WriteWindowUpdate(0, 1000))
			a.send()
		}
		return false
	}) {
		t.Errorf("%d of %d streams ended after their windows had opened", ended, streams)
	}
}
