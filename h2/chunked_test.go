package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// startChunked returns a server whose handler gives its HTTP/1.1 responses away.
func startChunked(t *testing.T, s *Server, change ...func(*http.Server)) (*instance, <-chan *Chunked) {
	given := make(chan *Chunked, 1)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !Chunkable(r) {
			http.Error(w, "not chunkable", http.StatusNotImplemented)
			return
		}
		c, err := DetachChunked(wrapped{w}, r)
		if err != nil {
			panic(err)
		}
		given <- c
	})
	return start(t, s, change...), given
}

func client1(t *testing.T) *http.Client {
	tr := &http.Transport{TLSClientConfig: clientTLS("http/1.1")}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 5 * time.Minute}
}

// TestChunked: a response outlives its handler, takes writes of all sizes from elsewhere, and ends when told to.
func TestChunked(t *testing.T) {
	s, given := startChunked(t, &Server{})
	resp, err := client1(t).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Proto != "HTTP/1.1" || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Date") == "" || !resp.Close {
		t.Errorf("%s %s %v", resp.Proto, resp.Status, resp.Header)
	}
	c := <-given
	if n := s.Stats().Chunked; n != 1 {
		t.Errorf("%d are counted", n)
	}
	for _, size := range []int{1, 15, 16, 4 << 10, 16 << 10, chunkLen - chunkOverhead, chunkLen, 1 << 20} {
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		go func() {
			for left := want; len(left) > 0; {
				writable := make(chan struct{})
				c.OnWritable(func() { close(writable) })
				<-writable
				half := len(left) / 2
				n, err := c.TryWrite(left[:half], left[half:])
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				left = left[n:]
			}
		}()
		got := make([]byte, size)
		if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	c.OnClose(func() { t.Error("OnClose called after Close") })
	c.Close()
	if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
		t.Errorf("at the end: %q, %v", b, err)
	}
	if _, err := c.TryWrite([]byte("x")); err == nil {
		t.Error("written after Close")
	}
	if n := s.Stats().Chunked; n != 0 {
		t.Errorf("%d are counted", n)
	}
}

// TestChunked_Reset: the client sees that the response is not complete.
func TestChunked_Reset(t *testing.T) {
	s, given := startChunked(t, &Server{})
	resp, err := client1(t).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	(<-given).Reset(http2.ErrCodeCancel)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the response looks complete")
	}
}

// TestChunked_ClientGone: whoever writes hears that the client has closed, or says too much.
func TestChunked_ClientGone(t *testing.T) {
	for name, leave := range map[string]func(*tls.Conn){
		"closes":         func(c *tls.Conn) { c.Close() },
		"closes its end": func(c *tls.Conn) { _ = c.CloseWrite() },
		"chatters":       func(c *tls.Conn) { _, _ = io.Copy(c, strings.NewReader(strings.Repeat("x", 2*maxUnasked))) },
	} {
		t.Run(name, func(t *testing.T) {
			s, given := startChunked(t, &Server{})
			c, err := tls.Dial("tcp", s.addr, clientTLS("http/1.1"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			out, closed := <-given, make(chan struct{})
			out.OnClose(func() { close(closed) })
			leave(c)
			<-closed
			if _, err := out.TryWrite([]byte("x")); err == nil {
				t.Error("written to nobody")
			}
			late := make(chan struct{})
			out.OnClose(func() { close(late) })
			<-late
		})
	}
}

// TestChunked_Stalled: a client that does not read takes a bounded amount, holds nobody up, and is waited for.
func TestChunked_Stalled(t *testing.T) {
	s, given := startChunked(t, &Server{})
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, clientTLS("http/1.1"))
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	out := <-given
	block, sent := make([]byte, 100<<10), 0
	for {
		n, err := out.TryWrite(block)
		if err != nil {
			t.Fatal(err)
		}
		if sent += n; n < len(block) {
			break
		}
	}
	if pending := out.sock.size.Load(); pending > int64(out.limit)+2*chunkLen {
		t.Errorf("%d bytes are pending", pending)
	}
	writable := make(chan struct{})
	out.OnWritable(func() { close(writable) })
	select {
	case <-writable:
		t.Fatal("writable while nobody reads")
	default:
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	<-writable
	if n, err := out.TryWrite([]byte("x")); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if s.Stats().ShortWrites == 0 || s.Stats().SocketFull == 0 {
		t.Errorf("%+v", s.Stats())
	}
	out.Close()
}

// TestChunked_Shutdown waits for responses that have been given away, and cuts them off when time is up.
func TestChunked_Shutdown(t *testing.T) {
	s, given := startChunked(t, &Server{})
	resp, err := client1(t).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-given
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shut down: %v", err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the response looks complete")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestChunked_State: to those who follow connections, one that has been given away is open until its end.
func TestChunked_State(t *testing.T) {
	states := make(chan http.ConnState, 8)
	s, given := startChunked(t, &Server{}, func(hs *http.Server) {
		hs.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	})
	resp, err := client1(t).Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c := <-given
	for _, want := range []http.ConnState{http.StateNew, http.StateActive} {
		if got := <-states; got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	c.Close()
	if got := <-states; got != http.StateClosed {
		t.Errorf("%v at the end", got)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	if n := len(states); n != 0 {
		t.Errorf("%d states after the end", n)
	}
}

// TestChunkable: what cannot be given away says so.
func TestChunkable(t *testing.T) {
	s, _ := startChunked(t, &Server{})
	resp, err := client(t).Get(s.url) // over HTTP/2
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("HTTP/2: %s", resp.Status)
	}
	c, err := tls.Dial("tcp", s.addr, clientTLS("http/1.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || !bytes.Contains(b, []byte("501 Not Implemented")) {
		t.Errorf("HTTP/1.0: %q, %v", b, err)
	}
}
