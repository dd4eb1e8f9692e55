package h2

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// All writing happens here, with conn.mu held: frames are appended to conn.buf, which flushLocked writes in one piece.

// frameHeader appends the header of a frame and makes room for n bytes of payload.
func (c *conn) frameHeader(n int, t http2.FrameType, flags http2.Flags, id uint32) {
	b := room(c.buf, frameHeaderLen+n)
	c.buf = append(b, byte(n>>16), byte(n>>8), byte(n), byte(t), byte(flags),
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

func (c *conn) append32(v uint32) { c.buf = binary.BigEndian.AppendUint32(c.buf, v) }

func (c *conn) appendSettings() {
	settings := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: c.limits.streams},
		{ID: http2.SettingMaxHeaderListSize, Val: c.limits.headerBytes},
		{ID: http2.SettingInitialWindowSize, Val: uint32(c.limits.streamWindow)},
	}
	c.frameHeader(6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(s.ID))
		c.append32(s.Val)
	}
	if more := c.limits.connWindow - initialWindow; more > 0 {
		c.appendWindowUpdate(0, more)
	}
}

func (c *conn) appendWindowUpdate(id uint32, n int32) {
	c.frameHeader(4, http2.FrameWindowUpdate, 0, id)
	c.append32(uint32(n))
}

func (c *conn) appendPing(ack bool, data [8]byte) {
	var flags http2.Flags
	if ack {
		flags = http2.FlagPingAck
	}
	c.frameHeader(len(data), http2.FramePing, flags, 0)
	c.buf = append(c.buf, data[:]...)
}

func (c *conn) appendReset(id uint32, code http2.ErrCode) {
	c.frameHeader(4, http2.FrameRSTStream, 0, id)
	c.append32(uint32(code))
}

func (c *conn) appendGoAway(last uint32, code http2.ErrCode, debug string) {
	c.srv.counters.goAways.Add(1)
	c.frameHeader(8+len(debug), http2.FrameGoAway, 0, 0)
	c.append32(last)
	c.append32(uint32(code))
	c.buf = append(c.buf, debug...)
}

// appendBlock appends a header block as HEADERS and as many CONTINUATION frames as it takes.
func (c *conn) appendBlock(id uint32, block []byte, end bool) {
	const noTable = 0x20 // HPACK, RFC 7541, section 6.3: the dynamic table's size is 0
	var prefix []byte
	if c.tableUpdate {
		c.tableUpdate = false
		prefix = []byte{noTable}
	}
	t, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(block), c.peerFrame-len(prefix))
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.frameHeader(len(prefix)+n, t, flags, id)
		c.buf = append(append(c.buf, prefix...), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return
		}
		t, flags, prefix = http2.FrameContinuation, 0, nil
	}
}

// appendData appends DATA frames with b, one empty frame if there is nothing in it, and takes it off the windows, which must be wide enough.
func (c *conn) appendData(st *stream, b []byte, end bool) {
	for {
		n := min(len(b), c.peerFrame)
		var flags http2.Flags
		if end && n == len(b) {
			flags = http2.FlagDataEndStream
		}
		c.frameHeader(n, http2.FrameData, flags, st.id)
		c.buf = append(c.buf, b[:n]...)
		c.window -= int32(n)
		st.window -= int32(n)
		if b = b[n:]; len(b) == 0 {
			return
		}
	}
}

// sendableLocked returns how many bytes of data a stream may send now: what the windows allow, nothing while too much
// waits for the socket.
func (c *conn) sendableLocked(st *stream) int {
	if c.fullLocked() {
		return 0
	}
	return int(max(0, min(st.window, c.window)))
}

// fullLocked says whether so much waits for the socket that streams have to wait, with their headers, too.
func (c *conn) fullLocked() bool { return c.pendingLocked() > c.limits.pending }

// pendingLocked returns how many bytes wait for the socket.
func (c *conn) pendingLocked() int {
	if c.sock != nil {
		return int(c.sock.size.Load())
	}
	return c.inFlight + len(c.buf)
}

// maxControl is how many bytes of frames may wait for the socket beyond what streams may leave there. Those that answer the client's frames wait
// for nobody: PING, SETTINGS, RST_STREAM, WINDOW_UPDATE.
const maxControl = 256 << 10

// flushLocked writes the frames in c.buf. It does not block; an error ends the connection, through its reading goroutine. So does
// a client that makes us answer and does not read the answers.
func (c *conn) flushLocked() {
	if len(c.buf) == 0 {
		return
	}
	if c.failed != nil || c.mute {
		c.buf = c.buf[:0]
		return
	}
	if c.pendingLocked() > c.limits.pending+chunkLen+maxControl {
		c.buf = c.buf[:0]
		c.failLocked(&connError{http2.ErrCodeEnhanceYourCalm, "answers are not read"})
		return
	}
	if c.sock == nil {
		if !c.pumping {
			c.pumping = true
			go c.pump()
		}
		return
	}
	b := c.buf
	c.buf = nil
	cork := len(b) > maxRecord
	if cork {
		c.sock.cork()
	}
	_, err := c.nc.Write(b)
	if cork {
		if e := c.sock.uncork(); err == nil {
			err = e
		}
	}
	putBuffer(b)
	if err != nil {
		c.failLocked(err)
	}
}

const maxRecord = 16 << 10 // of TLS

func (c *conn) failLocked(err error) {
	if c.failed == nil {
		c.failed = err
		c.abort()
	}
}

// pump does the writing for a connection that blocks. It ends when nothing is left to write.
func (c *conn) pump() {
	for {
		c.mu.Lock()
		b := c.buf
		c.buf, c.inFlight = nil, len(b)
		if len(b) == 0 || c.failed != nil {
			c.inFlight, c.pumping = 0, false
			c.mu.Unlock()
			return
		}
		c.wakeLocked()
		c.unlock()
		if c.limits.write > 0 {
			_ = c.nc.SetWriteDeadline(time.Now().Add(c.limits.write))
		}
		_, err := c.nc.Write(b)
		putBuffer(b)
		c.mu.Lock()
		c.inFlight = 0
		if err != nil {
			c.failLocked(err)
		}
		c.wakeLocked()
		c.unlock()
	}
}

// drained is called by the socket when less is pending.
func (c *conn) drained() {
	c.mu.Lock()
	defer c.unlock()
	if err := c.sock.failure(); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && c.failed == nil {
			c.srv.counters.stuck.Add(1)
		}
		c.failLocked(err)
	}
	c.wakeLocked()
}

// lines are the streams that wait for a window or for the socket, each in the line of what it waits for: nobody looks at streams that cannot
// send yet, however many they are.
//
//	headers  for room on the socket: a header block needs no window
//	data     for the connection's window or for room; its own window was open when it came
//	shut     for its own window
type lines struct {
	headers, data, shut line
	turn                uint32 // of the stream that came last
}

// line is a list of streams, first come first.
type line struct{ first, last *stream }

// add puts a stream into the line of what it waits for, if it is in none.
func (ls *lines) add(st *stream) {
	if st.line != nil {
		return
	}
	l := &ls.data
	switch {
	case st.wantsRoom:
		l = &ls.headers
	case st.window <= 0:
		l = &ls.shut
	}
	ls.turn++
	st.line, st.turn, st.previous = l, ls.turn, l.last
	if l.last != nil {
		l.last.next = st
	} else {
		l.first = st
	}
	l.last = st
}

// remove takes a stream out of its line, if it is in one.
func (ls *lines) remove(st *stream) {
	l := st.line
	if l == nil {
		return
	}
	if st.previous != nil {
		st.previous.next = st.next
	} else {
		l.first = st.next
	}
	if st.next != nil {
		st.next.previous = st.previous
	} else {
		l.last = st.previous
	}
	st.line, st.previous, st.next = nil, nil, nil
}

// move puts a stream into another line when its own window has opened or shut.
func (ls *lines) move(st *stream) {
	if st.line != nil && !st.wantsRoom && (st.line == &ls.shut) != (st.window <= 0) {
		ls.remove(st)
		ls.add(st)
	}
}

// next returns the stream that came first of those that need no window, and with window of those that wait for the connection's, too. Nil: none.
func (ls *lines) next(window bool) *stream {
	h, d := ls.headers.first, ls.data.first
	if h == nil || window && d != nil && int32(d.turn-h.turn) < 0 {
		if !window {
			return nil
		}
		return d
	}
	return h
}

// wakeLocked wakes streams in line, first come first, as many as the connection's window and the socket have room for. They come back
// to the line's end if others were faster; who leaves room unused calls wakeLocked again, for the next. It returns how many it woke, and
// looks at no more than those and streams whose windows the client has shut since they came.
func (c *conn) wakeLocked() (woken int) {
	if c.lines.headers.first == nil && c.lines.data.first == nil || c.fullLocked() {
		return 0
	}
	window, room := int(c.window), c.limits.pending+1-c.pendingLocked()
	for room > 0 {
		st := c.lines.next(window > 0)
		switch {
		case st == nil:
			return woken
		case st.wantsRoom:
			room -= st.wants
		case st.window <= 0:
			c.lines.move(st)
			continue
		default:
			n := min(st.wants, window, int(st.window))
			window, room = window-n, room-n
		}
		c.wakeStreamLocked(st)
		woken++
	}
	return woken
}

// waitLocked has the handler of a stream wait in line for n bytes of data, or for room for a header block of n bytes. It fails when the stream has
// ended.
func (st *stream) waitLocked(n int, header bool) error {
	c := st.c
	st.wants, st.wantsRoom, st.waiting = n, header, true
	c.lines.add(st)
	c.wakeLocked() // what this stream cannot use, others may
	c.countLocked()
	for st.line != nil { // cond is also about other things
		st.cond.Wait()
	}
	st.waiting, st.wantsRoom = false, false
	if st.closed {
		return st.err
	}
	return nil
}

// roomLocked waits until the socket has room for a header block of n bytes: flow control is about data only, so it is this that keeps headers
// from piling up for a client that does not read.
func (st *stream) roomLocked(n int) error {
	c := st.c
	for c.fullLocked() {
		c.flushLocked()
		if !c.fullLocked() {
			return nil
		}
		if err := st.waitLocked(n, true); err != nil {
			return err
		}
	}
	return nil
}

// wakeStreamLocked takes a stream out of its line.
func (c *conn) wakeStreamLocked(st *stream) {
	c.lines.remove(st)
	st.cond.Broadcast()
	if st.onWritable != nil {
		c.calls = append(c.calls, st.onWritable)
		st.onWritable = nil
	}
}

// send writes a header block (nil: none), data and trailers (nil: none) and ends the stream if end is set. It waits for windows
// and for the socket. All that fits goes out in one write.
func (st *stream) send(block []byte, data [2][]byte, trailers []byte, end bool) error {
	c := st.c
	c.mu.Lock()
	defer c.unlock()
	if st.closed {
		return st.err
	}
	last := end && trailers == nil
	if block != nil {
		if err := st.roomLocked(len(block)); err != nil {
			return err
		}
		c.appendBlock(st.id, block, last && len(data[0])+len(data[1]) == 0)
		st.headersSent = true
	}
	for i, b := range data {
		for len(b) > 0 {
			n := min(c.sendableLocked(st), len(b))
			if n == 0 {
				c.flushLocked()
				if c.sendableLocked(st) > 0 {
					continue // flushing took it off what was pending
				}
				if err := st.waitLocked(len(b), false); err != nil {
					return err
				}
				continue
			}
			if n = min(n, chunkLen-frameHeaderLen*(1+chunkLen/c.peerFrame)); c.sock != nil {
				n -= len(c.buf)
			}
			if n <= 0 {
				c.flushLocked()
				if st.closed {
					return st.err
				}
				continue
			}
			c.appendData(st, b[:n], last && n == len(b) && (i == 1 || len(data[1]) == 0))
			st.progressLocked(n)
			b = b[n:]
			if len(b) > 0 {
				c.flushLocked()
				c.breathe()
				if st.closed {
					return st.err
				}
			}
		}
	}
	if block == nil && last && len(data[0])+len(data[1]) == 0 {
		c.appendData(st, nil, true)
	}
	if trailers != nil {
		if err := st.roomLocked(len(trailers)); err != nil {
			return err
		}
		c.appendBlock(st.id, trailers, true)
	}
	if end {
		st.sentEndLocked()
	}
	c.flushLocked()
	c.wakeLocked() // there may be room that this stream does not need
	return c.failed
}

// leastProgress is how much a client must take of a response within Server.WriteTimeout for its handler to go on waiting, in bytes.
const leastProgress = 16 << 10

// progressLocked notes that n bytes of data have gone out. A window that opens byte by byte is not what a handler waits for.
func (st *stream) progressLocked(n int) {
	if st.progress += n; st.progress >= leastProgress {
		st.progress, st.stalled = 0, 0
	}
}

// breathe lets others have the lock.
func (c *conn) breathe() {
	c.unlock()
	c.mu.Lock()
}
