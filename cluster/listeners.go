package cluster

import (
	"net"
	"sync"
)

// mergeListeners accepts what comes to any of several listeners. Its address is that of the first.
func mergeListeners(first net.Listener, more ...net.Listener) net.Listener {
	if len(more) == 0 {
		return first
	}
	m := &merged{Listener: first, all: append([]net.Listener{first}, more...), accepted: make(chan accepted), closed: make(chan struct{})}
	for _, l := range m.all {
		m.accepting.Go(func() { m.accept(l) })
	}
	return m
}

// merged has a goroutine for each listener, until Close, which waits for them.
type merged struct {
	net.Listener
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}

	closing   sync.Once
	closeErr  error
	accepting sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

func (m *merged) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		select {
		case m.accepted <- accepted{conn, err}:
		case <-m.closed:
			if conn != nil {
				conn.Close()
			}
			return
		}
	}
}

func (m *merged) Accept() (net.Conn, error) {
	select {
	case a := <-m.accepted:
		return a.conn, a.err
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *merged) Close() error {
	m.closing.Do(func() {
		close(m.closed)
		for _, l := range m.all {
			if err := l.Close(); err != nil && m.closeErr == nil {
				m.closeErr = err
			}
		}
		m.accepting.Wait()
	})
	return m.closeErr
}
