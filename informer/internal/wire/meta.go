package wire

import "vigil/internal/protobuf"

// ReadMeta finds the metadata in an object's bytes. It fails with ErrMalformed.
func ReadMeta(e Encoding, b []byte, m *Meta) error {
	if e == JSON {
		return jsonMeta(b, m)
	}
	return protoMeta(b, m)
}

// Labels calls yield for every label until it returns false. Key and value are parts of b unless they had to be
// unescaped. Malformed bytes end it early.
func Labels(e Encoding, b []byte, yield func(key, value []byte) bool) {
	stringMap(e, b, metaLabels, "labels", yield)
}

// Annotations is Labels for annotations.
func Annotations(e Encoding, b []byte, yield func(key, value []byte) bool) {
	stringMap(e, b, metaAnnotations, "annotations", yield)
}

func stringMap(e Encoding, b []byte, num int32, name string, yield func(key, value []byte) bool) {
	metadata(e, b, num, name, func(s Span) bool {
		if e == Proto {
			k, v, ok := mapEntry(b, s)
			return ok && yield(k.Of(b), v.Of(b))
		}
		in := walkJSON(b, s.Start)
		for in.next() {
			k, ok1 := text(b, in.key)
			v, ok2 := text(b, in.value)
			if ok1 && ok2 && !yield(k, v) {
				return false
			}
		}
		return true
	})
}

// metadata calls found for each occurrence of one field of the object's metadata until it returns false.
func metadata(e Encoding, b []byte, num int32, name string, found func(Span) bool) {
	if e == JSON {
		top := walkJSON(b, 0)
		for top.next() {
			if !top.is("metadata") {
				continue
			}
			in := walkJSON(b, top.value.Start)
			for in.next() {
				if in.is(name) && !found(in.value) {
					return
				}
			}
		}
		return
	}
	f := walk(b, Span{0, len(b)})
	for f.next() {
		if f.num != objectMetadata || f.typ != protobuf.Bytes {
			continue
		}
		g := walk(b, f.span)
		for g.next() {
			if g.num == num && g.typ == protobuf.Bytes && !found(g.span) {
				return
			}
		}
	}
}

// Owner is one owner reference. Its fields are copies.
type Owner struct {
	APIVersion, Kind, Name, UID string
	Controller                  bool
}

// Owners calls yield for every owner reference until it returns false.
func Owners(e Encoding, b []byte, yield func(Owner) bool) {
	metadata(e, b, metaOwnerReferences, "ownerReferences", func(s Span) bool {
		if e == Proto {
			return yield(protoOwner(b, s))
		}
		more := true
		_ = elements(b, s.Start, func(s Span) error {
			if more = more && yield(jsonOwner(b, s)); !more {
				return errJSON // any error stops the walk
			}
			return nil
		})
		return more
	})
}

// OwnerUIDs calls yield for every owner reference with its uid and whether it is the controller, until yield returns false. The uid is a
// part of b unless it had to be unescaped.
func OwnerUIDs(e Encoding, b []byte, yield func(uid []byte, controller bool) bool) {
	if e == JSON {
		Owners(e, b, func(o Owner) bool { return yield([]byte(o.UID), o.Controller) })
		return
	}
	metadata(e, b, metaOwnerReferences, "", func(s Span) bool {
		var uid []byte
		controller := false
		f := walk(b, s)
		for f.next() {
			switch {
			case f.num == ownerController && f.typ == protobuf.Varint:
				controller = f.val != 0
			case f.num == ownerUID && f.typ == protobuf.Bytes:
				uid = f.span.Of(b)
			}
		}
		return yield(uid, controller)
	})
}

// ControllerUID returns the uid of the owner reference that says controller: true, nil when there is none.
func ControllerUID(e Encoding, b []byte) (found []byte) {
	OwnerUIDs(e, b, func(uid []byte, controller bool) bool {
		if controller {
			found = uid
		}
		return !controller
	})
	return found
}

func protoOwner(b []byte, s Span) (o Owner) {
	f := walk(b, s)
	for f.next() {
		switch {
		case f.num == ownerController && f.typ == protobuf.Varint:
			o.Controller = f.val != 0
		case f.typ != protobuf.Bytes:
		case f.num == ownerAPIVersion:
			o.APIVersion = string(f.span.Of(b))
		case f.num == ownerKind:
			o.Kind = string(f.span.Of(b))
		case f.num == ownerName:
			o.Name = string(f.span.Of(b))
		case f.num == ownerUID:
			o.UID = string(f.span.Of(b))
		}
	}
	return o
}

func jsonOwner(b []byte, s Span) (o Owner) {
	m := walkJSON(b, s.Start)
	for m.next() {
		v, _ := text(b, m.value)
		switch {
		case m.is("controller"):
			o.Controller = string(m.value.Of(b)) == "true"
		case m.is("apiVersion"):
			o.APIVersion = string(v)
		case m.is("kind"):
			o.Kind = string(v)
		case m.is("name"):
			o.Name = string(v)
		case m.is("uid"):
			o.UID = string(v)
		}
	}
	return o
}

// Strings calls yield for every string at a path of protobuf field numbers from the kind's message down (a repeated
// field on the way is followed in each of its elements) until it returns false.
func Strings(message []byte, path []int32, yield func([]byte) bool) {
	if len(path) > 0 {
		descend(message, Span{0, len(message)}, path, yield)
	}
}

func descend(b []byte, s Span, path []int32, yield func([]byte) bool) bool {
	f := walk(b, s)
	for f.next() {
		if f.num != path[0] || f.typ != protobuf.Bytes {
			continue
		}
		if len(path) == 1 {
			if !yield(f.span.Of(b)) {
				return false
			}
		} else if !descend(b, f.span, path[1:], yield) {
			return false
		}
	}
	return true
}
