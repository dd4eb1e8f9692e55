package h2

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"vigil/internal/attacktest"
	"vigil/internal/eventually"
)

// This file is a list of what clients without credentials can do to the server, each with what it may cost. Floods of frames that end the connection are
// in TestFloods, peers that fall silent in TestTimeouts.

// attacker is a client that sends many frames in few writes, and reads only when it is told to.
type attacker struct {
	*rawClient
	out *bytes.Buffer // frames not yet sent
}

func attack(t testing.TB, addr string, settings ...http2.Setting) *attacker {
	t.Helper()
	r := dialRaw(t, addr, settings...)
	a := &attacker{rawClient: r, out: new(bytes.Buffer)}
	a.Framer = http2.NewFramer(a.out, r.conn)
	a.ReadMetaHeaders, a.AllowIllegalWrites = r.ReadMetaHeaders, true
	return a
}

// send sends the frames that have been written, and says whether the server still takes them.
func (a *attacker) send() bool {
	_, err := a.conn.Write(a.out.Bytes())
	a.out.Reset()
	return err == nil
}

// request writes HEADERS.
func (a *attacker) request(id uint32, end bool, block []byte) {
	a.must(a.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: end, EndHeaders: true}))
}

// until reads frames until done says so of one, or the connection ends, when it returns false.
func (a *attacker) until(done func(http2.Frame) bool) bool {
	for {
		f, err := a.ReadFrame()
		if err != nil {
			a.t.Logf("the connection ended: %v", err)
			return false
		}
		if f, ok := f.(*http2.GoAwayFrame); ok {
			a.t.Logf("told to go away: %v %s", f.ErrCode, f.DebugData())
		}
		if done(f) {
			return true
		}
	}
}

// pong waits until the server has dealt with everything sent so far.
func (a *attacker) pong() {
	a.must(a.WritePing(false, [8]byte{1}))
	a.send()
	a.until(func(f http2.Frame) bool { p, ok := f.(*http2.PingFrame); return ok && p.IsAck() })
}

// served waits until a server has given n requests to its handler and few of those handlers run. It reports false when that does not happen any more.
func served(s *instance, n uint64) bool {
	last, since := s.Stats(), time.Now()
	for now := last; now.Requests < n || now.Handlers > 100; now = s.Stats() {
		if now.Connections == 0 {
			return false
		}
		if now.Requests != last.Requests || now.Handlers != last.Handlers {
			last, since = now, time.Now()
		} else if time.Since(since) > time.Second {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	return true
}

// holding is a handler that answers when its request is given up.
var holding = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

// TestAttack_AnswersNotRead: answers to a client that does not read them do not pile up, whatever they are made of.
func TestAttack_AnswersNotRead(t *testing.T) {
	large := strings.Repeat("h", 1000)
	for _, tc := range []struct {
		name   string
		method string
		serve  http.HandlerFunc
	}{
		{"headers only", "HEAD", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", large) }},
		{"no content", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", large)
			w.WriteHeader(http.StatusNoContent)
		}},
		{"flushed header", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", large)
			_ = http.NewResponseController(w).Flush()
		}},
		{"trailers", "GET", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(http.TrailerPrefix+"X-Large", large) }},
		{"informational", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", large)
			w.WriteHeader(http.StatusEarlyHints)
		}},
		{"detached", "GET", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", large)
			if s, ok, err := Detach(w); ok && err == nil {
				s.Close()
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, &Server{Handler: tc.serve})
			a := attack(t, s.addr)
			a.enc.SetMaxDynamicTableSize(0)
			block := a.encode(requestFields(tc.method, "/")...)
			attacktest.Budget{Memory: 16 << 20, CPU: 3 * time.Second}.Spend(t, func() {
				const each = 100 // few enough for the server not to refuse any
				for sent := uint32(0); sent < 50_000; sent += each {
					for i := range uint32(each) {
						a.request(2*(sent+i)+1, true, block)
					}
					if !a.send() || !served(s, uint64(sent+each)) {
						return
					}
				}
			})
		})
	}
}

// TestAttack_Headers: few bytes that HPACK makes many of are not held for every stream of a connection.
func TestAttack_Headers(t *testing.T) {
	value := strings.Repeat("c", 3900)
	for _, name := range []string{"cookie", "x-other"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, &Server{Handler: holding})
			a := attack(t, s.addr)
			first := a.encode(append(requestFields("GET", "/"), name, value)...)
			again := []string{}
			for range 260 {
				again = append(again, name, value)
			}
			a.request(1, true, first)
			block := a.encode(append(requestFields("GET", "/"), again...)...) // 272 bytes for 1 MiB
			attacktest.Budget{Memory: 48 << 20, CPU: 2 * time.Second}.Spend(t, func() {
				for id := uint32(3); id < 2000; id += 2 {
					a.request(id, true, block)
				}
				a.send()
				a.pong()
			})
		})
	}
}

// TestAttack_Windows: windows that open by a byte wake no more streams than can send.
func TestAttack_Windows(t *testing.T) {
	const streams = 1000
	content := bytes.Repeat([]byte("w"), 1<<20)
	sent := func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }
	acknowledged := func(f http2.Frame) bool { s, ok := f.(*http2.SettingsFrame); return ok && s.IsAck() }
	update := func(id uint32) func(*attacker, int) error {
		return func(a *attacker, _ int) error { return a.WriteWindowUpdate(id, 1) }
	}
	for _, tc := range []struct {
		name   string
		first  uint32 // SETTINGS_INITIAL_WINDOW_SIZE
		open   uint32 // of the connection's window
		frames int
		frame  func(*attacker, int) error
		effect func(http2.Frame) bool // of each frame
	}{
		{"of the connection", 1 << 20, 0, 7000, update(0), sent},
		{"of a stream", 0, 1 << 20, 7000, update(1), sent},
		// What pays for it comes back with time: on a slow machine no end of frames would be taken, so it is few frames that the budget is for.
		{"of all streams", 0, 1 << 30, 40, func(a *attacker, i int) error {
			return a.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		}, acknowledged},
		{"of all streams, to and fro", 0, 0, 7000, func(a *attacker, i int) error {
			settings := make([]http2.Setting, 100)
			for j := range settings {
				settings[j] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(j % 2 * 1000)}
			}
			return a.WriteSettings(settings...)
		}, acknowledged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })})
			a := attack(t, s.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: tc.first})
			if tc.open > 0 {
				a.must(a.WriteWindowUpdate(0, tc.open))
			}
			a.enc.SetMaxDynamicTableSize(0)
			block := a.encode(requestFields("GET", "/")...)
			for i := range uint32(streams) {
				a.request(2*i+1, true, block)
			}
			a.pong()
			for s.Stats().Handlers < streams && s.Stats().Connections > 0 {
				time.Sleep(time.Millisecond)
			}
			attacktest.Budget{Memory: 16 << 20, CPU: 1500 * time.Millisecond}.Spend(t, func() {
				for i := range tc.frames { // one by one, so that who was woken has gone back to sleep
					a.must(tc.frame(a, i+1))
					if !a.send() || !a.until(tc.effect) {
						return // the server has had enough
					}
				}
			})
		})
	}
}

// TestAttack_SlowReader: a client that opens its window byte by byte does not keep a handler longer than one that does not open it.
func TestAttack_SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := make(chan error, 1)
		s := &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 200_000))
			wrote <- err
		})}
		r, served := startPipe(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		r.get(1, "/")
		go io.Copy(io.Discard, r.conn)
		tick := time.NewTicker(time.Second / 10)
		defer tick.Stop()
		begun := time.Now()
		for err := error(nil); err == nil; {
			select {
			case <-tick.C:
				r.must(r.WriteWindowUpdate(1, 1))
			case err = <-wrote:
				if !errors.Is(err, errStalledWrite) {
					t.Errorf("write: %v", err)
				}
			}
		}
		if took := time.Since(begun); took < 60*time.Second || took > 70*time.Second {
			t.Errorf("given up after %v", took)
		}
		r.conn.Close()
		<-served
	})
}

// TestAttack_Together: what all strangers hold together is bounded. Who holds little, and who is known, is served all the while.
func TestAttack_Together(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	s := start(t, &Server{MaxStrangers: 16 << 20, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/known":
			Vouch(wrapped{w})
			fallthrough
		case "/hold":
			select {
			case <-r.Context().Done():
			case <-hold:
			}
		}
	})})
	known, modest := attack(t, s.addr), attack(t, s.addr)
	for _, a := range []*attacker{known, modest} {
		a.enc.SetMaxDynamicTableSize(0)
	}
	for id := uint32(1); id < 200; id += 2 {
		known.request(id, true, known.encode(requestFields("GET", "/known")...))
	}
	known.send()
	eventually.True(t, "the handlers of the first 100 requests run", func() bool { return s.Stats().Handlers >= 100 })
	modest.request(1, true, modest.encode(requestFields("GET", "/hold")...))
	modest.pong()

	var attackers []*attacker
	attacktest.Budget{Memory: 48 << 20, CPU: 10 * time.Second}.Spend(t, func() {
		for range 40 {
			a := attack(t, s.addr)
			attackers = append(attackers, a)
			a.enc.SetMaxDynamicTableSize(0)
			block := a.encode(requestFields("GET", "/hold", "x-large", strings.Repeat("~", 10<<10))...)
			for id := uint32(1); id < 200; id += 2 { // 1 MiB of headers, and 100 handlers
				a.request(id, true, block)
			}
			a.send()
			a.pong()
			*a.out = bytes.Buffer{} // it is not the server's
			if held := s.Stats().Held; held > 16<<20+1<<20 {
				t.Errorf("%d bytes are held", held)
			}
		}
	})
	if got := s.Stats(); got.Floods < 20 {
		t.Errorf("hardly any attacker was closed: %+v", got)
	}
	modest.request(3, true, modest.encode(requestFields("GET", "/")...))
	known.request(201, true, known.encode(requestFields("GET", "/")...))
	for _, a := range []*attacker{modest, known} {
		a.send()
		answered := false
		a.until(func(f http2.Frame) bool { answered = f.Header().Type == http2.FrameHeaders; return answered })
		if !answered {
			t.Error("who did nothing wrong is not served")
		}
	}
	for _, a := range append(attackers, modest) {
		a.conn.Close()
	}
	eventually.True(t, "one client is left with its handlers", func() bool { return s.Stats().Connections <= 1 && s.Stats().Handlers <= 100 })
	if held := s.Stats().Held; held != 0 {
		t.Errorf("%d bytes are said to be held when all strangers are gone", held)
	}
}

// TestAttack_SlowReader1: over HTTP/1.1 a client has a minute for each record. It may be slow, but not for longer than that, whatever deadline others set.
func TestAttack_SlowReader1(t *testing.T) {
	const record = 16 << 10
	for _, tc := range []struct {
		name  string
		pause time.Duration // for each KiB that is read
		do    func(*socket) // meanwhile
		fails time.Duration // when; 0: never
	}{
		{name: "slow", pause: 3 * time.Second},
		{name: "too slow", pause: 4 * time.Second, fails: time.Minute},
		{name: "silent", pause: time.Hour, fails: time.Minute},
		{name: "silent, with a later deadline", pause: time.Hour, do: func(s *socket) { _ = s.SetWriteDeadline(time.Now().Add(time.Hour)) }, fails: time.Minute},
		{name: "silent, with none", pause: time.Hour, do: func(s *socket) { _ = s.SetDeadline(time.Time{}) }, fails: time.Minute},
		{name: "silent, with an earlier deadline", pause: time.Hour, do: func(s *socket) { _ = s.SetWriteDeadline(time.Now().Add(time.Second)) }, fails: 11 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				s := &socket{Conn: near}
				s.patience.Store(int64(time.Minute))
				over := make(chan struct{})
				go func() {
					for {
						select {
						case <-time.After(tc.pause):
						case <-over:
							return
						}
						if _, err := io.ReadFull(far, make([]byte, 1<<10)); err != nil {
							return
						}
					}
				}()
				if tc.do != nil {
					time.AfterFunc(10*time.Second, func() { tc.do(s) })
				}
				began := time.Now()
				var err error
				for range 10 {
					if _, err = s.Write(make([]byte, record)); err != nil {
						break
					}
				}
				took := time.Since(began)
				if tc.fails == 0 && err != nil || tc.fails > 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took != tc.fails) {
					t.Errorf("%v after %v", err, took)
				}
				close(over)
				near.Close()
			})
		})
	}
}

// TestAttack_NotRead1: a client that reads nothing over HTTP/1.1 is given up, also when its answers are small and many.
func TestAttack_NotRead1(t *testing.T) {
	for name, size := range map[string]int{"large": 64 << 20, "pipelined": 1000} {
		t.Run(name, func(t *testing.T) {
			body := bytes.Repeat([]byte("b"), size)
			closed := make(chan struct{})
			s := start(t, &Server{WriteTimeout: 300 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })},
				func(hs *http.Server) {
					hs.ConnState = func(_ net.Conn, state http.ConnState) {
						if state == http.StateClosed {
							close(closed)
						}
					}
				})
			conn, err := tls.Dial("tcp", s.addr, clientTLS("http/1.1"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() {
				request := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 100))
				for {
					if _, err := conn.Write(request); err != nil {
						return
					}
				}
			}()
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Error("the connection is still open")
			}
		})
	}
}

// TestPatient1: a handler over HTTP/1.1 that says so waits for its client, and the next request on the connection is bounded again.
func TestPatient1(t *testing.T) {
	wrote := make(chan error, 2)
	body := make([]byte, 16<<20)
	s := start(t, &Server{WriteTimeout: 300 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/patient" {
			Patient(w, r)
		}
		_, err := w.Write(body)
		wrote <- err
	})})
	conn, err := tls.Dial("tcp", s.addr, clientTLS("http/1.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /patient HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-wrote:
		t.Fatalf("the patient handler does not wait: %v", err)
	case <-time.After(time.Second):
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != int64(len(body)) || err != nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the next one ends with %v", err)
	}
}
