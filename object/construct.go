package object

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/internal/protobuf"
)

// maxStored bounds the size of one object, so that offsets fit 32 bits. etcd's own limit is a few MiB.
const maxStored = math.MaxInt32

// NewVersion makes the version that etcd holds at key with mod revision rev. stored is the value in etcd, protobuf
// behind the k8s envelope or JSON; nothing of it is kept. Types without a Go type must be JSON. An object of another
// kind or API version, a damaged envelope and damaged metadata are ErrMalformed. For a view the version is of the stored
// type.
func NewVersion(t *Type, key string, rev int64, stored []byte) (*Version, error) {
	v, err := newVersion(t.base(), key, rev, stored)
	if err != nil {
		return nil, fmt.Errorf("read %s at revision %d: %w", key, rev, err)
	}
	return v, nil
}

func newVersion(t *Type, key string, rev int64, stored []byte) (*Version, error) {
	if len(stored) > maxStored {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(stored))
	}
	switch {
	case !t.layout().protobuf:
		return newJSON(t, key, rev, stored)
	case !hasEnvelope(stored) && t.Form != nil:
		obj, err := t.Form.decode(t, stored)
		if err != nil {
			return nil, err
		}
		return newTyped(t, key, rev, obj)
	case !hasEnvelope(stored):
		obj, err := decodeTypedJSON(t, stored)
		if err != nil {
			return nil, err
		}
		return newTyped(t, key, rev, obj)
	}
	raw, err := openEnvelope(t, stored)
	if err != nil {
		return nil, err
	}
	if m, ok := splitMessage(raw); ok {
		return newProto(t, key, rev, m), nil
	}
	// Not as the generated code writes it: let it read and write the message.
	obj := t.New()
	if err := obj.(protoMessage).Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return newTyped(t, key, rev, obj)
}

// FromObject makes the version that a write of obj at revision rev left in etcd. obj is read, not kept and not
// changed; its resource version and self link do not matter.
func FromObject(t *Type, key string, rev int64, obj runtime.Object) (*Version, error) {
	var v *Version
	var err error
	if t.layout().protobuf {
		v, err = newTyped(t, key, rev, obj)
	} else {
		var stored []byte
		if stored, err = EncodeStored(t, obj); err == nil {
			v, err = newJSON(t, key, rev, stored)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s at revision %d: %w", key, rev, err)
	}
	return v, nil
}

// EncodeStored returns the bytes that etcd is to hold for obj: the protobuf envelope with the type's API version and
// kind, or JSON for types without protobuf; without resource version and self link. obj is not changed. An object of a
// view is converted.
func EncodeStored(t *Type, obj runtime.Object) ([]byte, error) {
	if t.View != nil {
		converted, err := t.View.ToStored(obj)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
		}
		return EncodeStored(t.View.Stored, converted)
	}
	switch {
	case t.Form != nil:
		return t.Form.encode(t, obj)
	case !t.layout().protobuf:
		return encodeStoredJSON(t, obj)
	}
	var stored []byte
	err := marshal(obj, func(m message) { stored = m.seal(t.layout().head, nil) })
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
	}
	return stored, nil
}

// newTyped encodes obj as protobuf.
func newTyped(t *Type, key string, rev int64, obj runtime.Object) (v *Version, err error) {
	err = marshal(obj, func(m message) { v = newProto(t, key, rev, m) })
	return v, err
}

// newProto composes the served envelope and notes where its parts are.
func newProto(t *Type, key string, rev int64, m message) *Version {
	digits := formatRevision(rev)
	v := &Version{typ: t, key: key, rev: rev, wire: m.seal(t.layout().head, digits.bytes())}
	metaSize := m.metadataSize(digits.n)
	msgSize := protobuf.SizeBytes(metaSize) + len(m.rest)
	msg := len(v.wire) - len(envelopeTail) - msgSize
	meta := msg + protobuf.SizeBytes(metaSize) - metaSize
	v.msg, v.meta, v.metaEnd = uint32(msg), uint32(meta), uint32(meta+metaSize)
	v.rv = v.meta + uint32(len(m.head)) + 2
	v.labels = findLabels(v.wire, int(v.rv)+digits.n, int(v.metaEnd))
	return v
}

// findLabels returns the offset of the first label in the metadata fields b[start:end], 0 when there is none.
func findLabels(b []byte, start, end int) uint32 {
	for i := start; i < end; {
		f, ok := protobuf.Next(b[:end], i)
		if !ok || f.Num > metaLabels {
			return 0
		}
		if f.Num == metaLabels {
			return uint32(i)
		}
		i = f.End
	}
	return 0
}

// scratch holds buffers in which objects are encoded before they are copied to their exact place.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// marshal encodes obj's message into a borrowed buffer and hands its parts to use, without resource version and self
// link. The parts are valid until use returns.
func marshal(obj runtime.Object, use func(message)) error {
	pm, ok := obj.(protoMessage)
	if !ok {
		return fmt.Errorf("%T: %w", obj, ErrNoProtobuf)
	}
	size := pm.Size()
	if size > maxStored {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, size)
	}
	borrowed := scratch.Get().(*[]byte)
	defer scratch.Put(borrowed)
	buf := slices.Grow((*borrowed)[:0], size)[:size]
	*borrowed = buf
	n, err := pm.MarshalToSizedBuffer(buf)
	if err != nil {
		return err
	}
	m, ok := splitMessage(buf[size-n:])
	if !ok {
		return fmt.Errorf("%w: %T does not begin with metadata", ErrMalformed, obj)
	}
	if meta, ok := obj.(v1.Object); ok && meta.GetSelfLink() != "" {
		m.head = emptyField(m.head, metaSelfLink)
	}
	use(m)
	return nil
}

// emptyField empties the string field num of the message b, in place.
func emptyField(b []byte, num int32) []byte {
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return b
		}
		if f.Num == num {
			after := b[f.End:]
			return append(protobuf.AppendBytes(b[:i], num, ""), after...)
		}
		i = f.End
	}
	return b
}

// At returns the same object at another revision: a deletion carries the last state with the revision of the
// deletion.
func (v *Version) At(rev int64) *Version {
	switch {
	case rev == v.rev:
		return v
	case v.isProto():
		return newProto(v.typ, v.key, rev, v.split())
	}
	return v.jsonAt(rev)
}

// Stored returns a fresh copy of the form that etcd holds: without resource version.
func (v *Version) Stored() []byte {
	if !v.isProto() {
		return v.storedJSON()
	}
	if v.typ.Form != nil {
		stored, err := v.storedForm()
		if err == nil {
			return stored
		}
		// It was decoded when it was read, so it cannot fail; protobuf can be read, too.
	}
	m := v.split()
	return m.seal(v.typ.layout().head, nil)
}

// EqualStored reports whether stored, as made by EncodeStored, holds what etcd holds for v, so that writing it
// would change nothing. It allocates nothing for protobuf.
func (v *Version) EqualStored(stored []byte) bool {
	if !v.isProto() {
		return bytes.Equal(v.storedJSON(), stored)
	}
	if v.typ.Form != nil {
		mine, err := v.storedForm()
		return err == nil && bytes.Equal(mine, stored)
	}
	raw, err := openEnvelope(v.typ, stored)
	if err != nil {
		return false
	}
	m, ok := splitMessage(raw)
	if !ok {
		return false
	}
	mine := v.split()
	return bytes.Equal(m.head, mine.head) && bytes.Equal(m.tail, mine.tail) && bytes.Equal(m.rest, mine.rest)
}
