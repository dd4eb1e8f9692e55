package informer

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer/internal/wire"
	"vigil/object"
)

// Object is one version of one object as it came from the server: its bytes, and where in them stands what one needs
// most. It never changes and may be kept and shared by anybody; keeping one keeps its bytes, keeping strings that came out of it
// does not. Everything but Decode costs little.
type Object struct {
	typ  *object.Type
	key  string // "namespace/name", or "name"; shared by all versions of the object
	data string // the kind's protobuf message, or JSON; a string because nobody may write to it

	rvStart, uidStart uint32 // places in data
	rvLen, uidLen     uint8
	namespaceLen      uint8 // of key
	encoding          wire.Encoding
}

// maxSpan is the length of the longest resourceVersion, uid or namespace that is accepted, in bytes.
const maxSpan = 255

// cutting has room in which managed fields are cut out of an object before it is copied.
var cutting = sync.Pool{New: func() any { return new([]byte) }}

// cuttingLimit bounds how much room is kept for the next object, in bytes.
const cuttingLimit = 64 << 10

// newObject makes an object of what a stream or list found. The bytes are copied, key is kept.
func newObject(t *object.Type, e wire.Encoding, key string, b []byte, m *wire.Meta, drop bool) (*Object, error) {
	if m.ResourceVersion.Len() > maxSpan || m.UID.Len() > maxSpan || m.Namespace.Len() > maxSpan {
		return nil, fmt.Errorf("object %q: %w metadata: a field is longer than %d bytes", key, wire.ErrMalformed, maxSpan)
	}
	o := &Object{typ: t, key: key, encoding: e, namespaceLen: uint8(m.Namespace.Len())}
	if drop {
		room := cutting.Get().(*[]byte)
		defer func() {
			if cap(*room) <= cuttingLimit {
				cutting.Put(room)
			}
		}()
		if cut, ok := wire.AppendWithoutManagedFields((*room)[:0], e, b); ok {
			*room = cut
			var moved wire.Meta
			if err := wire.ReadMeta(e, cut, &moved); err != nil {
				return nil, fmt.Errorf("object %q: %w", key, err)
			}
			b, m = cut, &moved
		}
	}
	o.rvStart, o.rvLen = uint32(m.ResourceVersion.Start), uint8(m.ResourceVersion.Len())
	o.uidStart, o.uidLen = uint32(m.UID.Start), uint8(m.UID.Len())
	o.take(b, m)
	return o, nil
}

// FromProto makes an object of a kind's protobuf message, as it would be had it come from a server. The bytes are copied.
func FromProto(t *object.Type, message []byte) (*Object, error) {
	var m wire.Meta
	if err := wire.ReadMeta(wire.Proto, message, &m); err != nil {
		return nil, err
	}
	key := keyOf(string(m.Namespace.Of(message)), string(m.Name.Of(message)))
	return newObject(t, wire.Proto, key, message, &m, false)
}

// Type says how the object is decoded.
func (o *Object) Type() *object.Type { return o.typ }

// Key returns the key under which informers hold the object: "namespace/name", or "name" outside namespaces.
func (o *Object) Key() string { return o.key }

// Namespace returns the object's namespace, "" when it has none.
func (o *Object) Namespace() string { return o.key[:o.namespaceLen] }

// Name returns the object's name.
func (o *Object) Name() string {
	if o.namespaceLen == 0 {
		return o.key
	}
	return o.key[int(o.namespaceLen)+1:]
}

// NamespacedName returns the object's name as work queues have it.
func (o *Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace(), Name: o.Name()}
}

// ResourceVersion returns the object's resource version.
func (o *Object) ResourceVersion() string { return strings.Clone(o.version()) }

// UID returns the object's uid.
func (o *Object) UID() types.UID { return types.UID(strings.Clone(o.uid())) }

// version and uid are parts of the bytes, for comparing.
func (o *Object) version() string { return o.data[o.rvStart : o.rvStart+uint32(o.rvLen)] }
func (o *Object) uid() string     { return o.data[o.uidStart : o.uidStart+uint32(o.uidLen)] }

// SizeBytes is the size of the encoded object.
func (o *Object) SizeBytes() int { return len(o.data) }

// Labels returns the object's labels as selectors want them, read from the bytes at each call.
func (o *Object) Labels() Labels { return Labels{o} }

// AppendLabels appends the labels in a form that is the same for objects that have the same ones in the same order, which is how servers
// write them. It is for keys of maps.
func (o *Object) AppendLabels(dst []byte) []byte {
	wire.Labels(o.encoding, o.bytes(), func(k, v []byte) bool {
		dst = append(append(append(append(dst, k...), 0), v...), 0)
		return true
	})
	return dst
}

// Annotation returns the value of one annotation.
func (o *Object) Annotation(name string) (value string, ok bool) {
	wire.Annotations(o.encoding, o.bytes(), func(k, v []byte) bool {
		if string(k) == name {
			value, ok = string(v), true
		}
		return !ok
	})
	return value, ok
}

// Controller returns the owner reference that says controller: true.
func (o *Object) Controller() (Owner, bool) {
	var found Owner
	wire.Owners(o.encoding, o.bytes(), func(w wire.Owner) bool {
		if w.Controller {
			found = Owner(w)
		}
		return !w.Controller
	})
	return found, found.Controller
}

// ControllerUID returns the uid of the owner reference that says controller: true, "" when there is none. It is a part of the object's
// bytes.
func (o *Object) ControllerUID() string { return part(wire.ControllerUID(o.encoding, o.bytes())) }

// Owners returns all owner references.
func (o *Object) Owners() []Owner {
	var all []Owner
	wire.Owners(o.encoding, o.bytes(), func(w wire.Owner) bool {
		all = append(all, Owner(w))
		return true
	})
	return all
}

// Owner is one owner reference.
type Owner struct {
	APIVersion, Kind, Name, UID string
	Controller                  bool
}

// Group returns the owner's API group, "" for core.
func (w Owner) Group() string {
	if g, _, ok := strings.Cut(w.APIVersion, "/"); ok {
		return g
	}
	return ""
}

// Decode returns a fresh copy that belongs to the caller, with kind and apiVersion set: of the type that Type.New makes,
// or *unstructured.Unstructured without one.
func (o *Object) Decode() (runtime.Object, error) {
	if o.typ.New == nil {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(o.bytes()); err != nil {
			return nil, fmt.Errorf("decode %s: %w", o.key, err)
		}
		return u, nil
	}
	obj := o.typ.New()
	var err error
	if o.encoding == wire.JSON {
		err = json.Unmarshal(o.bytes(), obj)
	} else if p, ok := obj.(protoMessage); ok {
		err = p.Unmarshal(o.bytes()) // copies what it keeps
	} else {
		err = fmt.Errorf("%T cannot be decoded from protobuf", obj)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", o.typ.Kind, o.key, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(o.typ.APIVersion, o.typ.Kind))
	return obj, nil
}

// bytes returns the object's bytes without copying them. Nobody may write to them.
func (o *Object) bytes() []byte { return unsafe.Slice(unsafe.StringData(o.data), len(o.data)) }

// Proto returns the kind's protobuf message, for those that read fields of it at every event. It is shared: never write to it. It
// reports false for objects that came as JSON.
func (o *Object) Proto() ([]byte, bool) { return o.bytes(), o.encoding == wire.Proto }

// part makes a string of bytes that nobody writes to: those of an object.
func part(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// As decodes o to its Go type. It fails when the bytes are malformed or of another type.
func As[T runtime.Object](o *Object) (T, error) {
	obj, err := o.Decode()
	if err != nil {
		var none T
		return none, err
	}
	t, ok := obj.(T)
	if !ok {
		return t, fmt.Errorf("decode %s: have %T, want %T", o.key, obj, t)
	}
	return t, nil
}

// keyOf makes the key of an object: "namespace/name", or "name" when namespace is empty.
func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Labels are the labels of an object, for labels.Selector.Matches. No map is built.
type Labels struct{ o *Object }

// Lookup returns the value of one label.
func (l Labels) Lookup(label string) (value string, exists bool) {
	wire.Labels(l.o.encoding, l.o.bytes(), func(k, v []byte) bool {
		if string(k) == label {
			value, exists = string(v), true
		}
		return !exists
	})
	return value, exists
}

// Has says whether the label is there.
func (l Labels) Has(label string) bool {
	_, ok := l.Lookup(label)
	return ok
}

// Get returns the value of one label, "" when it is not there.
func (l Labels) Get(label string) string {
	v, _ := l.Lookup(label)
	return v
}

// Map returns the labels as a map.
func (l Labels) Map() map[string]string {
	m := map[string]string{}
	wire.Labels(l.o.encoding, l.o.bytes(), func(k, v []byte) bool {
		m[string(k)] = string(v)
		return true
	})
	return m
}
