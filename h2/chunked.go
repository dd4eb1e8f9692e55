package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
)

// Chunked is to HTTP/1.1 what Stream is to HTTP/2: the open response of a handler that has returned, which goes on in the
// chunked coding. Its connection serves nothing else and is closed at its end. The same is promised of its methods.
//
// A goroutine reads its connection, to notice that the client has gone: HTTP/1.1 knows no other way to end a response.
type Chunked struct {
	srv   *Server
	limit int // Server.MaxPending
	tls   *tls.Conn
	sock  *socket
	state func(net.Conn, http.ConnState) // the http.Server's ConnState, which hears of the end; may be nil

	mu                  sync.Mutex // as conn.mu: may be held while taking socket.mu
	err                 error      // why it is over
	onWritable, onClose func()
}

// accepted is what the context of an HTTP/1.1 request knows of its connection.
type accepted struct {
	srv   *Server
	conn  net.Conn
	state func(net.Conn, http.ConnState)
}

type acceptedKey struct{}

// remember puts every connection of hs into its requests' contexts, and bounds how long it waits for its client. hs.ConnState does not
// hear that a connection is hijacked which becomes a Chunked, but that it is closed, when it is.
func (s *Server) remember(hs *http.Server) {
	inner, state := hs.ConnContext, hs.ConnState
	hs.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if inner != nil {
			ctx = inner(ctx, c)
		}
		return context.WithValue(ctx, acceptedKey{}, &accepted{s, c, state})
	}
	hs.ConnState = func(c net.Conn, to http.ConnState) {
		sock := socketOf(c)
		if sock != nil {
			switch to {
			case http.StateNew, http.StateActive, http.StateIdle: // whoever was Patient has answered
				sock.patience.Store(int64(s.resolve().write))
			case http.StateHijacked: // it is the new owner's to bound
				sock.patience.Store(0)
			}
		}
		if state != nil && (to != http.StateHijacked || sock == nil || !sock.taken.Load()) {
			state(c, to)
		}
	}
}

// socketOf returns what a connection of a NewListener's has below TLS, nil for others.
func socketOf(c net.Conn) *socket {
	if tc, ok := c.(*tls.Conn); ok {
		sock, _ := tc.NetConn().(*socket)
		return sock
	}
	return nil
}

// chunkable returns the connection of a request that DetachChunked can take over.
func chunkable(r *http.Request) (*accepted, *tls.Conn, *socket) {
	a, ok := r.Context().Value(acceptedKey{}).(*accepted)
	if !ok || r.ProtoMajor != 1 || r.ProtoMinor != 1 || !canTryWrite {
		return nil, nil, nil
	}
	tc, ok := a.conn.(*tls.Conn)
	if !ok {
		return nil, nil, nil
	}
	sock := socketOf(tc)
	if sock == nil {
		return nil, nil, nil
	}
	return a, tc, sock
}

// Chunkable says whether the response to r can become a Chunked: it is HTTP/1.1, over TLS, on a listener made by
// NewListener, of an http.Server that a Server has configured.
func Chunkable(r *http.Request) bool {
	a, _, _ := chunkable(r)
	return a != nil
}

// DetachChunked answers r with 200 and w's header, and gives the rest of the response away: the handler, which has written nothing so
// far and read the body if there is one, should return. What the client sends from now on is dropped. An error means that
// the connection is gone, or was not Chunkable.
func DetachChunked(w http.ResponseWriter, r *http.Request) (*Chunked, error) {
	a, tc, sock := chunkable(r)
	if a == nil {
		return nil, http.ErrNotSupported
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", http.StatusOK, http.StatusText(http.StatusOK))
	if w.Header().Get("Date") == "" {
		fmt.Fprintf(&head, "Date: %s\r\n", date())
	}
	_ = w.Header().Write(&head) // a bytes.Buffer does not fail
	head.WriteString("Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
	sock.taken.Store(true)
	if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
		sock.taken.Store(false)
		return nil, fmt.Errorf("take the connection over: %w", err)
	}
	l := a.srv.resolve()
	c := &Chunked{srv: a.srv, limit: l.pending, tls: tc, sock: sock, state: a.state}
	sock.startAsync(l.write, &a.srv.counters.socketFull, c.drained)
	if !a.srv.addChunked(c) {
		c.end(ErrServerClosed, true)
		return nil, ErrServerClosed
	}
	if _, err := tc.Write(head.Bytes()); err != nil {
		c.end(errClientGone, true)
		return nil, err
	}
	go c.read()
	return c, nil
}

// maxUnasked is how much a client may send that nobody has asked for.
const maxUnasked = 64 << 10

// read drops what the client sends and notices its end.
func (c *Chunked) read() {
	var buf [256]byte
	for left := maxUnasked; left > 0; {
		n, err := c.tls.Read(buf[:])
		if err != nil {
			break
		}
		left -= n
	}
	c.end(errClientGone, true)
}

// TryWrite sends as much of bufs, one after the other, as the socket's budget allows, and returns how many bytes that was.
// It never waits. With less than all and no error, OnWritable says when to go on. The bytes are not kept. An error means that the
// response has ended.
func (c *Chunked) TryWrite(bufs ...[]byte) (n int, err error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	c.mu.Lock()
	for left := (gather{bufs: bufs}); n < total && c.err == nil; {
		if c.sock.size.Load() > int64(c.limit) {
			c.srv.counters.shortWrites.Add(1)
			break
		}
		m := min(total-n, chunkLen-chunkOverhead)
		if err = c.chunk(&left, m); err != nil {
			break
		}
		n += m
	}
	if err == nil {
		err = c.err
	}
	c.mu.Unlock()
	if err != nil {
		c.end(err, true)
	}
	return n, err
}

// chunkOverhead is the length of a chunk in at most eight digits, and two ends of line.
const chunkOverhead = 12

// chunk writes the next n bytes of g.
func (c *Chunked) chunk(g *gather, n int) error {
	b := getBuffer(n + chunkOverhead)
	defer func() { putBuffer(b) }()
	b = append(strconv.AppendUint(b, uint64(n), 16), "\r\n"...)
	b = append(g.take(b, n), "\r\n"...)
	cork := len(b) > maxRecord
	if cork {
		c.sock.cork()
	}
	_, err := c.tls.Write(b)
	if cork {
		err = errors.Join(err, c.sock.uncork())
	}
	return err
}

// TryBuffer is TryWrite: there is only one response on its connection.
func (c *Chunked) TryBuffer(bufs ...[]byte) (n int, err error) { return c.TryWrite(bufs...) }

// Flush does nothing.
func (c *Chunked) Flush() {}

// Conn returns c itself.
func (c *Chunked) Conn() any { return c }

// drained is called by the socket when less is pending.
func (c *Chunked) drained() {
	if err := c.sock.failure(); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.srv.counters.stuck.Add(1)
		}
		c.end(errClientGone, true)
		return
	}
	var call func()
	c.mu.Lock()
	if c.sock.size.Load() <= int64(c.limit) {
		call, c.onWritable = c.onWritable, nil
	}
	c.mu.Unlock()
	if call != nil {
		call()
	}
}

// OnWritable has call called once when something can be written, or the response has ended; at once, by this goroutine, if that
// is so now. It replaces a call that is still due; nil takes it back.
func (c *Chunked) OnWritable(call func()) {
	c.mu.Lock()
	if call != nil && c.err == nil && c.sock.size.Load() > int64(c.limit) {
		c.onWritable = call
		c.mu.Unlock()
		if c.sock.size.Load() <= int64(c.limit) {
			c.drained() // it was about to look when there was nothing to call
		}
		return
	}
	c.onWritable = nil
	c.mu.Unlock()
	if call != nil {
		call()
	}
}

// OnClose has call called once when the response ends otherwise than by Close or Reset; at once, by this goroutine, if it has. It
// replaces a call that is still due; nil takes it back.
func (c *Chunked) OnClose(call func()) {
	c.mu.Lock()
	if c.err == nil {
		c.onClose = call
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if call != nil {
		call()
	}
}

// Close ends the response in good order. What TryWrite has taken is still sent.
func (c *Chunked) Close() {
	c.mu.Lock()
	if c.err == nil {
		_, _ = c.tls.Write([]byte("0\r\n\r\n")) // whether it arrives nobody would learn
	}
	c.onClose, c.onWritable = nil, nil
	c.mu.Unlock()
	c.end(errFinished, false)
}

// Reset ends the response so that the client knows it is not complete.
func (c *Chunked) Reset(http2.ErrCode) {
	c.mu.Lock()
	c.onClose, c.onWritable = nil, nil
	c.mu.Unlock()
	c.end(errFinished, true)
}

// end closes the connection, once: when what is pending has been sent, or with cut at once.
func (c *Chunked) end(err error, cut bool) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := []func(){c.onClose, c.onWritable}
	c.onClose, c.onWritable = nil, nil
	c.mu.Unlock()
	c.srv.removeChunked(c)
	if cut {
		_ = c.sock.Conn.Close()
	} else {
		_ = c.tls.Close() // it does not block: see socket.SetWriteDeadline
	}
	if c.state != nil {
		c.state(c.tls, http.StateClosed)
	}
	for _, call := range calls {
		if call != nil {
			call()
		}
	}
}

// addChunked reports false when the server takes nothing more.
func (s *Server) addChunked(c *Chunked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return false
	}
	if s.chunked == nil {
		s.chunked = make(map[*Chunked]struct{})
	}
	s.chunked[c] = struct{}{}
	return true
}

func (s *Server) removeChunked(c *Chunked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.chunked, c)
	s.notifyLocked()
}
