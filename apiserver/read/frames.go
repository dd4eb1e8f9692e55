package read

import (
	"bytes"

	"vigil/object"
)

// frames are events on their way to one client, as the parts they consist of: the bytes of the objects are shared with everybody
// and not copied before they reach the connection.
type frames struct {
	parts [][]byte // three for each frame: head, object, tail; more for objects in parts
	heads []byte   // where the heads are
	size  int      // of all parts, in bytes
}

// event adds an event. After an error nothing has been added.
func (f *frames) event(enc sharedEncoder, typ string, v *object.Version) error {
	at := len(f.heads)
	if e, ok := enc.(jsonEncoder); ok {
		if parts, tail := e.large(v); parts != nil {
			f.heads = object.AppendWatchEventJSONHead(f.heads, typ)
			f.add(f.heads[at:], parts[0], nil)
			for _, p := range parts[1:] {
				f.add(nil, p, nil)
			}
			f.add(nil, nil, tail)
			return nil
		}
	}
	head, body, tail, err := enc.split(f.heads, typ, v)
	if err != nil {
		return err
	}
	f.heads = head
	f.add(head[at:], body, tail)
	return nil
}

// own adds a frame that nobody else gets. It is kept, not copied.
func (f *frames) own(frame []byte) {
	if len(frame) > 0 {
		f.add(nil, frame, nil)
	}
}

func (f *frames) add(head, body, tail []byte) {
	f.parts = append(f.parts, head, body, tail)
	f.size += len(head) + len(body) + len(tail)
}

// rest returns what is left behind the first n bytes, as parts that stay valid after reset.
func (f *frames) rest(n int) (left [][]byte) {
	for i, p := range f.parts {
		if n >= len(p) {
			n -= len(p)
			continue
		}
		p, n = p[n:], 0
		if i%3 == 0 {
			p = bytes.Clone(p) // heads are overwritten
		}
		left = append(left, p)
	}
	return left
}

// reset makes room for the next client's frames.
func (f *frames) reset() {
	clear(f.parts) // lets go of the objects
	f.parts, f.heads, f.size = f.parts[:0], f.heads[:0], 0
}

// skip drops the first n bytes of parts.
func skip(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 && n >= len(parts[0]) {
		n -= len(parts[0])
		parts[0] = nil
		parts = parts[1:]
	}
	if len(parts) > 0 {
		parts[0] = parts[0][n:]
	}
	return parts
}
