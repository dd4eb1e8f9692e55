package h2

import (
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

var (
	// ErrStreamClosed is what reading and writing end with once the stream is over: reset, finished, or gone with its
	// connection. The error that is returned says which and wraps it.
	ErrStreamClosed = errors.New("h2: stream closed")

	// ErrServerClosed comes from ServeConn after Shutdown or Close.
	ErrServerClosed = errors.New("h2: server closed")

	errClientGone   = fmt.Errorf("%w: the connection ended", ErrStreamClosed)
	errFinished     = fmt.Errorf("%w: the response is complete", ErrStreamClosed)
	errHandlerDone  = fmt.Errorf("%w: the handler has returned", ErrStreamClosed)
	errDetached     = fmt.Errorf("%w: the stream is detached", ErrStreamClosed)
	errBodyClosed   = errors.New("h2: request body closed by its reader")
	errStalledWrite = fmt.Errorf("%w: the client opened no window in time", ErrStreamClosed)
)

// ResetError says that a stream was ended by RST_STREAM. It wraps ErrStreamClosed.
type ResetError struct {
	Code   http2.ErrCode
	Remote bool // the client sent it
}

func (e *ResetError) Error() string {
	who := "server"
	if e.Remote {
		who = "client"
	}
	return fmt.Sprintf("h2: stream reset by the %s: %v", who, e.Code)
}

func (e *ResetError) Unwrap() error { return ErrStreamClosed }

// connError ends a connection with GOAWAY.
type connError struct {
	code   http2.ErrCode
	reason string // from a closed set: it is a key of Stats.Closed
}

func (e *connError) Error() string { return fmt.Sprintf("h2: %v: %s", e.code, e.reason) }

// streamError ends a stream with RST_STREAM and leaves the connection be.
type streamError struct {
	id     uint32
	code   http2.ErrCode
	reason string
}

func (e *streamError) Error() string {
	return fmt.Sprintf("h2: stream %d: %v: %s", e.id, e.code, e.reason)
}

func protocolError(reason string) error { return &connError{http2.ErrCodeProtocol, reason} }
