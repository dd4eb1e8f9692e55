package read

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"vigil/apiserver/negotiate"
	"vigil/apiserver/respond"
)

// sink is where the frames of a watch go. It is the seam between watches and the transport: whoever can take bytes and
// have them on their way when send returns will do.
type sink interface {
	// begin lets the client know that the watch runs, when nothing has been sent yet.
	begin()
	// send puts complete frames on their way.
	send(frames []byte) error
	// single says that send takes one frame at a time.
	single() bool
	// gone is closed when the client has left, nil when the request's context says that.
	gone() <-chan struct{}
	// expired is called when events have been lost while the client was not reading. It does not block.
	expired()
	// close ends the stream cleanly.
	close()
}

// sink opens the stream that a request asks for: the response's body or a WebSocket.
func (r *Reader) sink(w http.ResponseWriter, req *http.Request, form negotiate.Result, enc encoder, deadline time.Time) (sink, error) {
	if isWebSocket(req) {
		return newSocket(w, req, form)
	}
	c := http.NewResponseController(w)
	// A client that stops reading must not keep its goroutine much longer than its watch would last.
	if err := c.SetWriteDeadline(deadline.Add(time.Minute)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("limit the watch's time: %w", err)
	}
	respond.SetContentType(w.Header(), enc.contentType())
	b := &bodySink{w: w, c: c, lastChance: r.lastChance}
	w.WriteHeader(http.StatusOK)
	return b, nil
}

// bodySink writes frames to a response's body and flushes after each batch.
type bodySink struct {
	w http.ResponseWriter
	c *http.ResponseController

	lastChance time.Duration // see Config

	begun bool

	mu     sync.Mutex
	cut    *time.Timer // nil until events have been lost
	closed bool
}

func (b *bodySink) begin() {
	if !b.begun {
		b.begun = true
		// A failed flush shows again at the first send or as the end of the request's context.
		_ = b.c.Flush()
	}
}

func (b *bodySink) send(frames []byte) error {
	b.begun = true
	if _, err := b.w.Write(frames); err != nil {
		return err
	}
	return b.c.Flush()
}

func (*bodySink) single() bool { return false }

func (*bodySink) gone() <-chan struct{} { return nil }

func (b *bodySink) expired() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.cut = time.AfterFunc(b.lastChance, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.closed {
			// It fails only when the connection is gone already.
			_ = b.c.SetWriteDeadline(time.Now())
		}
	})
}

func (b *bodySink) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.cut != nil {
		b.cut.Stop()
	}
	// The connection may serve other requests after this one. It may be gone, too.
	_ = b.c.SetWriteDeadline(time.Time{})
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}
