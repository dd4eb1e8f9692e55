package h2

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxContinuations bounds the CONTINUATION frames of one header block: the frames may be empty, so bounding their bytes is
// not enough (CVE-2024-27316 and its kin). A block of the default 1 MiB needs 64.
const maxContinuations = 256

// headerBlock is the header block that is being read.
type headerBlock struct {
	fields    []hpack.HeaderField
	size      uint32 // of the list, as SETTINGS_MAX_HEADER_LIST_SIZE counts
	bytes     int    // encoded
	regular   bool   // a field that is no pseudo-header was seen
	truncated bool   // the list is too large: the fields are not complete
	invalid   string // what is wrong with it, "" if nothing
}

var fieldPool = sync.Pool{New: func() any { f := make([]hpack.HeaderField, 0, 32); return &f }}

// emit is called by the HPACK decoder for each field.
func (c *conn) emit(f hpack.HeaderField) {
	b := &c.block
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		b.invalid = "header value"
	}
	if strings.HasPrefix(f.Name, ":") {
		if b.regular {
			b.invalid = "pseudo-header after headers"
		}
	} else {
		b.regular = true
		if !validName(f.Name) {
			b.invalid = "header name"
		}
	}
	b.size += f.Size()
	if b.size > c.limits.headerBytes {
		b.truncated = true
	}
	if b.truncated || b.invalid != "" {
		c.hdec.SetEmitEnabled(false) // the decoder goes on, to keep its table right
		return
	}
	b.fields = append(b.fields, f)
}

// validName says whether a field's name is a token without upper-case letters.
func validName(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return httpguts.ValidHeaderFieldName(name)
}

// headers reads a header block to its end and opens a stream with it, or ends a request with its trailers.
func (c *conn) headers(f *http2.HeadersFrame) error {
	fields := fieldPool.Get().(*[]hpack.HeaderField)
	c.block = headerBlock{fields: (*fields)[:0]}
	defer func() {
		*fields = c.block.fields
		clear(*fields)
		fieldPool.Put(fields)
		c.block = headerBlock{}
	}()
	id, end, dependency := f.StreamID, f.StreamEnded(), f.Priority.StreamDep
	depends := f.HasPriority()
	if err := c.decode(f); err != nil {
		return err
	}
	if id%2 == 0 {
		return protocolError("even stream")
	}
	if depends && dependency == id {
		return &streamError{id, http2.ErrCodeProtocol, "stream depends on itself"}
	}
	return c.request(id, end)
}

func (c *conn) decode(f *http2.HeadersFrame) error {
	c.hdec.SetEmitEnabled(true)
	fragment, ended := f.HeaderBlockFragment(), f.HeadersEnded()
	for n := 0; ; n++ {
		if c.block.bytes += len(fragment); c.block.bytes > 2*int(c.limits.headerBytes) || n > maxContinuations {
			return &connError{http2.ErrCodeEnhanceYourCalm, "large header block"}
		}
		if _, err := c.hdec.Write(fragment); err != nil {
			return &connError{http2.ErrCodeCompression, "header block"}
		}
		if ended {
			break
		}
		fh, err := c.framer.ReadFrameHeader()
		if err != nil {
			return c.readError(err)
		}
		next, err := c.framer.ReadFrameForHeader(fh)
		if err != nil {
			return c.readError(err)
		}
		more := next.(*http2.ContinuationFrame) // the framer lets nothing else through
		fragment, ended = more.HeaderBlockFragment(), more.HeadersEnded()
	}
	if err := c.hdec.Close(); err != nil {
		return &connError{http2.ErrCodeCompression, "header block"}
	}
	return nil
}

// request gives the header block in c.block to its stream.
func (c *conn) request(id uint32, end bool) error {
	c.mu.Lock()
	defer c.unlock()
	if st := c.streams[id]; st != nil {
		return c.trailersLocked(st, end)
	}
	if id <= c.lastID {
		found, reset := c.over.find(id)
		switch {
		case reset:
			return c.guard.control() // it was under way when we ended the stream
		case found:
			return &connError{http2.ErrCodeStreamClosed, "HEADERS on a closed stream"}
		}
		return protocolError("stream identifier goes down")
	}
	if c.goAway >= goAwayDecided {
		return c.guard.control() // the client knows, or will soon, that it was not served
	}
	c.lastID = id
	if err := c.guard.large(c.block.size); err != nil {
		return err
	}
	limit := int(c.limits.streams)
	if len(c.streams) >= limit || c.handlers >= limit+limit/4+16 || c.headerBytes > 0 && c.headerBytes+int(c.block.size) > c.limits.headersPerConn {
		c.srv.counters.refused.Add(1)
		c.over.add(id, true)
		c.appendReset(id, http2.ErrCodeRefusedStream)
		c.flushLocked()
		return c.guard.reset()
	}
	if c.block.invalid != "" {
		return &streamError{id, http2.ErrCodeProtocol, c.block.invalid}
	}
	st := c.openLocked(id)
	st.remoteClosed = end
	req, b, wrong := c.newRequest(st, end)
	if wrong != "" {
		return &streamError{id, http2.ErrCodeProtocol, wrong}
	}
	if st.body = b; b != nil {
		c.bodies++
	}
	handler := c.handler
	if c.block.truncated {
		handler = http.HandlerFunc(tooLarge)
	}
	c.handlers++
	st.handling = true
	st.holdLocked(c.block.size)
	c.srv.counters.handlers.Add(1)
	c.srv.counters.requests.Add(1)
	c.workers.Go(func() { c.run(st, req, handler) })
	return nil
}

func tooLarge(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Request Header Fields Too Large", http.StatusRequestHeaderFieldsTooLarge)
}

func (c *conn) trailersLocked(st *stream, end bool) error {
	wrong := c.block.invalid
	switch {
	case st.remoteClosed:
		return &streamError{st.id, http2.ErrCodeStreamClosed, "HEADERS after END_STREAM"}
	case !end:
		wrong = "trailers without END_STREAM"
	case c.block.truncated:
		wrong = "large trailers"
	}
	trailers := make(http.Header, len(c.block.fields))
	for _, f := range c.block.fields {
		key := textproto.CanonicalMIMEHeaderKey(f.Name)
		if f.IsPseudo() || !httpguts.ValidTrailerHeader(key) {
			wrong = "header that cannot be a trailer"
		}
		trailers[key] = append(trailers[key], f.Value)
	}
	if wrong != "" {
		return &streamError{st.id, http2.ErrCodeProtocol, wrong}
	}
	st.body.trailers = trailers
	return st.endBodyLocked()
}

// pseudo are the pseudo-headers of a request.
type pseudo struct{ method, scheme, authority, path string }

// take splits the fields into pseudo-headers, each at most once, and the rest.
func (p *pseudo) take(fields []hpack.HeaderField) (rest []hpack.HeaderField, wrong string) {
	for i, f := range fields {
		var v *string
		switch f.Name {
		case ":method":
			v = &p.method
		case ":scheme":
			v = &p.scheme
		case ":authority":
			v = &p.authority
		case ":path":
			v = &p.path
		default:
			if !f.IsPseudo() {
				return fields[i:], ""
			}
			return nil, "unknown pseudo-header"
		}
		for _, g := range fields[:i] {
			if g.Name == f.Name {
				return nil, "pseudo-header twice"
			}
		}
		*v = f.Value
	}
	return nil, ""
}

// newRequest makes the request of the fields in c.block. If they break the rules of RFC 9113, sections 8.2 and 8.3, it says how.
// Blanks around a value are taken off, as HTTP/1.1 does.
func (c *conn) newRequest(st *stream, end bool) (_ *http.Request, _ *body, wrong string) {
	var p pseudo
	fields, wrong := p.take(c.block.fields)
	if wrong != "" {
		return nil, nil, wrong
	}
	if c.block.truncated {
		fields = nil // nobody will look at them
	}
	header := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		key := textproto.CanonicalMIMEHeaderKey(f.Name)
		switch key {
		case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
			return nil, nil, "connection-specific header"
		case "Te":
			if f.Value != "trailers" {
				return nil, nil, "TE other than trailers"
			}
		}
		values[i] = textproto.TrimString(f.Value)
		if old, ok := header[key]; ok {
			header[key] = append(old, values[i])
		} else {
			header[key] = values[i : i+1 : i+1]
		}
	}
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}

	var target *url.URL
	switch {
	case c.block.truncated: // it will be answered without being looked at
		target = new(url.URL)
	case p.method == http.MethodConnect:
		if p.path != "" || p.scheme != "" || p.authority == "" {
			return nil, nil, "CONNECT"
		}
		target = &url.URL{Host: p.authority}
		p.path = p.authority
	default:
		if !httpguts.ValidHeaderFieldName(p.method) || p.scheme != "https" && p.scheme != "http" ||
			p.path == "" || p.path[0] != '/' && (p.path != "*" || p.method != http.MethodOptions) {
			return nil, nil, "pseudo-headers"
		}
		var err error
		if target, err = url.ParseRequestURI(p.path); err != nil {
			return nil, nil, "path"
		}
	}
	host, ok := host(p.authority, header["Host"])
	if !ok {
		return nil, nil, "authority"
	}
	delete(header, "Host")

	req := noRequest.WithContext((*streamContext)(st))
	req.Method, req.URL, req.RequestURI = p.method, target, p.path
	req.Proto, req.ProtoMajor = "HTTP/2.0", 2
	req.Header, req.Host, req.RemoteAddr = header, host, c.remote
	if p.scheme != "http" {
		req.TLS = c.state
	}
	req.Trailer = declaredTrailers(header)
	b, wrong := c.newBody(st, req, end)
	return req, b, wrong
}

var noRequest http.Request

// host returns the host of :authority and Host, which must agree (RFC 9113, section 8.3.1).
func host(authority string, headers []string) (string, bool) {
	if len(headers) > 1 || len(headers) == 1 && authority != "" && headers[0] != authority {
		return "", false
	}
	if authority == "" && len(headers) == 1 {
		authority = headers[0]
	}
	return authority, !strings.Contains(authority, "@") && httpguts.ValidHostHeader(authority)
}

func declaredTrailers(header http.Header) (trailer http.Header) {
	for _, v := range header["Trailer"] {
		for key := range strings.SplitSeq(v, ",") {
			key = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(key))
			if key != "" && httpguts.ValidTrailerHeader(key) {
				if trailer == nil {
					trailer = make(http.Header)
				}
				trailer[key] = nil
			}
		}
	}
	delete(header, "Trailer")
	return trailer
}

// newBody sets Body and ContentLength.
func (c *conn) newBody(st *stream, req *http.Request, end bool) (_ *body, wrong string) {
	length := int64(-1)
	for i, v := range req.Header["Content-Length"] {
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil || i > 0 && int64(n) != length {
			return nil, "Content-Length"
		}
		length = int64(n)
	}
	if end {
		if length > 0 {
			return nil, "less than Content-Length"
		}
		req.Body = http.NoBody
		return nil, ""
	}
	b := &body{st: st, req: req, declared: length >= 0, left: length}
	if httpguts.HeaderValuesContainsToken(req.Header["Expect"], "100-continue") {
		delete(req.Header, "Expect")
		b.expect.Store(true)
	}
	req.Body, req.ContentLength = b, length
	return b, ""
}
