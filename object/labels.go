package object

import (
	"k8s.io/apimachinery/pkg/labels"

	"vigil/object/internal/wire"
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

// lookupEntry searches the map<string,string> field num, whose first entry's tag is at b[i], for key.
func lookupEntry(b []byte, i int, num int32, key string) (value string, found bool) {
	for i < len(b) {
		f, ok := wire.Next(b, i)
		if !ok || f.Num != num {
			break
		}
		if k, v, ok := splitEntry(b[f.Start:f.End]); ok && string(k) == key {
			value, found = view(v), true // a later entry for the same key would replace this one
		}
		i = f.End
	}
	return value, found
}

// splitEntry returns key and value of a map entry.
func splitEntry(b []byte) (key, value []byte, ok bool) {
	for i := 0; i < len(b); {
		f, ok := wire.Next(b, i)
		if !ok {
			return nil, nil, false
		}
		switch {
		case f.Num == 1 && f.Type == wire.Bytes:
			key = b[f.Start:f.End]
		case f.Num == 2 && f.Type == wire.Bytes:
			value = b[f.Start:f.End]
		}
		i = f.End
	}
	return key, value, true
}
