package h2

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"vigil/internal/panics"
	"vigil/internal/warm"
)

const (
	frameHeaderLen = 9
	maxReadFrame   = 16 << 10 // the largest frame we take: SETTINGS_MAX_FRAME_SIZE is left at its least
	initialWindow  = 65_535
	maxWindow      = 1<<31 - 1
	headerTable    = 4096        // of the HPACK decoder, the default
	lingerTime     = time.Second // between the last GOAWAY and the close, so that the client can read it
)

// conn is one connection. Its reading goroutine runs serve.
type conn struct {
	srv     *Server
	limits  *limits
	nc      net.Conn // a *tls.Conn, but in tests
	sock    *socket  // below nc; nil if that can block
	ctx     context.Context
	handler http.Handler
	state   *tls.ConnectionState // nil without TLS
	remote  string
	onState func(net.Conn, http.ConnState)
	stop    func() bool // takes back that ctx's end ends the connection
	workers *warm.Pool  // srv's; set when it is registered

	// Only the reading goroutine uses these.
	framer *http2.Framer
	hdec   *hpack.Decoder
	block  headerBlock
	small  [4]byte

	// frames counts what the reader has read: up by one when a frame has begun, by one more when it has been dealt with. The
	// sweep looks whether it moves.
	frames atomic.Uint64

	vouched atomic.Bool  // nothing of the connection is counted as a stranger's; set with mu held
	counted atomic.Int64 // bytes that Server.counters.held has of this connection; written with mu held

	mu sync.Mutex

	streams  map[uint32]*stream
	lastID   uint32 // highest stream the client has opened
	handlers int    // running, those of streams that are gone included
	bodies   int    // streams in streams with a body
	over     recent // streams that ended not long ago

	headerBytes int // of the header lists of streams that are open or whose handler runs

	window     int32 // what the client lets us send, all streams together
	peerWindow int32 // SETTINGS_INITIAL_WINDOW_SIZE of the client
	peerFrame  int   // SETTINGS_MAX_FRAME_SIZE of the client
	recv       int32 // what we let the client send
	streamRecv int32 // and on a new stream: the default, until the client has acknowledged our SETTINGS
	consumed   int32 // read by handlers, not yet given back to recv

	buf         []byte // frames not yet written; pooled, nil when there are none
	tableUpdate bool   // the next header block must say that we use no dynamic table
	lines       lines
	pumping     bool // without sock: the writing goroutine runs
	inFlight    int  // without sock: bytes being written by it
	failed      error
	mute        bool // nothing more is written

	goAway   goAway
	calls    []func() // to be called when the lock has been let go: see unlock
	guard    guard
	watch    watch // the sweep's
	settings int   // SETTINGS sent and not acknowledged
	ended    bool  // no stream can be added
}

// goAway says how far the end of a connection has come.
type goAway int

const (
	goAwayNot     goAway = iota
	goAwayWarned         // GOAWAY with the highest possible stream is sent: the client should know before streams are refused
	goAwayDecided        // GOAWAY with the last stream that we serve is sent
	goAwayLast           // no streams are left, or an error: closed when the client has had time to read it
)

func (s *Server) newConn(ctx context.Context, nc net.Conn, state *tls.ConnectionState, opts ConnOptions) *conn {
	l := s.resolve()
	c := &conn{
		srv:         s,
		limits:      l,
		nc:          nc,
		handler:     s.Handler,
		state:       state,
		remote:      nc.RemoteAddr().String(),
		onState:     opts.ConnState,
		streams:     make(map[uint32]*stream),
		window:      initialWindow,
		peerWindow:  initialWindow,
		peerFrame:   maxReadFrame,
		recv:        l.connWindow,
		streamRecv:  initialWindow,
		tableUpdate: true,
		settings:    1,
		guard:       newGuard(l),
	}
	c.ctx = context.WithValue(ctx, http.LocalAddrContextKey, nc.LocalAddr())
	if c.handler == nil {
		c.handler = opts.Handler
	}
	if c.handler == nil {
		c.handler = http.DefaultServeMux
	}
	c.framer = http2.NewFramer(io.Discard, nc) // only reads
	c.framer.SetMaxReadFrameSize(maxReadFrame)
	c.hdec = hpack.NewDecoder(headerTable, c.emit)
	c.hdec.SetMaxStringLength(int(l.headerBytes))
	return c
}

// serve reads until the connection ends and says why; nil if nobody did wrong.
func (c *conn) serve() (err error) {
	if err = c.begin(); err != nil {
		return err
	}
	defer c.end(&err)
	return c.read()
}

// begin sends the server's preface, unless the connection must not be served.
func (c *conn) begin() error {
	if c.state != nil {
		if reason := inadequate(c.state); reason != "" {
			err := c.finish(&connError{http2.ErrCodeInadequateSecurity, reason})
			_ = c.nc.Close()
			return err
		}
	}
	if err := c.srv.register(c); err != nil {
		c.mu.Lock()
		c.appendGoAway(0, http2.ErrCodeNo, "")
		c.flushLocked()
		c.unlock()
		_ = c.nc.Close()
		return err
	}
	if c.ctx.Done() != nil {
		c.stop = context.AfterFunc(c.ctx, c.abort)
	}
	c.mu.Lock()
	c.appendSettings()
	c.flushLocked()
	c.unlock()
	return nil
}

// end is the end of serve, also when it panics.
func (c *conn) end(err *error) {
	if value := recover(); value != nil {
		panics.Recovered(c.srv.Logger, panics.Connection, value, "remote", c.remote)
		*err = &connError{http2.ErrCodeInternal, "the server panicked"}
	}
	*err = c.finish(*err)
	if c.stop != nil {
		c.stop()
	}
	_ = c.nc.Close()
	c.srv.unregister(c)
}

// read reads frames. What is on the stack while it waits counts: 3.2 KiB, most of them net/http's and TLS's, is what lets the
// garbage collector shrink the stack of a reading goroutine to 8 KiB. One more frame of the usual size makes it 16.
func (c *conn) read() error {
	fh, err := c.hello()
	for err == nil {
		c.frames.Add(1)
		err = c.frame(fh)
		c.frames.Add(1)
		if err != nil {
			if err = c.resetStream(err); err != nil {
				return err
			}
		}
		fh, err = c.framer.ReadFrameHeader()
	}
	return c.readError(err)
}

// hello reads the client's preface and its SETTINGS, and returns the header of the next frame.
func (c *conn) hello() (fh http2.FrameHeader, err error) {
	_ = c.nc.SetDeadline(time.Time{})
	_ = c.nc.SetReadDeadline(time.Now().Add(c.limits.handshake))
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.nc, preface); err != nil {
		return fh, err
	}
	if string(preface) != http2.ClientPreface {
		return fh, protocolError("preface")
	}
	if fh, err = c.framer.ReadFrameHeader(); err != nil {
		return fh, err
	}
	if fh.Type != http2.FrameSettings || fh.Flags.Has(http2.FlagSettingsAck) {
		return fh, protocolError("first frame is not SETTINGS")
	}
	c.frames.Add(1)
	err = c.frame(fh)
	c.frames.Add(1)
	if err != nil {
		return fh, err
	}
	c.mu.Lock()
	if c.goAway != goAwayLast { // else there is a deadline to keep
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	c.unlock()
	return c.framer.ReadFrameHeader()
}

// readError translates what the framer and the connection say.
func (c *conn) readError(err error) error {
	switch e := err.(type) {
	case http2.ConnectionError:
		return &connError{http2.ErrCode(e), "malformed frame"}
	case http2.StreamError:
		return &streamError{e.StreamID, e.Code, "malformed frame"}
	}
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return &connError{http2.ErrCodeFrameSize, "frame too large"}
	}
	return err
}

// frame deals with the frame of which the header has been read.
func (c *conn) frame(fh http2.FrameHeader) error {
	switch fh.Type {
	case http2.FrameData:
		return c.data(fh)
	case http2.FrameWindowUpdate: // so many that the framer's allocation counts
		return c.windowUpdate(fh)
	}
	f, err := c.framer.ReadFrameForHeader(fh)
	if err != nil {
		err = c.readError(err)
		if _, ok := err.(*streamError); ok && fh.Type == http2.FrameHeaders {
			return protocolError("malformed HEADERS") // its header block is lost, and with it the state of HPACK
		}
		return err
	}
	switch f := f.(type) {
	case *http2.HeadersFrame:
		return c.headers(f)
	case *http2.SettingsFrame:
		return c.setting(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.RSTStreamFrame:
		return c.reset(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return &streamError{f.StreamID, http2.ErrCodeProtocol, "stream depends on itself"}
		}
		return c.control()
	case *http2.GoAwayFrame:
		c.shutdown()
		return nil
	case *http2.PushPromiseFrame:
		return protocolError("PUSH_PROMISE from a client")
	}
	return c.control() // unknown types are ignored
}

// control counts a frame that carries nothing.
func (c *conn) control() error {
	c.mu.Lock()
	defer c.unlock()
	return c.guard.control()
}

func (c *conn) setting(f *http2.SettingsFrame) error {
	c.mu.Lock()
	defer c.unlock()
	if f.IsAck() {
		if c.settings--; c.settings < 0 {
			return protocolError("SETTINGS acknowledged that were not sent")
		}
		for _, st := range c.streams {
			st.recv += c.limits.streamWindow - c.streamRecv
		}
		c.streamRecv = c.limits.streamWindow
		return nil
	}
	if err := c.guard.control(); err != nil {
		return err
	}
	if f.NumSettings() > 100 {
		return &connError{http2.ErrCodeEnhanceYourCalm, "large SETTINGS"}
	}
	if err := c.applyLocked(f); err != nil {
		return err
	}
	c.frameHeader(0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.flushLocked()
	return nil
}

func (c *conn) applyLocked(f *http2.SettingsFrame) error {
	window := c.peerWindow
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return c.readError(err)
		}
		switch s.ID {
		case http2.SettingHeaderTableSize:
			c.tableUpdate = true
		case http2.SettingMaxFrameSize:
			c.peerFrame = int(s.Val)
		case http2.SettingInitialWindowSize:
			window = int32(s.Val)
		}
		return nil
	})
	if err != nil || window == c.peerWindow {
		return err
	}
	return c.initialWindowLocked(window)
}

// initialWindowLocked changes the windows of all streams. That is work for each of them, so it is paid for: clients do it once or twice.
func (c *conn) initialWindowLocked(window int32) error {
	grow := int64(window) - int64(c.peerWindow)
	c.peerWindow = window
	for _, st := range c.streams {
		if w := int64(st.window) + grow; w > maxWindow {
			return &connError{http2.ErrCodeFlowControl, "initial window overflows a stream's"}
		}
		st.window += int32(grow)
	}
	for st := c.lines.shut.first; st != nil; {
		next := st.next
		c.lines.move(st)
		st = next
	}
	return c.guard.work(len(c.streams)/16 + c.wakeLocked())
}

func (c *conn) ping(f *http2.PingFrame) error {
	c.mu.Lock()
	defer c.unlock()
	if f.IsAck() {
		if f.Data == shutdownPing && c.goAway == goAwayWarned {
			c.decideLocked()
		}
		return nil
	}
	if err := c.guard.control(); err != nil {
		return err
	}
	c.appendPing(true, f.Data)
	c.flushLocked()
	return nil
}

func (c *conn) windowUpdate(fh http2.FrameHeader) error {
	if fh.Length != 4 {
		return &connError{http2.ErrCodeFrameSize, "WINDOW_UPDATE"}
	}
	if _, err := io.ReadFull(c.nc, c.small[:]); err != nil {
		return err
	}
	increment := int64(binary.BigEndian.Uint32(c.small[:]) & maxWindow)
	c.mu.Lock()
	defer c.unlock()
	if fh.StreamID == 0 {
		switch {
		case increment == 0:
			return protocolError("WINDOW_UPDATE of 0")
		case int64(c.window)+increment > maxWindow:
			return &connError{http2.ErrCodeFlowControl, "connection window overflows"}
		}
		c.window += int32(increment)
		c.wakeLocked()
		return nil
	}
	st, err := c.streamLocked(fh.StreamID)
	switch {
	case err != nil:
		return err
	case increment == 0:
		return &streamError{fh.StreamID, http2.ErrCodeProtocol, "WINDOW_UPDATE of 0"}
	case st == nil:
		return nil
	case int64(st.window)+increment > maxWindow:
		return &streamError{fh.StreamID, http2.ErrCodeFlowControl, "stream window overflows"}
	}
	st.window += int32(increment)
	if st.line != nil && c.sendableLocked(st) > 0 {
		c.wakeStreamLocked(st)
	}
	c.lines.move(st)
	return nil
}

func (c *conn) reset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.unlock()
	st, err := c.streamLocked(f.StreamID)
	if st == nil {
		if err == nil {
			err = c.guard.control()
		}
		return err
	}
	if st.young() {
		c.srv.counters.resets.Add(1)
		err = c.guard.reset()
	}
	st.endLocked(&ResetError{f.ErrCode, true})
	return err
}

// streamLocked returns an open stream. Without one, the error says whether the client may name it at all.
func (c *conn) streamLocked(id uint32) (*stream, error) {
	if st := c.streams[id]; st != nil {
		return st, nil
	}
	if id%2 == 0 || id > c.lastID {
		return nil, protocolError("frame on an idle stream")
	}
	return nil, nil
}

// resetStream answers what is wrong with one stream. It returns every other error as it is.
func (c *conn) resetStream(err error) error {
	e, ok := err.(*streamError)
	if !ok {
		return err
	}
	c.mu.Lock()
	defer c.unlock()
	if e.id%2 == 0 {
		return protocolError(e.reason)
	}
	if err := c.guard.control(); err != nil {
		return err
	}
	if st := c.streams[e.id]; st != nil {
		if err := c.guard.reset(); err != nil {
			return err
		}
		st.resetLocked(e.code)
	} else {
		c.lastID = max(c.lastID, e.id)
		c.over.add(e.id, true)
		c.appendReset(e.id, e.code)
	}
	c.flushLocked()
	return nil
}

// finish ends the connection for the given reason and returns it, nil if it is in order.
func (c *conn) finish(err error) error {
	var ce *connError
	defer func() {
		if ce == nil {
			return
		}
		if ce.code == http2.ErrCodeEnhanceYourCalm {
			c.srv.counters.floods.Add(1)
		} else {
			c.srv.counters.protocol.Add(1)
		}
		if log := c.srv.Logger; log != nil {
			log.Debug("the server closed an HTTP/2 connection", "remote", c.remote, "code", ce.code.String(), "reason", ce.reason)
		}
	}()
	if errors.As(err, &ce) {
		c.mu.Lock()
		c.appendGoAway(c.lastID, ce.code, ce.reason)
		c.goAway = goAwayLast
		c.flushLocked()
		c.endAllLocked(errClientGone)
		c.unlock()
		// Closing with unread input would make the kernel send a reset that overtakes the GOAWAY.
		_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, 8<<20))
		return err
	}
	c.mu.Lock()
	if c.failed != nil {
		err = c.failed
		errors.As(err, &ce)
	}
	if c.goAway == goAwayLast || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	c.endAllLocked(errClientGone)
	c.unlock()
	return err
}

// endAllLocked ends all streams, and lets none begin.
func (c *conn) endAllLocked(err error) {
	c.ended = true
	for _, st := range c.streams {
		st.endLocked(err)
	}
	if !c.pumping && c.buf != nil {
		putBuffer(c.buf)
		c.buf = nil
	}
	c.countLocked()
}

// unlock lets go of the lock and then makes the calls that were put off until now.
func (c *conn) unlock() {
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// abort cuts the connection off; the reading goroutine does the rest.
func (c *conn) abort() {
	nc := c.nc
	if c.sock != nil {
		nc = c.sock.Conn
	} else if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	_ = nc.Close()
}

var shutdownPing = [8]byte{'s', 'h', 'u', 't', 'd', 'o', 'w', 'n'}

// shutdown begins the graceful end: streams that the client has opened before it knew are still served.
func (c *conn) shutdown() {
	c.mu.Lock()
	defer c.unlock()
	if c.goAway != goAwayNot {
		return
	}
	c.goAway = goAwayWarned
	c.watch.since = 0
	c.appendGoAway(maxWindow, http2.ErrCodeNo, "")
	c.appendPing(false, shutdownPing)
	c.flushLocked()
}

// decideLocked says which stream is the last.
func (c *conn) decideLocked() {
	c.goAway = goAwayDecided
	c.appendGoAway(c.lastID, http2.ErrCodeNo, "")
	c.flushLocked()
	c.lastLocked()
}

// lastLocked closes a connection that is shutting down when its last stream has ended.
func (c *conn) lastLocked() {
	if c.goAway == goAwayDecided && len(c.streams) == 0 {
		c.goAway = goAwayLast
		_ = c.nc.SetReadDeadline(time.Now().Add(lingerTime))
		c.farewellLocked()
	}
}

// farewellLocked tells the client that nothing more comes, so that it closes its side at once and not when we lose patience.
func (c *conn) farewellLocked() {
	if t, ok := c.nc.(*tls.Conn); ok && c.sock != nil {
		c.flushLocked()
		c.mute = true
		_ = t.CloseWrite() // it does not block: see socket.SetWriteDeadline
	}
}

// inadequate returns what RFC 9113, section 9.2, has against a TLS connection, "" if nothing.
func inadequate(s *tls.ConnectionState) string {
	if s.Version >= tls.VersionTLS13 {
		return ""
	}
	if s.Version < tls.VersionTLS12 {
		return "TLS version too low"
	}
	switch s.CipherSuite {
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return ""
	}
	return "prohibited cipher suite"
}
