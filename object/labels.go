package object

import (
	"k8s.io/apimachinery/pkg/labels"

	"vigil/internal/protobuf"
)

// Labels returns the object's labels for a selector. Nothing is allocated, here or in the returned value's methods;
// the strings are parts of the object's bytes.
func (v *Version) Labels() labels.Labels { return (*labelView)(v) }

// labelView is a Version seen as labels.Labels.
type labelView Version

func (l *labelView) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

func (l *labelView) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

func (l *labelView) Lookup(key string) (string, bool) {
	if l.labels == 0 {
		return "", false
	}
	if l.msg == 0 {
		return (*Version)(l).jsonLabel(key)
	}
	return lookupEntry(l.wire[:l.metaEnd], int(l.labels), metaLabels, key)
}

// EachLabel calls fn with every label, in the order of the bytes. Nothing is allocated for protobuf; the strings are parts
// of the object's bytes.
func (v *Version) EachLabel(fn func(key, value string)) {
	switch {
	case v.labels == 0:
	case v.msg == 0:
		v.eachJSONLabel(fn)
	default:
		b := v.wire[:v.metaEnd]
		for i := int(v.labels); i < len(b); {
			f, ok := protobuf.Next(b, i)
			if !ok || f.Num != metaLabels {
				break
			}
			if key, value, ok := splitEntry(b[f.Start:f.End]); ok {
				fn(view(key), view(value))
			}
			i = f.End
		}
	}
}

// lookupEntry searches the map<string,string> field num, whose first entry's tag is at b[i], for key. The entries must
// have passed splitEntry.
func lookupEntry(b []byte, i int, num int32, key string) (value string, found bool) {
	for i < len(b) {
		f, ok := protobuf.Next(b, i)
		if !ok || f.Num != num {
			break
		}
		// The sizes alone rule out most entries: 0a K key 12 V value.
		if e := b[f.Start:f.End]; len(e) >= len(key)+4 && (len(key) >= 0x80 || int(e[1]) == len(key)) {
			if k, v, ok := splitEntry(e); ok && string(k) == key {
				return view(v), true
			}
		}
		i = f.End
	}
	return "", false
}

// splitEntry returns key and value of a map entry. It reports false when the entry is not as the generated marshallers
// write it: key and value, each once, in this order.
func splitEntry(b []byte) (key, value []byte, ok bool) {
	k, ok := protobuf.Next(b, 0)
	if !ok || k.Num != 1 || k.Type != protobuf.Bytes {
		return nil, nil, false
	}
	v, ok := protobuf.Next(b, k.End)
	if !ok || v.Num != 2 || v.Type != protobuf.Bytes || v.End != len(b) || k.Start != 1+protobuf.SizeUvarint(uint64(k.End-k.Start)) {
		return nil, nil, false
	}
	return b[k.Start:k.End], b[v.Start:v.End], true
}
