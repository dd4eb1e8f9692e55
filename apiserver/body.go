package apiserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/authn"
	"vigil/apiserver/respond"
)

const (
	// maxBody is the largest body a request may have, in bytes.
	maxBody = 3 << 20
	// earlyBody is what is read of a body before the request's turn, in bytes: all of most.
	earlyBody = 64 << 10
	// maxEarly and maxLate are how many requests may wait for that, and for the rest of a larger body, without a seat: with 64 MiB and 192 MiB at most.
	// Further ones wait with their seats.
	maxEarly = 1024
	maxLate  = 64
)

// bodies counts the requests that wait for their bodies without a seat.
type bodies struct{ early, late atomic.Int64 }

// enter takes one of limit places and says whether there was one.
func enter(n *atomic.Int64, limit int64) bool {
	if n.Add(1) > limit {
		n.Add(-1)
		return false
	}
	return true
}

// body is what has been read of a request's body.
type body struct {
	buf  *[]byte // nil: nothing
	over bool    // there is no more to read
	err  error   // why
}

// hasBody says whether there may be something to read.
func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.Method != http.MethodGet && r.Method != http.MethodHead
}

// takeBody reads the body before the request has its seats, so that a client that sends slowly keeps nobody from working: up to earlyBody of it at once, and the rest,
// which may be much, when the request has been authorized in a turn of its own. Callers without credentials are authorized before the server reads anything. It
// reports false when the request has been answered.
func (c *call) takeBody() bool {
	if !hasBody(c.req) {
		return true
	}
	if c.req.ProtoMajor == 1 { // see deadline, which puts this off
		_ = http.NewResponseController(&c.rec).SetReadDeadline(time.Now().Add(c.server.requestTimeout))
	}
	if c.user.Name != authn.NameAnonymous && enter(&c.server.bodies.early, maxEarly) {
		c.body.read(c.req, earlyBody)
		c.server.bodies.early.Add(-1)
	}
	if c.body.over {
		return true
	}
	authorized := false
	c.inTurn(1, func() { authorized = c.authorize() })
	if !authorized {
		return false
	}
	if enter(&c.server.bodies.late, maxLate) {
		c.body.read(c.req, maxBody+1)
		c.server.bodies.late.Add(-1)
	}
	return true
}

// read reads on until limit bytes are there or the body is over. The error is a 413, a 400, or os.ErrDeadlineExceeded when the time for the body
// was up: the connection counts it by itself, and may say so a little before the request's context does.
func (b *body) read(r *http.Request, limit int) {
	if b.over {
		return
	}
	if !hasBody(r) {
		b.over = true
		return
	}
	if b.buf == nil {
		b.buf = respond.Buffer()
	}
	tooLarge := apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	if r.ContentLength > maxBody {
		b.over, b.err = true, tooLarge
		return
	}
	if n := int(r.ContentLength); n > 0 {
		// Room for the end, too, so that it is seen without growing; but not much on the word of the client alone.
		*b.buf = slices.Grow(*b.buf, max(min(n, limit, 256<<10)-len(*b.buf), 0)+bytes.MinRead)
	}
	for len(*b.buf) < limit {
		if cap(*b.buf)-len(*b.buf) < bytes.MinRead {
			*b.buf = slices.Grow(*b.buf, max(len(*b.buf), bytes.MinRead))
		}
		room := (*b.buf)[len(*b.buf):cap(*b.buf)]
		n, err := r.Body.Read(room[:min(len(room), limit-len(*b.buf))])
		*b.buf = (*b.buf)[:len(*b.buf)+n]
		if err == nil {
			continue
		}
		b.over = true
		switch {
		case len(*b.buf) > maxBody:
			b.err = tooLarge
		case errors.Is(err, io.EOF):
		case errors.Is(err, os.ErrDeadlineExceeded):
			b.err = err
		case errors.Is(err, io.ErrUnexpectedEOF):
			b.err = apierrors.NewBadRequest("unexpected end of the request's body")
		default:
			b.err = apierrors.NewBadRequest("read the request's body: " + err.Error())
		}
		return
	}
	if len(*b.buf) > maxBody {
		b.over, b.err = true, tooLarge
	}
}

// bytes are the body, once it has been read.
func (b *body) bytes() []byte {
	if b.buf == nil {
		return nil
	}
	return *b.buf
}

// release gives the buffer back.
func (b *body) release() {
	if b.buf != nil {
		respond.Release(b.buf)
		b.buf = nil
	}
}
