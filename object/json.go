package object

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"vigil/object/internal/transcode"
)

// encodings are the forms of a version that are made on demand, each at most once.
type encodings struct {
	json     lazy // the whole object as JSON
	metaJSON lazy // PartialObjectMetadata as JSON
	metaWire lazy // PartialObjectMetadata as a protobuf envelope
}

// lazy is one encoding: the first caller makes it, callers that come meanwhile wait for it.
type lazy struct {
	ready atomic.Bool // bytes and err may be read
	mu    sync.Mutex  // held while they are made
	bytes []byte
	err   error
}

func (l *lazy) get(v *Version, build func(*Version) ([]byte, error)) ([]byte, error) {
	if !l.ready.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ready.Load() {
			l.bytes, l.err = build(v)
			l.ready.Store(true)
		}
	}
	return l.bytes, l.err
}

func (l *lazy) sizeBytes() int {
	if !l.ready.Load() {
		return 0
	}
	return cap(l.bytes)
}

func (e *encodings) sizeBytes() int {
	return int(unsafe.Sizeof(*e)) + e.json.sizeBytes() + e.metaJSON.sizeBytes() + e.metaWire.sizeBytes()
}

// encodings returns the place for the forms made on demand.
func (v *Version) encodings() *encodings {
	if made := v.made.Load(); made != nil {
		return made
	}
	v.made.CompareAndSwap(nil, &encodings{})
	return v.made.Load()
}

// JSON returns the object as JSON, with resource version, without a newline at the end. Kinds with a Go type have
// the order of the Go struct, kind and apiVersion first; the others are sorted.
func (v *Version) JSON() ([]byte, error) {
	if !v.isProto() {
		return v.wire, nil
	}
	return v.encodings().json.get(v, (*Version).makeJSON)
}

// AppendJSONItem appends the object as it stands in a JSON list: items of typed lists have no kind and apiVersion,
// those of custom resources have both.
func (v *Version) AppendJSONItem(dst []byte) ([]byte, error) {
	full, err := v.JSON()
	if err != nil {
		return dst, err
	}
	if v.typ.New == nil {
		return append(dst, full...), nil
	}
	dst = append(dst, '{')
	return append(dst, full[len(v.typ.layout().jsonHead):]...), nil
}

// JSONItem returns a copy of what AppendJSONItem appends.
func (v *Version) JSONItem() ([]byte, error) { return v.AppendJSONItem(nil) }

func (v *Version) makeJSON() ([]byte, error) {
	head := v.typ.layout().jsonHead
	if b := transcodeJSON(v.typ.jsonPlan(), head[:len(head)-1], v.message()); b != nil {
		return b, nil
	}
	obj, err := v.decode()
	if err != nil {
		return nil, fmt.Errorf("encode %s at revision %d as JSON: %w", v.key, v.rev, err)
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s at revision %d as JSON: %w", v.key, v.rev, err)
	}
	return b, nil
}

// transcodeJSON returns the object that begins with head and goes on with the members of msg, in one allocation of the
// exact size. It returns nil when only decoding can make it.
func transcodeJSON(p *transcode.Plan, head string, msg []byte) []byte {
	if p == nil {
		return nil
	}
	borrowed := scratch.Get().(*[]byte)
	defer scratch.Put(borrowed)
	out, err := p.Append(append((*borrowed)[:0], head...), msg)
	*borrowed = out
	if err != nil {
		return nil
	}
	return append(make([]byte, 0, len(out)), out...)
}
