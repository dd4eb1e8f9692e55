package object

import (
	"bytes"
	"encoding/json"
	"strings"

	"vigil/internal/jsonscan"
)

// jsonMeta returns a string member of metadata.
func (v *Version) jsonMeta(name string) string {
	m, ok := jsonscan.Find(v.wire, int(v.meta), name)
	if !ok {
		return ""
	}
	text, _ := stringAt(v.wire, m.Start)
	return text
}

func (v *Version) jsonLabel(key string) (string, bool) {
	for i := int(v.labels) + 1; ; {
		m, ok := jsonscan.Next(v.wire, i)
		if !ok {
			return "", false
		}
		if string(m.Key) == key || bytes.IndexByte(m.Key, '\\') >= 0 && unquote(v.wire[m.KeyStart:m.KeyStart+len(m.Key)+2]) == key {
			return stringAt(v.wire, m.Start)
		}
		i = m.End
	}
}

func (v *Version) eachJSONLabel(fn func(key, value string)) {
	for i := int(v.labels) + 1; ; {
		m, ok := jsonscan.Next(v.wire, i)
		if !ok {
			return
		}
		key, _ := stringAt(v.wire, m.KeyStart)
		if value, ok := stringAt(v.wire, m.Start); ok {
			fn(key, value)
		}
		i = m.End
	}
}

// jsonField returns the leaf that the field's label names: the members along the dots. Strings are unquoted, other
// scalars stay as written; everything else reads as the default.
func (v *Version) jsonField(f *Field) string {
	i, path := 0, f.Label
	for {
		name, rest, more := strings.Cut(path, ".")
		m, ok := jsonscan.Find(v.wire, i, name)
		if !ok {
			return f.Default
		}
		if !more {
			return scalarAt(v.wire, m, f.Default)
		}
		i, path = m.Start, rest
	}
}

func scalarAt(b []byte, m jsonscan.Member, absent string) string {
	switch b[m.Start] {
	case '{', '[', 'n':
		return absent
	case '"':
		text, _ := stringAt(b, m.Start)
		return text
	}
	return view(b[m.Start:m.End])
}

// stringAt returns the JSON string at b[i]; it reports false when there is none.
func stringAt(b []byte, i int) (string, bool) {
	if i >= len(b) || b[i] != '"' {
		return "", false
	}
	end, _, ok := jsonscan.Value(b, i)
	if !ok {
		return "", false
	}
	if inner := b[i+1 : end-1]; bytes.IndexByte(inner, '\\') < 0 {
		return view(inner), true
	}
	return unquote(b[i:end]), true
}

// unquote decodes a JSON string with escapes.
func unquote(quoted []byte) string {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return ""
	}
	return s
}
