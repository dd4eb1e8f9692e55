package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"vigil/internal/eventually"
)

// wrapped is a ResponseWriter as middlewares make them.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// detaching is a handler that gives its streams away.
func detaching(streams chan<- *Stream) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "first ")
		s, ok, err := Detach(wrapped{w})
		if !ok || err != nil {
			panic(fmt.Sprint("not detached: ", ok, err))
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, ErrStreamClosed) {
			panic(fmt.Sprint("written after Detach: ", err))
		}
		streams <- s
	})
}

// TestDetach: a stream outlives its handler, takes writes from elsewhere, and ends when told to.
func TestDetach(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams)})
	resp, err := client(t).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	st := <-streams
	read := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
	}
	read("first ")
	eventually.True(t, "the handler, which is on its way out, has ended", func() bool { return s.Stats().Handlers == 0 })
	if st.Context().Err() != nil || st.Err() != nil {
		t.Errorf("ended with its handler: %v, %v", st.Context().Err(), st.Err())
	}
	n, err := st.TryWrite([]byte("sec"), nil, []byte("ond "))
	if n != 7 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	read("second ")
	if n, err := st.TryBuffer([]byte("third ")); n != 6 || err != nil {
		t.Errorf("TryBuffer: %d, %v", n, err)
	}
	st.Flush()
	read("third ")
	st.OnClose(func() { t.Error("OnClose called for Close") })
	st.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("after Close: %q, %v", rest, err)
	}
	<-st.Done()
	if _, err := st.TryWrite([]byte("x")); !errors.Is(err, ErrStreamClosed) {
		t.Errorf("TryWrite after Close: %v", err)
	}
	if stats := s.Stats(); stats.Streams != 0 || stats.Detached != 0 || stats.Requests != 1 {
		t.Errorf("stats: %+v", stats)
	}
}

// TestDetach_Ends: the owner hears once when the client resets, when the connection breaks, and when it was too late to ask.
func TestDetach_Ends(t *testing.T) {
	streams := make(chan *Stream, 2)
	s := start(t, &Server{Handler: detaching(streams)})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	one := <-streams
	r.get(3, "/")
	two := <-streams
	closed := make(chan string, 4)
	one.OnClose(func() { closed <- "one closed" })
	one.OnWritable(func() { closed <- "one writable" }) // at once
	if got := <-closed; got != "one writable" {
		t.Errorf("got %q", got)
	}
	two.OnClose(func() { closed <- "two closed" })
	r.must(r.WriteRSTStream(1, http2.ErrCodeCancel))
	if got := <-closed; got != "one closed" {
		t.Errorf("got %q", got)
	}
	var reset *ResetError
	if err := one.Err(); !errors.As(err, &reset) || !reset.Remote || reset.Code != http2.ErrCodeCancel {
		t.Errorf("ended with %v", err)
	}
	one.OnClose(func() { closed <- "one again" })
	if got := <-closed; got != "one again" {
		t.Errorf("got %q", got)
	}
	r.conn.Close()
	if got := <-closed; got != "two closed" {
		t.Errorf("got %q", got)
	}
	<-two.Done()
	if err := two.Err(); !errors.Is(err, ErrStreamClosed) {
		t.Errorf("ended with %v", err)
	}
}

// TestDetach_Reset: the client sees that the response is not complete, and why.
func TestDetach_Reset(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams)})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	st := <-streams
	st.Reset(http2.ErrCodeCancel)
	st.Reset(http2.ErrCodeCancel)
	for {
		f := r.next()
		if f, ok := f.(*http2.RSTStreamFrame); ok {
			if f.ErrCode != http2.ErrCodeCancel {
				t.Errorf("reset with %v", f.ErrCode)
			}
			return
		}
	}
}

// TestTryWrite_Window: no more is taken than the windows allow, and OnWritable comes when they open.
func TestTryWrite_Window(t *testing.T) {
	streams := make(chan *Stream, 2)
	s := start(t, &Server{Handler: detaching(streams)})
	const window = 100
	r := dialRaw(t, s.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	r.get(1, "/")
	st := <-streams
	if n, err := st.TryWrite(make([]byte, 50), make([]byte, 60)); n != window-len("first ") || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	writable := make(chan struct{}, 2)
	st.OnWritable(func() { writable <- struct{}{} })
	if n, err := st.TryWrite([]byte("x")); n != 0 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	r.must(r.WriteWindowUpdate(1, 5))
	<-writable
	if n, err := st.TryWrite([]byte("0123456789")); n != 5 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	st.OnWritable(func() { writable <- struct{}{} })
	r.must(r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window + 3}))
	<-writable
	if n, err := st.TryWrite([]byte("0123456789")); n != 3 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	// A lower one makes the stream's window negative; it stays shut until that is made good.
	r.must(r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	r.must(r.WriteWindowUpdate(1, 2))
	r.must(r.WritePing(false, [8]byte{1}))
	for {
		if f, ok := r.next().(*http2.PingFrame); ok && f.IsAck() {
			break
		}
	}
	if n, err := st.TryWrite([]byte("x")); n != 0 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	if s.Stats().ShortWrites == 0 {
		t.Error("short writes are not counted")
	}
	st.Close()
}

// TestTryWrite_ConnectionWindow: of the streams that wait for the connection's window as many are woken as it has room for, first come first.
// One that ends instead of writing leaves its turn to the next.
func TestTryWrite_ConnectionWindow(t *testing.T) {
	streams := make(chan *Stream, 3)
	s := start(t, &Server{Handler: detaching(streams), tick: time.Hour})
	r := dialRaw(t, s.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	var waiting []*Stream
	var woken []chan struct{}
	for i := range uint32(3) {
		r.get(2*i+1, "/")
		waiting = append(waiting, <-streams)
		woken = append(woken, make(chan struct{}))
	}
	n, err := waiting[0].TryWrite(make([]byte, 1<<20))
	if want := initialWindow - 3*len("first "); n != want || err != nil {
		t.Errorf("TryWrite: %d, %v, want %d", n, err, want)
	}
	for i, st := range waiting {
		if n, err := st.TryWrite(make([]byte, 20)); n != 0 || err != nil {
			t.Errorf("TryWrite: %d, %v", n, err)
		}
		st.OnWritable(func() { close(woken[i]) })
	}
	r.must(r.WriteWindowUpdate(0, 10))
	<-woken[0]
	if n, err := waiting[0].TryWrite(make([]byte, 20)); n != 10 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	select {
	case <-woken[1]:
		t.Error("a stream is woken that has no window")
	default:
	}
	r.must(r.WriteWindowUpdate(0, 10))
	<-woken[1]
	waiting[1].Close()
	<-woken[2]
	for _, st := range waiting {
		st.Close()
	}
}

// TestTryWrite_FullSocket: a client that opens its windows but does not read holds nobody up: what its socket does not take is bounded,
// the rest is refused at once, and goes on when it reads.
func TestTryWrite_FullSocket(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams)})
	r := dialRaw(t, s.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	r.must(r.WriteWindowUpdate(0, 1<<30))
	r.get(1, "/")
	st := <-streams
	event := bytes.Repeat([]byte("event"), 1000)
	sent := len("first ")
	begun := time.Now()
	for {
		n, err := st.TryWrite(event)
		if err != nil {
			t.Fatal(err)
		}
		if sent += n; n < len(event) {
			break
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("TryWrite held its caller for %v", took)
	}
	if pending := st.st.c.sock.size.Load(); pending > 64<<10+3*chunkLen {
		t.Errorf("%d bytes are pending", pending)
	}
	if s.Stats().SocketFull == 0 {
		t.Error("full sockets are not counted")
	}
	// It reads: everything arrives, and the callback comes.
	writable := make(chan struct{})
	st.OnWritable(func() { close(writable) })
	go func() {
		<-writable
		n, err := st.TryWrite([]byte("last"))
		if n != 4 || err != nil {
			t.Errorf("TryWrite: %d, %v", n, err)
		}
		st.Close()
	}()
	sent += len("last")
	for got := 0; ; {
		f, err := r.ReadFrame()
		r.must(err)
		if f, ok := f.(*http2.DataFrame); ok {
			got += len(f.Data())
			if f.StreamEnded() {
				if got != sent {
					t.Errorf("%d bytes came, %d were sent", got, sent)
				}
				return
			}
		}
	}
}

// TestTryWrite_StuckSocket: a client that never reads again is given up.
func TestTryWrite_StuckSocket(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams), WriteTimeout: 50 * time.Millisecond})
	r := dialRaw(t, s.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	r.must(r.WriteWindowUpdate(0, 1<<30))
	r.get(1, "/")
	st := <-streams
	closed := make(chan struct{})
	st.OnClose(func() { close(closed) })
	for n := 1; n > 0; {
		n, _ = st.TryWrite(make([]byte, 10_000))
	}
	<-closed
	if got := s.Stats(); got.Stuck != 1 {
		t.Errorf("stats: %+v", got)
	}
}

// TestTryWrite_OneFrame: buffers that belong together go out as one frame.
func TestTryWrite_OneFrame(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams)})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	st := <-streams
	parts := [][]byte{[]byte("{"), nil, bytes.Repeat([]byte("o"), 5000), []byte("}"), []byte("\n")}
	if n, err := st.TryWrite(parts...); n != 5003 || err != nil {
		t.Errorf("TryWrite: %d, %v", n, err)
	}
	if status := r.status(1); status != "200" {
		t.Errorf("status %s", status)
	}
	for _, want := range []string{"first ", string(bytes.Join(parts, nil))} {
		f, ok := r.next().(*http2.DataFrame)
		if !ok || string(f.Data()) != want {
			t.Errorf("got %v, want %.10q...", f, want)
		}
	}
	st.Close()
}

// TestWriteTimeout: a connection whose client reads nothing at all is given up, and so is a handler's wait for a window.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := make(chan error, 1)
		s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(make([]byte, 200_000))
			wrote <- err
		})}
		r, served := startPipe(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		r.get(1, "/")
		go func() {
			for {
				if f, err := r.ReadFrame(); err != nil {
					return
				} else if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
					_ = r.WritePing(true, p.Data)
				}
			}
		}()
		begun := time.Now()
		if err := <-wrote; !errors.Is(err, errStalledWrite) {
			t.Errorf("write: %v", err)
		}
		if took := time.Since(begun); took < 60*time.Second || took > 62*time.Second {
			t.Errorf("given up after %v", took)
		}
		r.conn.Close()
		<-served
		if got := s.Stats(); got.Stalled != 1 {
			t.Errorf("stats: %+v", got)
		}
	})
}

// TestPatient: a handler that says so waits for its window as long as it takes.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := make(chan error, 1)
		s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			Patient(w, r)
			_, err := w.Write(make([]byte, 200_000))
			wrote <- err
		})}
		r, served := startPipe(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		r.get(1, "/")
		begun := time.Now()
		go func() {
			for {
				f, err := r.ReadFrame()
				if err != nil {
					return
				}
				if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
					_ = r.WritePing(true, p.Data)
					if time.Since(begun) > 10*time.Minute {
						_ = r.WriteWindowUpdate(1, 1<<20)
						_ = r.WriteWindowUpdate(0, 1<<20)
					}
				}
			}
		}()
		if err := <-wrote; err != nil || time.Since(begun) < 10*time.Minute {
			t.Errorf("write: %v after %v", err, time.Since(begun))
		}
		r.conn.Close()
		<-served
	})
}

// startPipe serves one end of a pipe without TLS and returns the client's.
func startPipe(t testing.TB, s *Server, settings ...http2.Setting) (*rawClient, <-chan error) {
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.newConn(t.Context(), far, nil, ConnOptions{}).serve() }()
	c := newRaw(t, unboundedConn(near), settings...)
	return c, served
}

// unboundedConn keeps a pipe, which has no buffer, from standing still when both ends write.
func unboundedConn(c net.Conn) net.Conn {
	u := &bufferedPipe{Conn: c}
	u.cond.L = &u.mu
	go u.pump()
	return u
}

type bufferedPipe struct {
	net.Conn
	mu     sync.Mutex
	cond   sync.Cond
	out    []byte
	closed bool
}

func (u *bufferedPipe) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, net.ErrClosed
	}
	u.out = append(u.out, p...)
	u.cond.Signal()
	return len(p), nil
}

func (u *bufferedPipe) Close() error {
	u.mu.Lock()
	u.closed = true
	u.cond.Signal()
	u.mu.Unlock()
	return u.Conn.Close()
}

func (u *bufferedPipe) pump() {
	for {
		u.mu.Lock()
		for len(u.out) == 0 && !u.closed {
			u.cond.Wait()
		}
		b := u.out
		u.out = nil
		closed := u.closed
		u.mu.Unlock()
		if closed {
			return
		}
		if _, err := u.Conn.Write(b); err != nil {
			u.mu.Lock()
			u.closed = true
			u.mu.Unlock()
			return
		}
	}
}
