package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"vigil/object/internal/transcode"
)

// encodings are the forms of a version that are made on demand, each once unless they have been released. Most versions are never asked for
// any, so a Version holds only a pointer to them.
type encodings struct {
	mu       sync.Mutex // held while one is made; callers that come meanwhile wait for it
	json     form       // the whole object as JSON
	metaJSON form       // PartialObjectMetadata as JSON
	metaWire form       // PartialObjectMetadata as a protobuf envelope
	viewed   viewedForm // as another type

	compressed [2]atomic.Pointer[compressed] // as an item of a list, for each Encoding; set with mu held

	packed, packedMeta [2]packedForm // as it stands in a compressed watch stream, for each Encoding; set with mu held
}

// form is one encoding, nil before it is made.
type form = atomic.Pointer[encoded]

type encoded struct {
	bytes []byte
	parts [][]byte // instead of bytes, of large JSON; see parts.go
	err   error
}

// whole returns the encoding in one piece.
func (e *encoded) whole() ([]byte, error) {
	if e.parts != nil {
		return bytes.Join(e.parts, nil), nil
	}
	return e.bytes, e.err
}

// get returns the encoding f, which build makes if nobody has yet.
func (e *encodings) get(f *form, v *Version, build func(*Version) ([]byte, error)) ([]byte, error) {
	made := f.Load()
	if made == nil {
		made = e.make(f, v, func(v *Version) (made encoded) {
			made.bytes, made.err = build(v)
			return made
		})
	}
	return made.bytes, made.err
}

func (e *encodings) make(f *form, v *Version, build func(*Version) encoded) *encoded {
	e.mu.Lock()
	defer e.mu.Unlock()
	if made := f.Load(); made != nil {
		return made
	}
	made := build(v)
	f.Store(&made)
	return &made
}

func (e *encodings) sizeBytes(v *Version) int {
	n := int(unsafe.Sizeof(*e)) + e.viewed.Load().sizeBytes()
	for _, f := range []*form{&e.json, &e.metaJSON, &e.metaWire} {
		if made := f.Load(); made != nil {
			n += int(unsafe.Sizeof(*made)) + cap(made.bytes) + v.ownParts(made.parts)
		}
	}
	for i := range e.compressed {
		n += e.compressed[i].Load().sizeBytes() + e.packed[i].Load().sizeBytes() + e.packedMeta[i].Load().sizeBytes()
	}
	return n
}

// encodings returns the place for the forms made on demand. Who is given one that Release takes out at once makes the form for itself.
func (v *Version) encodings() *encodings {
	for {
		if made := v.made.Load(); made != nil {
			return made
		}
		if made := new(encodings); v.made.CompareAndSwap(nil, made) {
			return made
		}
	}
}

// Release lets go of all forms that were made on demand: of a version that has been replaced for so long that hardly anybody will ask for
// them once more. Who has one keeps it; who asks later has it made again.
func (v *Version) Release() { v.made.Store(nil) }

// ReleaseWatched lets go of the forms that watches ask for when the version is new, and keeps those that lists go on asking for. It
// waits for nobody: while a form is being made it does nothing.
func (v *Version) ReleaseWatched() {
	made := v.made.Load()
	if made == nil || !made.mu.TryLock() {
		return
	}
	defer made.mu.Unlock()
	if v.isProto() { // otherwise lists are made of it
		made.metaWire.Store(nil)
	}
	listed := made.json.Load() != nil || made.metaJSON.Load() != nil || made.metaWire.Load() != nil || made.viewed.Load() != nil
	for i := range made.packed {
		made.packed[i].Store(nil)
		made.packedMeta[i].Store(nil)
		listed = listed || made.compressed[i].Load() != nil
	}
	if !listed {
		v.made.Store(nil)
	}
}

// JSON returns the object as JSON, with resource version, without a newline at the end. Kinds with a Go type have
// the order of the Go struct, kind and apiVersion first; the others are sorted. Large objects are put together anew each time: where it can
// be avoided, use AppendJSON or LargeJSON.
func (v *Version) JSON() ([]byte, error) {
	if !v.isProto() {
		return v.wire, nil
	}
	return v.json().whole()
}

// json returns the JSON form. Only for protobuf.
func (v *Version) json() *encoded {
	e := v.encodings()
	if made := e.json.Load(); made != nil {
		return made
	}
	return e.make(&e.json, v, (*Version).makeJSONForm)
}

// passingJSON returns the same as JSON, but does not keep what it makes.
func (v *Version) passingJSON() ([]byte, error) {
	if !v.isProto() {
		return v.wire, nil
	}
	if made := v.made.Load(); made != nil {
		if f := made.json.Load(); f != nil {
			return f.whole()
		}
	}
	return v.makeJSON()
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
	var made []byte
	transcoding(p, head, msg, func(out []byte) { made = append(make([]byte, 0, len(out)), out...) })
	return made
}

// transcoding calls use with the object as transcodeJSON returns it, in bytes that are valid during the call, unless only decoding can make it.
func transcoding(p *transcode.Plan, head string, msg []byte, use func(out []byte)) {
	if p == nil {
		return
	}
	borrowed := scratch.Get().(*[]byte)
	defer scratch.Put(borrowed)
	out, err := p.Append(append((*borrowed)[:0], head...), msg)
	*borrowed = out
	if err == nil {
		use(out)
	}
}
