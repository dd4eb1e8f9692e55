package h2

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"vigil/internal/panics"
)

// run is the goroutine of a handler.
func (c *conn) run(st *stream, req *http.Request, handler http.Handler) {
	w := &responseWriter{st: st, req: req, head: req.Method == http.MethodHead}
	defer func() {
		// What panicked is known only here; ErrAbortHandler is how a handler says that the response must not look complete.
		value := recover()
		if value != nil && value != http.ErrAbortHandler {
			panics.Recovered(c.srv.Logger, panics.Request, value, "remote", c.remote)
		}
		w.end(value != nil || !w.returned)
		if req.MultipartForm != nil {
			_ = req.MultipartForm.RemoveAll()
		}
		c.mu.Lock()
		c.handlers--
		if st.handling = false; st.closed {
			st.releaseLocked()
		}
		c.unlock()
		if c.srv.counters.handlers.Add(-1) == 0 {
			c.srv.notify()
		}
	}()
	handler.ServeHTTP(w, req)
	w.returned = true
}

// responseWriter is what a handler writes to. What it writes is collected up to chunkLen before it is sent, so that a response of
// that size goes out as one write: header, data and end.
type responseWriter struct {
	st   *stream
	req  *http.Request
	head bool

	mu       sync.Mutex // a handler may flush from another goroutine than it writes from
	header   http.Header
	status   int // 0 until WriteHeader
	enc      *headerEncoder
	sent     bool  // HEADERS are on their way
	length   int64 // Content-Length as set by the handler
	declared bool  // there is one
	typed    bool  // Content-Type or Content-Encoding is set: do not guess
	dated    bool
	written  int64
	buf      []byte
	trailers []string
	returned bool // the handler has returned
	over     error
}

var (
	_ http.Flusher = (*responseWriter)(nil)
	_ StreamWriter = (*responseWriter)(nil)
)

func (w *responseWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

func (w *responseWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *responseWriter) writeHeader(status int) {
	if w.status != 0 || w.over != nil {
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if status < 200 {
		if status != http.StatusSwitchingProtocols { // which HTTP/2 does not know
			w.inform(status)
		}
		return
	}
	w.status = status
	w.enc = newHeaderEncoder(status)
	for key, values := range w.header {
		switch key {
		case "Connection":
			if slices.Contains(values, "close") {
				w.st.c.shutdown()
			}
			continue
		case "Trailer":
			w.declareTrailers(values)
		case "Content-Length":
			n, err := strconv.ParseUint(strings.Join(values, ","), 10, 63)
			if err != nil {
				continue
			}
			w.length, w.declared = int64(n), true
		case "Content-Type", "Content-Encoding":
			w.typed = w.typed || key == "Content-Type" || values[0] != ""
		case "Date":
			w.dated = true
		}
		if strings.HasPrefix(key, http.TrailerPrefix) {
			continue
		}
		w.enc.add(key, values)
	}
}

// inform sends a 1xx response.
func (w *responseWriter) inform(status int) {
	enc := newHeaderEncoder(status)
	defer enc.free()
	for key, values := range w.header {
		if key != "Content-Length" && key != "Transfer-Encoding" {
			enc.add(key, values)
		}
	}
	st := w.st
	st.c.mu.Lock()
	defer st.c.unlock()
	if !st.closed {
		st.c.appendBlock(st.id, enc.buf.Bytes(), false)
		st.c.flushLocked()
	}
	if status == http.StatusContinue && st.body != nil {
		st.body.expect.Store(false)
	}
}

// continueLocked tells a client that waits for it to send its body.
func (c *conn) continueLocked(st *stream) {
	enc := newHeaderEncoder(http.StatusContinue)
	c.appendBlock(st.id, enc.buf.Bytes(), false)
	c.flushLocked()
	enc.free()
}

// Write takes all of p, or fails because the stream is over. It waits when the client opens no window.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.begin(len(p)); err != nil {
		return 0, err
	}
	if w.head {
		return len(p), nil
	}
	if len(w.buf)+len(p) <= chunkLen {
		w.buf = append(room(w.buf, len(p)), p...)
		return len(p), nil
	}
	if err := w.send(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString is Write without a copy of small strings.
func (w *responseWriter) WriteString(s string) (int, error) {
	w.mu.Lock()
	if w.over == nil && w.st != nil && !w.head && len(w.buf)+len(s) <= chunkLen {
		defer w.mu.Unlock()
		if err := w.begin(len(s)); err != nil {
			return 0, err
		}
		w.buf = append(room(w.buf, len(s)), s...)
		return len(s), nil
	}
	w.mu.Unlock()
	return w.Write([]byte(s))
}

// begin says whether n bytes may be written.
func (w *responseWriter) begin(n int) error {
	if w.over != nil {
		return w.over
	}
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	if !bodyAllowed(w.status) {
		return http.ErrBodyNotAllowed
	}
	if w.written += int64(n); w.declared && w.written > w.length {
		return http.ErrContentLength
	}
	return nil
}

func (w *responseWriter) Flush() { _ = w.FlushError() }

func (w *responseWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return w.over
	}
	return w.send(nil, false)
}

// send sends what was written, and more, and the header first if it has not been. With end, that is all.
func (w *responseWriter) send(more []byte, end bool) error {
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	var block, trailers []byte
	first := !w.sent
	if first {
		w.sent = true
		w.complete(more, end)
		block = w.enc.buf.Bytes()
	}
	if end {
		if enc := w.encodeTrailers(); enc != nil {
			defer enc.free()
			trailers = enc.buf.Bytes()
		}
	}
	var err error
	if block != nil || trailers != nil || end || len(w.buf)+len(more) > 0 {
		err = w.st.send(block, [2][]byte{w.buf, more}, trailers, end)
	}
	if first {
		w.enc.free()
		w.enc = nil
	}
	if w.buf != nil {
		putBuffer(w.buf)
		w.buf = nil
	}
	return err
}

// complete adds the header fields that the server knows better.
func (w *responseWriter) complete(more []byte, end bool) {
	length := len(w.buf) + len(more)
	if !w.typed && length > 0 && bodyAllowed(w.status) {
		sample := w.buf
		if len(sample) == 0 {
			sample = more
		}
		w.enc.field("content-type", http.DetectContentType(sample))
	}
	if end && !w.declared && bodyAllowed(w.status) && !w.head && len(w.trailers) == 0 { // curl 7.88 reads no trailers behind a length
		w.enc.field("content-length", strconv.Itoa(length))
	}
	if !w.dated {
		w.enc.field("date", date())
	}
}

// end is called when the handler has returned, or has panicked.
func (w *responseWriter) end(aborted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.st
	if w.over == errDetached {
		if aborted {
			(&Stream{st}).Reset(http2.ErrCodeInternal)
		}
		return
	}
	if b := st.body; b != nil && !aborted {
		defer b.Close()
	}
	short := w.declared && w.written < w.length && !w.head && w.status != http.StatusNotModified
	if aborted || short {
		st.c.mu.Lock()
		st.resetLocked(http2.ErrCodeInternal)
		st.c.flushLocked()
		st.c.unlock()
	} else {
		_ = w.send(nil, true) // the client is gone, then
	}
	w.over = errHandlerDone
	if w.enc != nil {
		w.enc.free()
		w.enc = nil
	}
	if w.buf != nil {
		putBuffer(w.buf)
		w.buf = nil
	}
}

func (w *responseWriter) declareTrailers(values []string) {
	for _, v := range values {
		for key := range strings.SplitSeq(v, ",") {
			key = http.CanonicalHeaderKey(strings.TrimSpace(key))
			if httpguts.ValidTrailerHeader(key) && !slices.Contains(w.trailers, key) {
				w.trailers = append(w.trailers, key)
			}
		}
	}
}

// encodeTrailers returns the trailers as they are now: those declared before the header was sent, and those named with
// http.TrailerPrefix. nil if there are none.
func (w *responseWriter) encodeTrailers() (enc *headerEncoder) {
	add := func(key string, values []string) {
		if enc == nil {
			enc = newHeaderEncoder(0)
		}
		enc.add(key, values)
	}
	for _, key := range w.trailers {
		if values, ok := w.header[key]; ok {
			add(key, values)
		}
	}
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok && httpguts.ValidTrailerHeader(name) {
			add(name, values)
		}
	}
	if enc != nil && enc.buf.Len() == 0 {
		enc.free()
		return nil
	}
	return enc
}

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex are what http.ResponseController looks for.
func (w *responseWriter) SetReadDeadline(t time.Time) error {
	w.st.setReadDeadline(t)
	return nil
}

func (w *responseWriter) SetWriteDeadline(t time.Time) error {
	w.st.setWriteDeadline(t)
	return nil
}

// EnableFullDuplex does nothing: HTTP/2 is.
func (w *responseWriter) EnableFullDuplex() error { return nil }

// Push says that there is no server push.
func (w *responseWriter) Push(string, *http.PushOptions) error {
	return errors.Join(http.ErrNotSupported)
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// headerEncoder encodes a header block without the dynamic table: it costs some bytes on the wire, and saves two tables for
// each connection and encoding under its lock.
type headerEncoder struct {
	buf bytes.Buffer
	enc *hpack.Encoder
}

var encoderPool = sync.Pool{New: func() any {
	e := new(headerEncoder)
	e.enc = hpack.NewEncoder(&e.buf)
	e.enc.SetMaxDynamicTableSize(0)
	e.field("x", "") // takes the table size's update with it, which appendBlock sends
	return e
}}

// newHeaderEncoder begins a block with a status, 0 for none.
func newHeaderEncoder(status int) *headerEncoder {
	e := encoderPool.Get().(*headerEncoder)
	e.buf.Reset()
	switch status {
	case 0:
	case http.StatusOK:
		e.field(":status", "200")
	default:
		e.field(":status", strconv.Itoa(status))
	}
	return e
}

func (e *headerEncoder) free() {
	if e.buf.Cap() <= eventLen {
		encoderPool.Put(e)
	}
}

func (e *headerEncoder) field(name, value string) {
	_ = e.enc.WriteField(hpack.HeaderField{Name: name, Value: value}) // a bytes.Buffer does not fail
}

// add encodes a header, leaving out what HTTP/2 must not carry.
func (e *headerEncoder) add(key string, values []string) {
	switch key {
	case "Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive":
		return
	}
	if !httpguts.ValidHeaderFieldName(key) {
		return
	}
	name := lower(key)
	for _, v := range values {
		if httpguts.ValidHeaderFieldValue(v) {
			e.field(name, v)
		}
	}
}

// lower spares the commonest names an allocation.
func lower(key string) string {
	switch key {
	case "Content-Type":
		return "content-type"
	case "Content-Length":
		return "content-length"
	case "Content-Encoding":
		return "content-encoding"
	case "Cache-Control":
		return "cache-control"
	case "Audit-Id":
		return "audit-id"
	case "Vary":
		return "vary"
	case "Date":
		return "date"
	case "X-Kubernetes-Pf-Flowschema-Uid":
		return "x-kubernetes-pf-flowschema-uid"
	case "X-Kubernetes-Pf-Prioritylevel-Uid":
		return "x-kubernetes-pf-prioritylevel-uid"
	}
	return strings.ToLower(key)
}

// lastDate is the Date header of the second it was made in.
var lastDate atomic.Pointer[struct {
	second int64
	text   string
}]

func date() string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &struct {
		second int64
		text   string
	}{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
