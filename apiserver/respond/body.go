package respond

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"vigil/apiserver/listmemory"
)

// CompressAbove is the size in bytes from which a body is worth compressing, as upstream has it.
const CompressAbove = 128 << 10

// AcceptsEncoding returns the content coding the client accepts and we have: "gzip", "deflate" or "". A coding with
// quality 0 is refused.
func AcceptsEncoding(r *http.Request) string {
	deflate := false
	for _, header := range r.Header["Accept-Encoding"] {
		for part := range strings.SplitSeq(header, ",") {
			name, params, _ := strings.Cut(part, ";")
			if refused(params) {
				continue
			}
			switch strings.TrimSpace(name) {
			case "gzip":
				return "gzip"
			case "deflate":
				deflate = true
			}
		}
	}
	if deflate {
		return "deflate"
	}
	return ""
}

func refused(params string) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(params), "=")
	if name != "q" {
		return false
	}
	q, err := strconv.ParseFloat(value, 64)
	return err == nil && q == 0
}

// Body is the body of a response whose length is not known before it is written. Without compression everything goes
// straight through. With it the first CompressAbove bytes are held back, and a body that stays below is sent plainly.
//
// A client that stops reading is cut off: it has a minute for each MiB.
type Body struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	code int

	coding string // "", or the coding that is used once the body proves large
	held   []byte
	packer Packer // set once compressing
	sent   bool   // the header has been written

	allowed int // bytes that may still be written before the deadline is moved
	grant   *listmemory.Grant

	mu  sync.Mutex
	cut bool // by grant: nothing more is written
	end bool // the connection may be another response's now
}

const (
	stall      = time.Minute // how long a client may take for stallBytes
	stallBytes = 1 << 20
)

// NewBody starts a body; the header's other fields must be set already.
func NewBody(w http.ResponseWriter, r *http.Request, code int) *Body {
	return &Body{w: w, c: http.NewResponseController(w), code: code, coding: AcceptsEncoding(r)}
}

// Count has the body tell g when it waits for the client, and end when g is cut off.
func (b *Body) Count(g *listmemory.Grant) {
	b.grant = g
	g.OnCut(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.cut = true; !b.end {
			b.deadline(time.Now())
		}
	})
}

// errCut is what a body says that its budget has cut off.
var errCut = errors.New("cut off: others need the memory that this response holds")

// extend gives the client time for the next bytes.
func (b *Body) extend() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return errCut
	}
	b.deadline(time.Now().Add(stall))
	return nil
}

// Write adds to the body.
func (b *Body) Write(p []byte) (int, error) {
	if b.allowed -= len(p); b.allowed < 0 {
		b.allowed = stallBytes
		if err := b.extend(); err != nil {
			return 0, err
		}
	}
	b.grant.Writing()
	defer b.grant.Written()
	switch {
	case b.packer != nil:
		return b.packer.Write(p)
	case b.coding == "":
		b.start()
		return b.w.Write(p)
	case len(b.held)+len(p) <= CompressAbove:
		b.held = append(b.held, p...)
		return len(p), nil
	}
	b.announce()
	b.start()
	b.packer = NewPacker(b.w, b.coding)
	if _, err := b.packer.Write(b.held); err != nil {
		return 0, err
	}
	b.held = nil
	return b.packer.Write(p)
}

// Coding returns the content coding that the body will have if it proves large, "" if none.
func (b *Body) Coding() string { return b.coding }

// Compressed says that what will be written is large and in the body's coding already.
func (b *Body) Compressed() {
	b.announce()
	b.coding = ""
}

// Abandon takes back the header of a body that has not Started, so that another one can be written.
func (b *Body) Abandon() {
	b.mu.Lock()
	b.end = true
	b.mu.Unlock()
	h := b.w.Header()
	h.Del("Content-Type")
	h.Del("Content-Encoding")
	h.Del("Vary")
}

// announce sets the header of a compressed body.
func (b *Body) announce() {
	h := b.w.Header()
	h.Set("Content-Encoding", b.coding)
	h.Add("Vary", "Accept-Encoding")
}

// deadline bounds writing. Where the transport cannot do that, it bounds requests in its own way.
func (b *Body) deadline(t time.Time) { _ = b.c.SetWriteDeadline(t) }

func (b *Body) start() {
	if !b.sent {
		b.sent = true
		b.w.WriteHeader(b.code)
	}
}

// Started says that the status has been sent, so that an error can no longer be answered with another one.
func (b *Body) Started() bool { return b.sent }

// Close ends the body. It must be called once, also after a failed Write.
func (b *Body) Close() error {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.end = true
		b.deadline(time.Time{}) // the connection may serve further requests
	}()
	if b.packer != nil {
		err := b.packer.Close()
		ReleasePacker(b.packer)
		b.packer = nil
		return err
	}
	if !b.sent && b.coding != "" {
		b.w.Header().Set("Content-Length", strconv.Itoa(len(b.held)))
	}
	b.start()
	_, err := b.w.Write(b.held)
	return err
}

// A compressor's tables are about 1 MB at level 1; they are kept for the next body.
var (
	gzips = sync.Pool{New: func() any { z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return z }}
	zlibs = sync.Pool{New: func() any { z, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed); return z }}
)

// Packer compresses what is written to it; Flush sends what it has.
type Packer interface {
	io.WriteCloser
	Flush() error
}

// NewPacker returns a packer for a coding that AcceptsEncoding named. It is given back with ReleasePacker.
func NewPacker(w io.Writer, coding string) Packer {
	if coding == "deflate" {
		z := zlibs.Get().(*zlib.Writer)
		z.Reset(w)
		return z
	}
	z := gzips.Get().(*gzip.Writer)
	z.Reset(w)
	return z
}

// ReleasePacker gives a closed packer back.
func ReleasePacker(p Packer) {
	switch z := p.(type) {
	case *gzip.Writer:
		gzips.Put(z)
	case *zlib.Writer:
		zlibs.Put(z)
	}
}
