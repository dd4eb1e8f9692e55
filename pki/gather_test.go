package pki

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowConn is a connection whose system takes one Write for each token.
type slowConn struct {
	net.Conn // nil: what else is called panics
	tokens   chan struct{}
	fail     error

	mu       sync.Mutex
	deadline time.Time
	writes   []string
	closed   bool
}

func (c *slowConn) Write(b []byte) (int, error) {
	for taken := false; !taken; {
		select {
		case <-c.tokens:
			taken = true
		case <-time.After(time.Millisecond): // of a bubble's clock
			if c.late() {
				return 0, os.ErrDeadlineExceeded
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return 0, c.fail
	}
	c.writes = append(c.writes, string(b))
	return len(b), nil
}

func (c *slowConn) late() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

func (c *slowConn) SetReadDeadline(time.Time) error { return nil }

func (c *slowConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *slowConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

// TestGather: what is written while the system is busy goes to it at once, in order, whatever Close or a deadline comes after.
func TestGather(t *testing.T) {
	write := func(t *testing.T, c net.Conn, texts ...string) {
		t.Helper()
		for _, text := range texts {
			b := []byte(text)
			if n, err := c.Write(b); n != len(b) || err != nil {
				t.Fatalf("Write(%.20q): %d, %v", text, n, err)
			}
			clear(b) // it is the caller's again
			synctest.Wait()
		}
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c net.Conn, below *slowConn)
		want []string
	}{
		{"together", func(t *testing.T, c net.Conn, below *slowConn) {
			write(t, c, "a", "b", "c", "", "d")
			close(below.tokens)
		}, []string{"a", "bcd"}},
		{"closed", func(t *testing.T, c net.Conn, below *slowConn) {
			write(t, c, "a", "b")
			go close(below.tokens)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if _, err := c.Write([]byte("c")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write after Close: %v", err)
			}
		}, []string{"a", "b"}},
		{"closed in vain", func(t *testing.T, c net.Conn, below *slowConn) {
			write(t, c, "a", "b")
			began := time.Now()
			if err := c.Close(); err != nil || time.Since(began) > 2*closePatience {
				t.Errorf("Close: %v after %v", err, time.Since(began))
			}
			close(below.tokens)
		}, nil},
		{"past deadline", func(t *testing.T, c net.Conn, below *slowConn) {
			write(t, c, "a", "b")
			go close(below.tokens)
			if err := c.SetDeadline(time.Now()); err != nil {
				t.Error(err)
			}
		}, []string{"a", "b"}},
		{"deadline", func(t *testing.T, c net.Conn, below *slowConn) {
			if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			write(t, c, "a")
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
			if _, err := c.Write([]byte("b")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write after the deadline: %v", err)
			}
			close(below.tokens)
		}, nil},
		{"error", func(t *testing.T, c net.Conn, below *slowConn) {
			write(t, c, "a")
			below.fail = errors.New("broken")
			write(t, c, "b")
			close(below.tokens)
			synctest.Wait()
			if _, err := c.Write([]byte("c")); err != below.fail {
				t.Errorf("Write: %v", err)
			}
		}, nil},
		{"full", func(t *testing.T, c net.Conn, below *slowConn) {
			write(t, c, "a", strings.Repeat("b", gatherLimit))
			full := make(chan struct{})
			go func() {
				defer close(full)
				_, _ = c.Write([]byte("c"))
			}()
			synctest.Wait()
			select {
			case <-full:
				t.Error("Write does not wait for room")
			default:
			}
			close(below.tokens)
			<-full
		}, []string{"a", strings.Repeat("b", gatherLimit), "c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := &slowConn{tokens: make(chan struct{})}
				c := gather(below)
				test.run(t, c, below)
				synctest.Wait()
				if got := strings.Join(below.writes, "|"); got != strings.Join(test.want, "|") {
					t.Errorf("written: %.99q, want %.99q", got, strings.Join(test.want, "|"))
				}
				_ = c.Close()
				if !below.closed {
					t.Error("not closed")
				}
			})
		})
	}
}

// TestGather_TLS sends large and small requests side by side through a real server, and what is closed arrives whole.
func TestGather_TLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	transport := client.Transport.(*http.Transport)
	transport.DialContext = gatherDialer(&net.Dialer{})
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			body := bytes.Repeat([]byte{byte(i)}, i*i*64)
			resp, err := client.Post(server.URL, "text/plain", bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); resp.ProtoMajor != 2 || err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s: %d bytes of %d came back: %v", resp.Proto, len(got), len(body), err)
			}
		})
	}
	all.Wait()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := gatherDialer(&net.Dialer{})(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		config := transport.TLSClientConfig.Clone()
		config.ServerName = "example.com"
		tc := tls.Client(conn, config)
		if _, err := tc.Write(make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		if err := tc.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := io.Copy(io.Discard, tls.Server(conn, server.TLS)); n != 1<<20 || err != nil {
		t.Errorf("before the end %d bytes of %d came: %v", n, 1<<20, err)
	}
}
