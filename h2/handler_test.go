package h2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"vigil/internal/panics"
)

type contextKey struct{}

// startUpstream serves handler with net/http's own HTTP/2 server: what a handler may expect is what it does.
func startUpstream(t testing.TB, handler http.Handler, change ...func(*http.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: handler, TLSConfig: serverTLS()}
	hs.TLSConfig.NextProtos = []string{"h2"}
	for _, f := range change {
		f(hs)
	}
	served := make(chan error, 1)
	go func() { served <- hs.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		hs.Close()
		<-served
	})
	return "https://" + l.Addr().String()
}

// outcome is all that a client sees of a response.
type outcome struct {
	Status  int
	Header  http.Header
	Length  int64
	Body    string
	Trailer http.Header
	Err     bool // of the request, or of reading the body
	Informs []int
}

func ask(t *testing.T, method, url string, header http.Header, body io.Reader) (o outcome) {
	t.Helper()
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		o.Informs = append(o.Informs, code)
		return nil
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := client(t).Do(req)
	if err != nil {
		o.Err = true
		return o
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatalf("served %s", resp.Proto)
	}
	b, err := io.ReadAll(resp.Body)
	o.Status, o.Header, o.Length, o.Body, o.Trailer, o.Err = resp.StatusCode, resp.Header, resp.ContentLength, string(b), resp.Trailer, err != nil
	if o.Header.Get("Date") == "" {
		t.Error("no Date")
	}
	o.Header.Del("Date")
	return o
}

// TestHandlers shows that clients cannot tell this server from net/http's by what a handler does.
func TestHandlers(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB
	cases := []struct {
		name    string
		method  string // GET
		header  http.Header
		body    string
		handler http.HandlerFunc
		differs func(*outcome) // makes the outcomes equal where they should differ
	}{
		{name: "nothing", handler: func(http.ResponseWriter, *http.Request) {}},
		{name: "hello", handler: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }},
		{name: "status", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-A", "before")
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-A", "after")
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, "short")
		}},
		{name: "head", method: "HEAD", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1234")
			w.Header().Set("Content-Type", "text/x")
		}},
		{name: "head with body", method: "HEAD", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			_, _ = w.Write([]byte("never seen"))
		}, differs: func(o *outcome) { o.Length = 0; o.Header.Del("Content-Length") }},
		{name: "no content", handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
				panic(err)
			}
		}},
		{name: "not modified", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		}},
		{name: "large", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, large)
		}},
		{name: "large with length", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			_, _ = io.WriteString(w, large)
		}},
		{name: "flushed pieces", handler: func(w http.ResponseWriter, r *http.Request) {
			for i := range 10 {
				fmt.Fprintf(w, "piece %d\n", i)
				w.(http.Flusher).Flush()
			}
		}},
		{name: "flushed header only", handler: func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }},
		{name: "more than length", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("abc"))
			w.(http.Flusher).Flush()
			if _, err := w.Write([]byte("def")); err == nil {
				panic("wrote more than Content-Length")
			}
		}},
		{name: "less than length", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("abc"))
		}, differs: func(o *outcome) { *o = outcome{Err: o.Err} }},
		{name: "abort", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "begun")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{name: "panic before anything", handler: func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
		{name: "trailers", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-None")
			fmt.Fprint(w, "body")
			w.Header().Set("X-Sum", "42")
			w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		}},
		{name: "trailers without body", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(200)
			w.Header().Set("X-Sum", "42")
		}},
		{name: "early hints", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			fmt.Fprint(w, "then")
		}},
		{name: "hop-by-hop headers", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "keep-alive")
			w.Header().Set("Transfer-Encoding", "chunked")
			w.Header().Set("Upgrade", "x")
			w.Header().Set("Bad Name", "x")
			w.Header().Set("X-Bad-Value", "a\nb")
			fmt.Fprint(w, "x")
		}, differs: func(o *outcome) { o.Header.Del("Upgrade") }}, // which net/http lets through
		{name: "content encoding", handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "x")
		}},
		{name: "echo", method: "POST", body: large, handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%d ", r.ContentLength)
			n, err := io.Copy(w, r.Body)
			fmt.Fprint(w, n, err)
		}},
		{name: "body not read", method: "POST", body: large, handler: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "no") }},
		{name: "continue", method: "POST", header: http.Header{"Expect": {"100-continue"}}, body: "expected", handler: func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprint(w, string(b), err, r.Header)
		}, differs: func(o *outcome) { o.Body = strings.ReplaceAll(o.Body, "Accept-Encoding:[gzip] ", "") }},
		{name: "continue refused", method: "POST", header: http.Header{"Expect": {"100-continue"}}, body: "expected", handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusExpectationFailed)
		}},
		{name: "what the request says", method: "PUT", header: http.Header{"X-Two": {"a", "b"}, "Cookie": {"a=1", "b=2"}}, body: "x",
			handler: func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintln(w, r.Method, r.URL, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.ContentLength, r.Header)
				host, _, _ := net.SplitHostPort(r.RemoteAddr)
				fmt.Fprintln(w, strings.Contains(r.Host, "127.0.0.1:"), host, r.TLS.NegotiatedProtocol, r.TLS.HandshakeComplete, r.Close, r.TransferEncoding)
				fmt.Fprintln(w, r.Context().Value(contextKey{}), r.Context().Value(http.LocalAddrContextKey) != nil, r.Context().Value(http.ServerContextKey) != nil)
				fmt.Fprintln(w, r.Context().Err(), r.FormValue("q"))
			}},
		{name: "deadline in the past", handler: func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
				panic(err)
			}
			_, err := io.WriteString(w, large)
			if err == nil {
				panic("written after the deadline")
			}
		}},
		{name: "controller", handler: func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			_, _, hijack := rc.Hijack()
			fmt.Fprint(w, rc.EnableFullDuplex(), rc.SetReadDeadline(time.Now().Add(time.Hour)), rc.SetWriteDeadline(time.Now().Add(time.Hour)),
				rc.SetReadDeadline(time.Time{}), rc.Flush(), errors.Is(hijack, http.ErrNotSupported))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			withContext := func(hs *http.Server) {
				hs.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
					return context.WithValue(ctx, contextKey{}, "conn")
				}
			}
			var got, want outcome
			for url, o := range map[string]*outcome{
				start(t, &Server{Handler: c.handler}, withContext).url: &got,
				startUpstream(t, c.handler, withContext):               &want,
			} {
				method, body := c.method, io.Reader(nil)
				if method == "" {
					method = "GET"
				}
				if c.body != "" {
					body = strings.NewReader(c.body)
				}
				*o = ask(t, method, url+"/a%2Fb/c?q=1&r=%20", c.header, body)
				if c.differs != nil {
					c.differs(o)
				}
			}
			// net/http says a length only of what fits its 4 KiB buffer; we say one up to 64 KiB,
			if len(want.Trailer) > 0 { // and none with trailers, for curl's sake
				want.Length = -1
				want.Header.Del("Content-Length")
			}
			if want.Length == -1 && got.Length == int64(len(got.Body)) {
				got.Length = -1
				got.Header.Del("Content-Length")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-net/http +h2)\n%s", diff)
			}
		})
	}
}

// TestRequestTrailers: what the client sends behind its body is there when the body has been read.
func TestRequestTrailers(t *testing.T) {
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := fmt.Sprint(r.Trailer)
		_, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, before, r.Trailer, err)
	})})
	req, err := http.NewRequest("POST", s.url, io.MultiReader(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"X-Sum": {"7"}}
	resp, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if want := "map[X-Sum:[]] map[X-Sum:[7]] <nil>\n"; err != nil || string(b) != want {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}
}

// TestUpload: a body many times the windows arrives whole, several at once on one connection.
func TestUpload(t *testing.T) {
	s := start(t, &Server{
		UploadPerConn: initialWindow, UploadPerStream: 10_000,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := sha256.New()
			_, err := io.CopyBuffer(h, struct{ io.Reader }{r.Body}, make([]byte, 777))
			fmt.Fprintf(w, "%x %v", h.Sum(nil), err)
		}),
	})
	c := client(t)
	done := make(chan error)
	for i := range 8 {
		go func() {
			body := bytes.Repeat([]byte{byte(i), 1, 2, 3, 5, 8}, 200_000)
			want := fmt.Sprintf("%x <nil>", sha256.Sum256(body))
			resp, err := c.Post(s.url, "application/octet-stream", bytes.NewReader(body))
			if err == nil {
				var b []byte
				b, err = io.ReadAll(resp.Body)
				resp.Body.Close()
				if err == nil && string(b) != want {
					err = fmt.Errorf("got %s, want %s", b, want)
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestReadDeadline: a handler that waits for a body is released.
func TestReadDeadline(t *testing.T) {
	result := make(chan error, 1)
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := io.ReadAll(r.Body)
		result <- err
	})})
	body, feed := io.Pipe()
	defer feed.Close()
	resp, err := client(t).Post(s.url, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
}

// TestReadTimeout_Overridden: a handler that has its own deadline, or none, may wait longer than others.
func TestReadTimeout_Overridden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan error, 1)
		s := &Server{ReadTimeout: 10 * time.Second, PingInterval: -1, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			_, err := io.ReadAll(r.Body)
			result <- err
		})}
		r, served := startPipe(t, s)
		go io.Copy(io.Discard, r.conn)
		r.open(1, false, requestFields("POST", "/")...)
		time.Sleep(time.Minute)
		r.must(r.WriteData(1, true, []byte("late")))
		if err := <-result; err != nil {
			t.Errorf("read: %v", err)
		}
		r.conn.Close()
		<-served
	})
}

// TestContext: a request's context, and what is derived from it, ends with its stream.
func TestContext(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 2)
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		child, cancel := context.WithCancel(r.Context())
		defer cancel()
		close(begun)
		<-child.Done()
		ended <- child.Err()
		<-r.Context().Done()
		_, err := w.Write(make([]byte, chunkLen+1))
		ended <- err
	})})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, "GET", s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client(t).Do(req); err == nil {
		resp.Body.Close()
		t.Error("answered")
	}
	if err := <-ended; err != context.Canceled {
		t.Errorf("context: %v", err)
	}
	var reset *ResetError
	if err := <-ended; !errors.As(err, &reset) || !reset.Remote || !errors.Is(err, ErrStreamClosed) {
		t.Errorf("write: %v", err)
	}
}

// TestPanic: the panic is counted, the client sees a reset, the connection lives on.
func TestPanic(t *testing.T) {
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("out of order")
		}
		fmt.Fprint(w, r.RemoteAddr)
	})})
	c := client(t)
	get := func(path string) (string, error) {
		resp, err := c.Get(s.url + path)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	before, err := get("/")
	if err != nil {
		t.Fatal(err)
	}
	counted := panics.Count(panics.Request)
	if _, err := get("/panic"); err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") {
		t.Errorf("panic gave %v", err)
	}
	after, err := get("/")
	if err != nil || before != after {
		t.Errorf("connection %s became %s (%v)", before, after, err)
	}
	if n := panics.Count(panics.Request) - counted; n != 1 {
		t.Errorf("%d panics were counted, want 1", n)
	}
}

// TestPanic_Connection: a connection that panics is closed and counted; the next one works.
func TestPanic_Connection(t *testing.T) {
	var planted atomic.Bool
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			<-r.Context().Done() // or else it could answer before the connection panics
			return
		}
		fmt.Fprint(w, "fine")
	})}, func(hs *http.Server) {
		hs.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateActive && planted.CompareAndSwap(true, false) {
				panic("out of order")
			}
		}
	})
	counted := panics.Count(panics.Connection)
	c := client(t)
	for _, path := range []string{"/", "/bad", "/"} {
		planted.Store(path == "/bad")
		c.CloseIdleConnections()
		resp, err := c.Get(s.url + path)
		if planted := path == "/bad"; planted != (err != nil) {
			t.Errorf("%s: got %v", path, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	if n := panics.Count(panics.Connection) - counted; n != 1 {
		t.Errorf("%d panics were counted, want 1", n)
	}
}

// TestLargeResponseHeaders: they are cut into CONTINUATION frames.
func TestLargeResponseHeaders(t *testing.T) {
	s := start(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", 100_000))
	})})
	if o := ask(t, "GET", s.url, nil, nil); len(o.Header.Get("X-Large")) != 100_000 {
		t.Errorf("header of %d bytes came back", len(o.Header.Get("X-Large")))
	}
}
