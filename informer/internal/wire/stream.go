package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"vigil/internal/protobuf"
)

// Type is the type of a watch event.
type Type uint8

// The types of watch events. Unknown stands for one that this package does not know.
const (
	Unknown Type = iota
	Added
	Modified
	Deleted
	Bookmark
	Error
)

func parseType(b []byte) Type {
	switch string(b) {
	case "ADDED":
		return Added
	case "MODIFIED":
		return Modified
	case "DELETED":
		return Deleted
	case "BOOKMARK":
		return Bookmark
	case "ERROR":
		return Error
	}
	return Unknown
}

// Event is one watch event. Its bytes belong to the stream and are valid until the next call of Next.
type Event struct {
	Type   Type
	Object []byte // without the k8s\0 envelope
	Meta   Meta   // of Object; zero for Error
}

// Stream reads a watch stream: length-prefixed meta.v1.WatchEvent messages (Proto) or one JSON object after another.
type Stream struct {
	buf      buffer
	encoding Encoding
	last     int // bytes of the frame returned last, not yet taken
}

// NewStream reads from r, which it never closes.
func NewStream(r io.Reader, e Encoding) *Stream {
	return &Stream{buf: buffer{r: r}, encoding: e}
}

// Encoding returns how the objects of this stream are encoded.
func (s *Stream) Encoding() Encoding { return s.encoding }

// Next reads the next event. It returns io.EOF when the stream ended between two events, io.ErrUnexpectedEOF when it
// ended within one, ErrMalformed or ErrTooLarge when it cannot be followed any further, and otherwise the reader's error.
func (s *Stream) Next(ev *Event) error {
	s.buf.take(s.last)
	s.last = 0
	frame, err := s.frame()
	if err != nil {
		return err
	}
	if s.encoding == JSON {
		err = jsonEvent(frame, ev)
	} else {
		err = protoEvent(frame, ev)
	}
	if err != nil || ev.Type == Error {
		ev.Meta = Meta{}
		return err
	}
	return ReadMeta(s.encoding, ev.Object, &ev.Meta)
}

// Ready says that the next call of Next will not have to wait for the network.
func (s *Stream) Ready() bool {
	have := s.buf.have()[s.last:]
	if s.encoding == JSON {
		return bytes.IndexByte(have[skipSpace(have, 0):], '\n') >= 0
	}
	return len(have) >= 4 && uint64(len(have)-4) >= uint64(binary.BigEndian.Uint32(have))
}

// frame returns the bytes of the next frame without its length, and notes how many to take before the one after it.
func (s *Stream) frame() ([]byte, error) {
	if s.encoding == JSON {
		return s.jsonFrame()
	}
	if err := s.buf.fill(4); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(s.buf.have())
	if n > MaxObject {
		return nil, fmt.Errorf("%w: a frame of %d bytes", ErrTooLarge, n)
	}
	if err := s.buf.fill(4 + int(n)); err != nil {
		return nil, unexpected(err)
	}
	s.last = 4 + int(n)
	return s.buf.have()[4:s.last], nil
}

func (s *Stream) jsonFrame() ([]byte, error) {
	for {
		have := s.buf.have()
		if i := skipSpace(have, 0); i < len(have) {
			s.buf.take(i)
			break
		}
		s.buf.take(len(have))
		if err := s.buf.fill(1); err != nil {
			return nil, err
		}
	}
	for {
		have := s.buf.have()
		if have[0] != '{' {
			return nil, errJSON
		}
		if end := skipValue(have, 0); end > 0 {
			s.last = end
			return have[:end], nil
		}
		if err := s.untilWorthwhile(); err != nil {
			return nil, unexpected(err)
		}
	}
}

// untilWorthwhile reads on until it makes sense to look for the end of a value once more: at the end of a line, at the end of
// input, or when there is twice as much as before, so that the work stays linear in what arrives. It fails when
// nothing has come.
func (s *Stream) untilWorthwhile() error {
	before := len(s.buf.have())
	for seen := before; seen < 2*before; {
		if err := s.buf.more(); err != nil {
			if seen > before {
				return nil // the error stays: the next call meets it again
			}
			return err
		}
		fresh := s.buf.have()[seen:]
		if bytes.IndexByte(fresh, '\n') >= 0 {
			return nil
		}
		seen += len(fresh)
	}
	return nil
}

// unexpected turns the end of input within something into its error.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func protoEvent(frame []byte, ev *Event) error {
	ev.Type, ev.Object = Unknown, nil
	f := walk(frame, Span{0, len(frame)})
	for f.next() {
		switch {
		case f.typ != protobuf.Bytes:
		case f.num == watchEventType:
			ev.Type = parseType(f.span.Of(frame))
		case f.num == watchEventObject:
			g := walk(frame, f.span)
			for g.next() {
				if g.num == rawExtensionRaw && g.typ == protobuf.Bytes {
					ev.Object = g.span.Of(frame)
				}
			}
			if g.failed() {
				return errProto
			}
		}
	}
	if f.failed() {
		return errProto
	}
	if ev.Type == Error {
		return nil // keeps its envelope: it is a Status, perhaps
	}
	var err error
	ev.Object, err = Unwrap(ev.Object)
	return err
}

func jsonEvent(frame []byte, ev *Event) error {
	ev.Type, ev.Object = Unknown, nil
	m := walkJSON(frame, 0)
	for m.next() {
		switch {
		case m.is("type"):
			t, _ := text(frame, m.value)
			ev.Type = parseType(t)
		case m.is("object"):
			ev.Object = m.value.Of(frame)
		}
	}
	if m.failed() || len(ev.Object) == 0 {
		return errJSON
	}
	return nil
}
