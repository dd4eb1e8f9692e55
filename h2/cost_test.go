package h2

import (
	"io"
	"net/http"
	"runtime"
	"testing"
)

// TestCost_TryWrite: a delivery allocates nothing. That is what makes thousands of them a second bearable for the garbage collector.
func TestCost_TryWrite(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams)})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	st := <-streams
	r.must(r.WriteWindowUpdate(0, 1<<30))
	r.must(r.WriteWindowUpdate(1, 1<<30))
	go io.Copy(io.Discard, r.conn)
	event := make([]byte, 4800)
	parts := make([][]byte, 2)
	got := testing.AllocsPerRun(1000, func() {
		for rest := event; len(rest) > 0; {
			parts[0], parts[1] = rest[:len(rest)/2], rest[len(rest)/2:]
			n, err := st.TryWrite(parts...)
			if err != nil {
				t.Fatal(err)
			}
			if rest = rest[n:]; n == 0 { // the client reads slowly, or its windows are not here yet
				runtime.Gosched()
			}
		}
	})
	if got >= 0.5 && !raceEnabled { // pools are emptied now and then
		t.Errorf("a delivery allocates %v times", got)
	}
	st.Close()
}

// TestCost_IdleStack: an idle connection with an open stream holds 8 KiB of stack: see conn.read.
func TestCost_IdleStack(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes stacks larger")
	}
	const n = 200
	streams := make(chan *Stream, n)
	s := start(t, &Server{Handler: detaching(streams)})
	before := stackInUse()
	for range n {
		r := dialRaw(t, s.addr)
		r.get(1, "/")
		<-streams
	}
	for s.Stats().Handlers > 0 {
		runtime.Gosched()
	}
	if each := (stackInUse() - before) / n; each > 10<<10 {
		t.Errorf("%d bytes of stack for each connection", each)
	}
}

func stackInUse() int {
	var m runtime.MemStats
	for range 5 { // each halves what is too large
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}

// TestDetach_HTTP1: there is nothing to detach behind net/http, and the caller is told so.
func TestDetach_HTTP1(t *testing.T) {
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok, err := Detach(wrapped{w}); ok || err != nil {
			t.Errorf("Detach of %T: %v, %v", w, ok, err)
		}
	})})
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS("http/1.1")}}
	defer c.CloseIdleConnections()
	resp, err := c.Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 1 {
		t.Errorf("served over %s", resp.Proto)
	}
}
