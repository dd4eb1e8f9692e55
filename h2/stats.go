package h2

import "sync/atomic"

// counters are kept by a Server while it runs.
type counters struct {
	connections atomic.Int64
	streams     atomic.Int64
	detached    atomic.Int64
	handlers    atomic.Int64
	held        atomic.Int64

	requests    atomic.Uint64
	shortWrites atomic.Uint64
	socketFull  atomic.Uint64
	stalled     atomic.Uint64
	stuck       atomic.Uint64
	refused     atomic.Uint64
	resets      atomic.Uint64
	pingsLost   atomic.Uint64
	timeouts    atomic.Uint64
	floods      atomic.Uint64
	protocol    atomic.Uint64
	bodies      atomic.Uint64
	goAways     atomic.Uint64
}

// Stats are what a Server has seen: first what is now, then what has been since it began.
type Stats struct {
	Connections int64 // open connections
	Streams     int64 // open streams, detached ones too
	Detached    int64 // detached streams
	Chunked     int64 // detached responses of HTTP/1.1
	Handlers    int64 // handlers that have not returned
	Held        int64 // bytes that connections hold for which nobody has vouched, about

	Requests     uint64 // requests given to the handler
	ShortWrites  uint64 // TryWrites that took less than was offered
	SocketFull   uint64 // times a socket's send buffer was full and a goroutine had to drain it
	Stalled      uint64 // streams of handlers ended because the client opened no window
	Stuck        uint64 // connections ended because the socket took nothing for WriteTimeout
	Refused      uint64 // streams refused: too many at once
	Resets       uint64 // streams reset by clients within two seconds
	PingsLost    uint64 // connections ended because a PING was not answered
	Timeouts     uint64 // connections ended because a frame did not come to its end
	Floods       uint64 // connections ended with ENHANCE_YOUR_CALM
	ProtocolErrs uint64 // connections ended for any other error of the client
	BodyTimeouts uint64 // requests of which the body did not come to its end within ReadTimeout
	GoAways      uint64 // GOAWAY frames sent
}

// Stats returns the numbers of this moment.
func (s *Server) Stats() Stats {
	c := &s.counters
	s.mu.Lock()
	chunked := len(s.chunked)
	s.mu.Unlock()
	return Stats{
		Chunked:      int64(chunked),
		Connections:  c.connections.Load(),
		Streams:      c.streams.Load(),
		Detached:     c.detached.Load(),
		Handlers:     c.handlers.Load(),
		Held:         c.held.Load(),
		Requests:     c.requests.Load(),
		ShortWrites:  c.shortWrites.Load(),
		SocketFull:   c.socketFull.Load(),
		Stalled:      c.stalled.Load(),
		Stuck:        c.stuck.Load(),
		Refused:      c.refused.Load(),
		Resets:       c.resets.Load(),
		PingsLost:    c.pingsLost.Load(),
		Timeouts:     c.timeouts.Load(),
		Floods:       c.floods.Load(),
		ProtocolErrs: c.protocol.Load(),
		BodyTimeouts: c.bodies.Load(),
		GoAways:      c.goAways.Load(),
	}
}
