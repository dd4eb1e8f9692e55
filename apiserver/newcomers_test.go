package apiserver

import (
	"net"
	"testing"
	"time"
)

// closable is a connection that says when it is closed.
type closable struct {
	net.Conn
	closed chan struct{}
}

func (c *closable) Close() error { close(c.closed); return nil }

func TestNewcomers(t *testing.T) {
	n := &newcomers{soft: 2, hard: 4, patience: time.Second}
	now := time.Now()
	var all []*closable
	add := func() *closable {
		c := &closable{closed: make(chan struct{})}
		all = append(all, c)
		n.add(c, now)
		return c
	}
	isOpen := func(c *closable) bool {
		select {
		case <-c.closed:
			return false
		default:
			return true
		}
	}
	first, second := add(), add()
	third, fourth := add(), add() // all are young
	if n.Len() != 4 || !isOpen(first) {
		t.Fatalf("%d are there; the first is open: %t", n.Len(), isOpen(first))
	}
	fifth := add()
	<-first.closed
	if n.Len() != 4 || !isOpen(second) {
		t.Errorf("beyond the hard limit: %d are there", n.Len())
	}
	now = now.Add(time.Second) // all but the next are old
	sixth := add()
	for _, c := range []*closable{second, third, fourth} {
		<-c.closed
	}
	if n.Len() != 2 || !isOpen(fifth) || !isOpen(sixth) {
		t.Errorf("beyond the soft limit: %d are there", n.Len())
	}
	seventh := n.add(&closable{closed: make(chan struct{})}, now)
	n.remove(seventh)
	n.remove(seventh)
	n.remove(nil)
	if n.Len() != 1 {
		t.Errorf("%d are there, want the sixth", n.Len())
	}
}
