package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestFloods: who makes the server work for nothing is told to be calm, and is gone.
func TestFloods(t *testing.T) {
	hold := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cases := []struct {
		name  string
		code  http2.ErrCode
		flood func(*rawClient, uint32) error // the i-th frame
	}{
		{"rapid reset", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			id := 2*i + 1
			r.enc.SetMaxDynamicTableSize(0)
			err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.encode(requestFields("GET", "/")...), EndStream: true, EndHeaders: true})
			return errors.Join(err, r.WriteRSTStream(id, http2.ErrCodeCancel))
		}},
		{"streams refused", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			return r.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: r.encode(requestFields("GET", "/")...), EndStream: true, EndHeaders: true})
		}},
		{"streams reset by our errors", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			id := 2*i + 1
			err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.encode(requestFields("POST", "/")...), EndHeaders: true})
			return errors.Join(err, r.WriteWindowUpdate(id, 0))
		}},
		{"PING", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error { return r.WritePing(false, [8]byte{}) }},
		{"SETTINGS", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error { return r.WriteSettings() }},
		{"SETTINGS acknowledged", http2.ErrCodeProtocol, func(r *rawClient, i uint32) error { return r.WriteSettingsAck() }},
		{"PRIORITY", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			return r.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 0})
		}},
		{"unknown frames", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error { return r.WriteRawFrame(0xbe, 0, 0, nil) }},
		{"empty DATA", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			if i == 0 {
				return r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode(requestFields("POST", "/")...), EndHeaders: true})
			}
			return r.WriteData(1, false, nil)
		}},
		{"empty CONTINUATION", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			if i == 0 {
				return r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode(requestFields("GET", "/")...)})
			}
			return r.WriteContinuation(1, false, nil)
		}},
		{"CONTINUATION", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			block := r.encode("x-long", strings.Repeat("x", 10_000))
			if i == 0 {
				return r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: append(r.encode(requestFields("GET", "/")...), block...)})
			}
			return r.WriteContinuation(1, false, block)
		}},
		{"RST_STREAM on closed streams", http2.ErrCodeEnhanceYourCalm, func(r *rawClient, i uint32) error {
			if i == 0 {
				return r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode(requestFields("GET", "/")...), EndStream: true, EndHeaders: true})
			}
			return r.WriteRSTStream(1, http2.ErrCodeCancel)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, &Server{
				Handler: hold, MaxConcurrentStreams: 50, MaxHeaderBytes: 64 << 10,
				ResetBurst: 200, ControlBurst: 500, tick: time.Hour, // no refill
			})
			r := dialRaw(t, s.addr)
			stop := make(chan struct{})
			flooded := make(chan struct{})
			go func() {
				defer close(flooded)
				for i := uint32(0); ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if c.flood(r, i) != nil {
						return
					}
				}
			}()
			code, reason := r.gone()
			close(stop)
			<-flooded
			if code != c.code {
				t.Errorf("ended with %v (%s), want %v", code, reason, c.code)
			}
			if n := s.Stats().Handlers; n > 50+50/4+16 {
				t.Errorf("%d handlers at once", n)
			}
		})
	}
}

// TestRefusedStream: the stream beyond the limit is refused, the others are not disturbed.
func TestRefusedStream(t *testing.T) {
	release := make(chan struct{})
	s := start(t, &Server{MaxConcurrentStreams: 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release })})
	r := dialRaw(t, s.addr)
	for id := uint32(1); id <= 5; id += 2 {
		r.get(id, "/")
	}
	f, ok := r.next().(*http2.RSTStreamFrame)
	if !ok || f.StreamID != 5 || f.ErrCode != http2.ErrCodeRefusedStream {
		t.Fatalf("got %v", f)
	}
	close(release)
	for range 2 {
		if f, ok := r.next().(*http2.MetaHeadersFrame); !ok || f.PseudoValue("status") != "200" {
			t.Fatalf("got %v", f)
		}
	}
	r.get(7, "/")
	if status := r.status(7); status != "200" {
		t.Errorf("status %s", status)
	}
}

// TestMalformedRequests: RFC 9113, sections 8.2 and 8.3.
func TestMalformedRequests(t *testing.T) {
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })})
	base := func(more ...string) []string { return requestFields("GET", "/", more...) }
	cases := map[string][]string{
		"upper case":                base("X-Upper", "1"),
		"empty name":                base("", "1"),
		"blank in name":             base("a b", "1"),
		"line feed in value":        base("x", "a\nb"),
		"NUL in value":              base("x", "a\x00b"),
		"connection":                base("connection", "close"),
		"upgrade":                   base("upgrade", "h2c"),
		"transfer-encoding":         base("transfer-encoding", "chunked"),
		"te":                        base("te", "gzip"),
		"pseudo-header later":       base("x", "1", ":path", "/"),
		"unknown pseudo-header":     append([]string{":unknown", "1"}, base()...),
		"response's pseudo-header":  append([]string{":status", "200"}, base()...),
		"protocol":                  append([]string{":protocol", "websocket"}, base()...),
		"path twice":                append([]string{":path", "/"}, base()...),
		"no method":                 base()[2:],
		"bad method":                requestFields("GE T", "/"),
		"no path":                   requestFields("GET", ""),
		"path without slash":        requestFields("GET", "a/b"),
		"star for GET":              requestFields("GET", "*"),
		"bad escape":                requestFields("GET", "/%zz"),
		"ftp":                       {":method", "GET", ":scheme", "ftp", ":authority", "a", ":path", "/"},
		"user in authority":         {":method", "GET", ":scheme", "https", ":authority", "me@a", ":path", "/"},
		"other host":                base("host", "other"),
		"two hosts":                 base("host", "127.0.0.1", "host", "127.0.0.1"),
		"length without body":       base("content-length", "3"),
		"length twice":              requestFields("POST", "/", "content-length", "3", "content-length", "4"),
		"length that is no number":  requestFields("POST", "/", "content-length", "+3"),
		"CONNECT with path":         requestFields("CONNECT", "/"),
		"CONNECT without authority": {":method", "CONNECT"},
	}
	r := dialRaw(t, s.addr)
	id := uint32(1)
	for name, fields := range cases {
		t.Run(name, func(t *testing.T) {
			r.open(id, fields[1] != "POST", fields...)
			f, ok := r.next().(*http2.RSTStreamFrame)
			if !ok || f.StreamID != id || f.ErrCode != http2.ErrCodeProtocol {
				t.Fatalf("got %v", f)
			}
		})
		id += 2
	}
	good := map[string][]string{
		"blanks around a value": base("x", " \tv "),
		"te: trailers":          base("te", "trailers"),
		"host as authority":     {":method", "GET", ":scheme", "https", ":path", "/", "host", "a"},
		"both alike":            base("host", "127.0.0.1"),
		"OPTIONS *":             requestFields("OPTIONS", "*"),
		"CONNECT":               {":method", "CONNECT", ":authority", "a:1"},
		"length 0":              base("content-length", "0"),
	}
	for name, fields := range good {
		t.Run(name, func(t *testing.T) {
			r.open(id, true, fields...)
			if status := r.status(id); status != "200" {
				t.Errorf("status %s", status)
			}
			r.next()
		})
		id += 2
	}
}

// TestHeaderList: too large a list is answered with 431, one of more than twice the size ends the connection.
func TestHeaderList(t *testing.T) {
	s := start(t, &Server{MaxHeaderBytes: 8000, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	if status := r.status(1); status != "200" {
		t.Errorf("status %s", status)
	}
	r.open(3, true, requestFields("GET", "/", "x-long", strings.Repeat("~", 7000), "x-more", strings.Repeat("~", 1000))...)
	if status := r.status(3); status != "431" {
		t.Errorf("status %s", status)
	}
	r.open(5, true, requestFields("GET", "/", "x-long", strings.Repeat("x", 7000))...)
	for {
		if f, ok := r.next().(*http2.MetaHeadersFrame); ok {
			if status := f.PseudoValue("status"); f.StreamID != 5 || status != "200" {
				t.Errorf("stream %d: status %s", f.StreamID, status)
			}
			break
		}
	}
	r.open(7, true, requestFields("GET", "/", "x-a", strings.Repeat("\"", 5400), "x-b", strings.Repeat("\"", 5400), "x-c", strings.Repeat("\"", 5400))...)
	if code, _ := r.gone(); code != http2.ErrCodeEnhanceYourCalm {
		t.Errorf("ended with %v", code)
	}
}

// TestTimeouts: what a client may take its time for, on a clock of its own.
func TestTimeouts(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") })
	pongs := func(r *rawClient) { // answers pings for ever
		for {
			f, err := r.ReadFrame()
			if err != nil {
				return
			}
			if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
				_ = r.WritePing(true, p.Data)
			}
		}
	}
	silent := func(r *rawClient) { _, _ = io.Copy(io.Discard, r.conn) }
	cases := []struct {
		name     string
		least    time.Duration
		do       func(*rawClient)
		wantPing uint64
	}{
		{"silent", 4 * time.Minute, silent, 1},
		{"idle", 90 * time.Second, pongs, 0},
		{"frame never ends", 30 * time.Second, func(r *rawClient) {
			_, _ = r.conn.Write([]byte{0, 0, 8, byte(http2.FramePing), 0, 0, 0, 0, 0, 'h', 'a'})
			silent(r)
		}, 0},
		{"header block never ends", 30 * time.Second, func(r *rawClient) {
			_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.encode(requestFields("GET", "/")...)})
			go silent(r)
			for r.WriteContinuation(1, false, nil) == nil {
				time.Sleep(time.Second)
			}
		}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Handler: answer}
				if c.wantPing > 0 {
					s.IdleTimeout = -1
				}
				begun := time.Now()
				r, served := startPipe(t, s)
				done := make(chan struct{})
				go func() {
					c.do(r)
					close(done)
				}()
				err := <-served
				r.conn.Close()
				<-done
				if took := time.Since(begun); took < c.least || took > c.least+5*time.Second {
					t.Errorf("ended after %v (%v), want %v", took, err, c.least)
				}
				if got := s.Stats(); got.PingsLost != c.wantPing || got.Connections != 0 {
					t.Errorf("stats: %+v", got)
				}
				synctest.Wait()
			})
		})
	}
	t.Run("body never ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			read := make(chan error, 1)
			s := &Server{ReadTimeout: 18 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				read <- err
			})}
			begun := time.Now()
			r, served := startPipe(t, s)
			go pongs(r)
			r.open(1, false, requestFields("POST", "/")...)
			time.Sleep(8 * time.Second)
			r.must(r.WriteData(1, false, []byte("still here")))
			if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			if n := s.Stats().BodyTimeouts; n != 1 {
				t.Errorf("%d body timeouts counted", n)
			}
			if took := time.Since(begun); took < 18*time.Second || took > 20*time.Second {
				t.Errorf("ended after %v", took)
			}
			r.conn.Close()
			<-served
		})
	})
	t.Run("no preface", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			go io.Copy(io.Discard, near)
			begun := time.Now()
			err := (&Server{}).newConn(t.Context(), far, nil, ConnOptions{}).serve()
			near.Close()
			if took := time.Since(begun); err == nil || took != 10*time.Second {
				t.Errorf("ended after %v: %v", took, err)
			}
		})
	})
	t.Run("open stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			s := &Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })}
			r, served := startPipe(t, s)
			r.get(1, "/")
			go pongs(r)
			time.Sleep(time.Hour)
			synctest.Wait()
			if s.Stats().Connections != 1 {
				t.Error("a connection with an open stream was ended")
			}
			close(release)
			<-served
			r.conn.Close()
		})
	})
}

// TestShutdown: streams end in good order, new ones are not lost, connections are closed.
func TestShutdown(t *testing.T) {
	release := make(chan struct{})
	begun := make(chan struct{}, 2)
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-release
		fmt.Fprint(w, "served")
	})})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	<-begun
	done := make(chan error, 1)
	go func() { done <- s.http.Shutdown(t.Context()) }()
	expect := func(want uint32) {
		t.Helper()
		f, ok := r.next().(*http2.GoAwayFrame)
		if !ok || f.LastStreamID != want || f.ErrCode != http2.ErrCodeNo {
			t.Fatalf("got %v, want GOAWAY up to %d", f, want)
		}
	}
	expect(maxWindow)
	r.get(3, "/") // before it knows
	<-begun
	ping, ok := r.next().(*http2.PingFrame)
	if !ok {
		t.Fatal("no PING behind GOAWAY")
	}
	r.must(r.WritePing(true, ping.Data))
	expect(3)
	r.get(5, "/") // too late, and it could know
	close(release)
	answered := map[uint32]string{}
	for len(answered) < 2 {
		switch f := r.next().(type) {
		case *http2.MetaHeadersFrame:
		case *http2.DataFrame:
			answered[f.StreamID] = string(f.Data())
		default:
			t.Fatalf("got %v", f)
		}
	}
	if answered[1] != "served" || answered[3] != "served" {
		t.Errorf("got %v", answered)
	}
	if _, err := r.ReadFrame(); !errors.Is(err, io.EOF) {
		t.Errorf("connection ended with %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestShutdown_Deadline: what does not end is cut off.
func TestShutdown_Deadline(t *testing.T) {
	streams := make(chan *Stream, 1)
	s := start(t, &Server{Handler: detaching(streams)})
	r := dialRaw(t, s.addr)
	r.get(1, "/")
	st := <-streams
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	<-st.Done()
	if _, err := st.TryWrite([]byte("x")); !errors.Is(err, ErrStreamClosed) {
		t.Errorf("TryWrite: %v", err)
	}
}

// TestServeConn_Context: the end of the context ends the connection.
func TestServeConn_Context(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	near, far := net.Pipe()
	served := make(chan error, 1)
	ended := make(chan struct{})
	s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(ended)
	})}
	go func() { served <- s.newConn(ctx, far, nil, ConnOptions{}).serve() }()
	r := newRaw(t, unboundedConn(near))
	go io.Copy(io.Discard, near)
	r.get(1, "/")
	<-ended
	<-served
	r.conn.Close()
}
