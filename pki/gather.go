package pki

import (
	"context"
	"net"
	"sync"
	"time"
)

// gatherLimit is how many bytes wait in a gathered connection before Write blocks.
const gatherLimit = 64 << 10

// closePatience is how long Close waits for bytes that the system has not taken yet.
const closePatience = time.Second

// gathered is a connection of a client that writes what has come together. Write keeps the bytes and returns; a goroutine, which lives as
// long as there are bytes, hands them to the system. net/http sends the header and the body of a request in two writes: here they
// mostly leave in one system call, and arrive together, so that the server wakes once. Requests that several goroutines send at
// one time share a call too.
//
// The order of bytes is kept. An error of the system is returned by the next Write. A write deadline counts for what is written after it
// was set: one that has passed already waits for what was written before.
type gathered struct {
	net.Conn

	mu      sync.Mutex
	wake    sync.Cond // with mu: bytes were taken, or the connection has ended
	pending *[]byte   // of gatherBuffers; nil when nothing waits
	writing bool      // a goroutine writes
	closed  bool
	err     error // what the system said; nothing is written after it
}

var gatherBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

func gather(conn net.Conn) net.Conn {
	c := &gathered{Conn: conn}
	c.wake.L = &c.mu
	return c
}

// gatherDialer dials with d, and gathers.
func gatherDialer(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return gather(conn), nil
	}
}

// Write keeps b's bytes to be written. It blocks while gatherLimit bytes wait.
func (c *gathered) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.closed && c.pending != nil && len(*c.pending) >= gatherLimit {
		c.wake.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.err != nil:
		return 0, c.err
	case len(b) == 0:
		return 0, nil
	}
	if c.pending == nil {
		c.pending = gatherBuffers.Get().(*[]byte)
	}
	*c.pending = append(*c.pending, b...)
	if !c.writing {
		c.writing = true
		go c.write()
	}
	return len(b), nil
}

// write hands pending bytes to the system until there are none.
func (c *gathered) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending != nil {
		b := c.pending
		c.pending = nil
		if c.err == nil {
			c.mu.Unlock()
			_, err := c.Conn.Write(*b)
			c.mu.Lock()
			c.err = err
		}
		if cap(*b) <= gatherLimit {
			*b = (*b)[:0]
			gatherBuffers.Put(b)
		}
		c.wake.Broadcast()
	}
	c.writing = false
	c.wake.Broadcast()
}

// waitLocked returns when the system has taken all bytes, or will take none any more.
func (c *gathered) waitLocked() {
	for c.writing {
		c.wake.Wait()
	}
}

// Close closes the connection when what was written has left, or after closePatience.
func (c *gathered) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.writing {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(closePatience))
		c.waitLocked()
	}
	return c.Conn.Close()
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *gathered) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline sets the deadline of what is written from now on, and of what still waits. Only a deadline that has passed does not
// count for the latter: crypto/tls sets one after its last message, to end what comes later.
func (c *gathered) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		c.mu.Lock()
		c.waitLocked()
		c.mu.Unlock()
	}
	return c.Conn.SetWriteDeadline(t)
}
