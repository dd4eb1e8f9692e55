package apiserver

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// newcomers are the connections that have sent no request yet: those whose TLS handshake is under way, before all. Each holds up to 80 KiB of what came of it, for as
// long as handshakes may take (32 s), and nobody knows whose it is. So there are soft of them, and those that are younger than patience, but never more than hard:
// the oldest is closed. A client that does as it should has sent its request within milliseconds.
type newcomers struct {
	soft, hard int
	patience   time.Duration

	mu   sync.Mutex
	wait list.List // of newcomer, the oldest first
}

type newcomer struct {
	conn  net.Conn
	since time.Time
}

func newNewcomers() *newcomers {
	return &newcomers{soft: 1 << 10, hard: 8 << 10, patience: 3 * time.Second}
}

// add takes note of a new connection. The result is for remove.
func (n *newcomers) add(conn net.Conn, now time.Time) *list.Element {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.wait.Len() >= n.soft {
		oldest := n.wait.Front()
		who := oldest.Value.(newcomer)
		if n.wait.Len() < n.hard && now.Sub(who.since) < n.patience {
			break
		}
		n.wait.Remove(oldest)
		go who.conn.Close() // TLS may want to say that it does
	}
	return n.wait.PushBack(newcomer{conn, now})
}

// remove says that a connection has sent a request, or has ended. It may be called again.
func (n *newcomers) remove(e *list.Element) {
	if e == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wait.Remove(e) // nothing when it is no longer there
}

// Len is how many there are.
func (n *newcomers) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wait.Len()
}
