package h2

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"vigil/internal/warm"
)

// Server serves HTTP/2 connections. The zero value works: it serves the handler that comes with the connection, within
// the limits below. A Server must not be copied or changed once it has served a connection.
type Server struct {
	// Handler serves the requests; nil means the one given with each connection.
	Handler http.Handler

	// MaxConcurrentStreams is how many streams a client may have open on one connection. 0 means 1000.
	MaxConcurrentStreams uint32
	// MaxHeaderBytes is how large a request's header list may be, counted as RFC 9113, section 6.5.2, says. A larger one is
	// answered with 431; one of more than twice the size ends the connection. 0 means 1 MiB.
	MaxHeaderBytes int
	// UploadPerConn and UploadPerStream are the flow-control windows for request bodies, in bytes: what a client may have sent
	// that no handler has read. 0 means 1 MiB and 256 KiB. The least for a connection is 65,535.
	UploadPerConn, UploadPerStream int32

	// HeadersPerConn is how large the header lists of all requests of a connection may be together, counted as for MaxHeaderBytes, while these
	// are open. A request that would make it more is refused (REFUSED_STREAM), unless it is alone. 0 means 8 times MaxHeaderBytes.
	HeadersPerConn int
	// MaxStrangers is how many bytes all connections together may hold for which nobody has vouched (see Vouch). While it is more, the
	// one that holds most is closed. 0 means 128 MiB.
	MaxStrangers int

	// MaxPending is how many bytes may wait for a connection's socket to take them before its streams take no more. 0 means 64 KiB.
	MaxPending int

	// HandshakeTimeout is how long a client may take for its preface and first SETTINGS. 0 means 10 s.
	HandshakeTimeout time.Duration
	// FrameTimeout is how long a frame, or a header block with all its CONTINUATION frames, may take to arrive once begun.
	// 0 means 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long the socket of a connection may take nothing of what is pending before the connection is closed,
	// and how long a handler's Write waits for a window that does not open before its stream is reset. Detached streams wait as
	// long as they like. Over HTTP/1.1 it is how long a client may take for 16 KiB before the connection is closed.
	// 0 means 60 s, less than 0 for ever.
	WriteTimeout time.Duration
	// ReadTimeout is how long a request's body may take to arrive in whole: after that Read fails with
	// os.ErrDeadlineExceeded. A handler that sets a read deadline, a zero one too, decides for itself. 0 means for ever.
	ReadTimeout time.Duration
	// IdleTimeout is how long a connection may be without a stream. 0 means 90 s, less than 0 for ever.
	IdleTimeout time.Duration
	// PingInterval is how long a client may be silent before it is sent a PING, PingTimeout how long it may take to answer with
	// anything at all. 0 means 1 min and 3 min; a PingInterval less than 0 sends none. TCP finds hosts that are gone; this finds
	// processes that hang, and should not take a kubectl for one that was stopped with Ctrl-Z.
	PingInterval, PingTimeout time.Duration

	// ResetBurst and ResetRate bound the streams a client may reset within two seconds, or open in vain, and each 64 KiB of large header
	// lists: so many at once, and so many each second. 0 means 1000 (or MaxConcurrentStreams if that is more) and 100. A client beyond them is
	// closed with ENHANCE_YOUR_CALM (CVE-2023-44487).
	ResetBurst, ResetRate int
	// ControlBurst and ControlRate bound frames that carry nothing: PING, SETTINGS, PRIORITY, empty DATA, unknown types.
	// 0 means 10,000 and 1000.
	ControlBurst, ControlRate int

	// Logger hears about connections that were closed for a reason, at level Debug, and about handlers and connections that panic, at level
	// Error; nil means nobody does. Panics are counted in package panics besides.
	Logger *slog.Logger

	counters counters
	once     sync.Once
	resolved limits        // by once
	tick     time.Duration // between two sweeps; 0 means a second

	relieving sync.Mutex // held while connections are closed for MaxStrangers; before mu and conn.mu

	mu       sync.Mutex
	conns    map[*conn]struct{}
	chunked  map[*Chunked]struct{}
	idle     chan struct{} // ends the sweep goroutine; nil when none runs
	workers  *warm.Pool    // runs the handlers; nil while there is no connection
	shutdown bool
	changed  chan struct{} // closed and replaced when a connection or handler ends while somebody waits in Shutdown; nil else
}

// limits are a Server's settings with the defaults filled in.
type limits struct {
	streams        uint32
	headerBytes    uint32
	connWindow     int32
	streamWindow   int32
	headersPerConn int
	strangers      int
	pending        int
	handshake      time.Duration
	frame          time.Duration
	write          time.Duration // 0: for ever
	read           time.Duration // 0: for ever
	idle           time.Duration // 0: for ever
	pingInterval   time.Duration // 0: never
	pingTimeout    time.Duration
	resets, resetn int // burst, each second
	controls, ctln int
	tick           time.Duration
}

func (s *Server) resolve() *limits {
	s.once.Do(func() { s.resolved = s.limits() })
	return &s.resolved
}

func (s *Server) limits() limits {
	l := limits{
		streams:      or(s.MaxConcurrentStreams, 1000),
		headerBytes:  uint32(min(max(or(s.MaxHeaderBytes, http.DefaultMaxHeaderBytes), 1), 1<<30)),
		connWindow:   max(or(s.UploadPerConn, 1<<20), initialWindow),
		streamWindow: max(or(s.UploadPerStream, 256<<10), 1),
		strangers:    or(s.MaxStrangers, 128<<20),
		pending:      or(s.MaxPending, 64<<10),
		handshake:    or(s.HandshakeTimeout, 10*time.Second),
		frame:        or(s.FrameTimeout, 30*time.Second),
		write:        max(or(s.WriteTimeout, time.Minute), 0),
		read:         max(s.ReadTimeout, 0),
		idle:         max(or(s.IdleTimeout, 90*time.Second), 0),
		pingInterval: max(or(s.PingInterval, time.Minute), 0),
		pingTimeout:  or(s.PingTimeout, 3*time.Minute),
		resets:       s.ResetBurst,
		resetn:       or(s.ResetRate, 100),
		controls:     or(s.ControlBurst, 10_000),
		ctln:         or(s.ControlRate, 1000),
		tick:         or(s.tick, time.Second),
	}
	l.headersPerConn = or(s.HeadersPerConn, 8*int(l.headerBytes))
	if l.resets == 0 {
		l.resets = max(1000, int(l.streams))
	}
	return l
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Configure makes hs serve HTTP/2 with s: it sets TLSNextProto["h2"], offers "h2" to TLS clients, has TLS records written
// full from the first, puts connections into the contexts of their requests (see DetachChunked), and passes on hs.Shutdown.
// hs's IdleTimeout, MaxHeaderBytes and Handler count where s has none. hs should serve a listener made by
// NewListener. Call it before hs serves, when its ConnContext and ConnState are set.
func (s *Server) Configure(hs *http.Server) {
	s.Handler = or(s.Handler, hs.Handler)
	s.IdleTimeout = or(s.IdleTimeout, hs.IdleTimeout)
	s.MaxHeaderBytes = or(s.MaxHeaderBytes, hs.MaxHeaderBytes)
	if hs.TLSConfig == nil {
		hs.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	hs.TLSConfig.DynamicRecordSizingDisabled = true
	for _, proto := range []string{"h2", "http/1.1"} {
		if !slices.Contains(hs.TLSConfig.NextProtos, proto) {
			hs.TLSConfig.NextProtos = append(hs.TLSConfig.NextProtos, proto)
		}
	}
	if hs.TLSNextProto == nil {
		hs.TLSNextProto = make(map[string]func(*http.Server, *tls.Conn, http.Handler))
	}
	hs.TLSNextProto["h2"] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		ctx := context.Background()
		// net/http hands the connection's context over in this way and in no other.
		if b, ok := h.(interface{ BaseContext() context.Context }); ok {
			ctx = b.BaseContext()
		}
		_ = s.ServeConn(ctx, c, ConnOptions{Handler: h, ConnState: hs.ConnState}) // already logged and counted
	}
	s.remember(hs)
	hs.RegisterOnShutdown(s.startShutdown)
}

// ConnOptions say more about one connection.
type ConnOptions struct {
	// Handler serves the requests if the Server has no Handler.
	Handler http.Handler
	// ConnState is told when the connection gets its first stream (StateActive) and loses its last (StateIdle). It is called
	// with no lock held, and must not block.
	ConnState func(net.Conn, http.ConnState)
}

// ServeConn serves one connection and returns when it has ended, nil if in good order. The handshake must be over or is done now.
// Requests get contexts with ctx's values; when ctx ends, so does the connection. Handlers may still be
// running when it returns, their streams have ended.
func (s *Server) ServeConn(ctx context.Context, tc *tls.Conn, opts ConnOptions) error {
	c, err := s.adopt(ctx, tc, opts)
	if err != nil {
		return err
	}
	return c.serve()
}

// adopt makes a conn of a connection. It is not part of ServeConn because that stays on the stack of the reading goroutine, and there
// are as many of these as connections: see conn.read.
//
//go:noinline
func (s *Server) adopt(ctx context.Context, tc *tls.Conn, opts ConnOptions) (*conn, error) {
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := tc.ConnectionState()
	c := s.newConn(ctx, tc, &state, opts)
	if sock, ok := tc.NetConn().(*socket); ok && sock.startAsync(c.limits.write, &s.counters.socketFull, c.drained) {
		c.sock = sock
	}
	return c, nil
}

// register adds a connection to the sweep.
func (s *Server) register(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown {
		return ErrServerClosed
	}
	if s.conns == nil {
		s.conns = make(map[*conn]struct{})
	}
	s.conns[c] = struct{}{}
	if s.idle == nil {
		s.idle = make(chan struct{})
		go s.sweep(c.limits.tick, s.idle)
		s.workers = &warm.Pool{}
	}
	c.workers = s.workers
	s.counters.connections.Add(1)
	return nil
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 {
		close(s.idle)
		s.idle = nil
		s.workers.Close()
		s.workers = nil
	}
	s.counters.connections.Add(-1)
	s.notifyLocked()
}

// notifyLocked wakes those who wait in Shutdown.
func (s *Server) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *Server) notify() {
	s.mu.Lock()
	s.notifyLocked()
	s.mu.Unlock()
}

// snapshot appends the connections of this moment to list.
func (s *Server) snapshot(list []*conn) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = slices.Grow(list, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// startShutdown sends GOAWAY on every connection and takes no new ones.
func (s *Server) startShutdown() {
	s.mu.Lock()
	s.shutdown = true
	s.mu.Unlock()
	for _, c := range s.snapshot(nil) {
		c.shutdown()
	}
}

// Shutdown ends all connections gracefully: clients are told to open no more streams (GOAWAY), the streams they have may
// end by themselves, and a connection without streams is closed. It returns when all connections and handlers have ended.
// When ctx ends first, what is left is cut off and ctx's error returned. Whoever holds detached responses must close them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.startShutdown()
	for {
		s.mu.Lock()
		if len(s.conns) == 0 && len(s.chunked) == 0 && s.counters.handlers.Load() == 0 {
			s.mu.Unlock()
			return nil
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			s.Close()
			return ctx.Err()
		}
	}
}

// Close cuts all connections off. It does not wait for their handlers.
func (s *Server) Close() {
	s.mu.Lock()
	s.shutdown = true
	chunked := slices.Collect(maps.Keys(s.chunked))
	s.mu.Unlock()
	for _, c := range s.snapshot(nil) {
		c.abort()
	}
	for _, c := range chunked {
		c.end(errClientGone, true)
	}
}
