package transcode

import (
	"bytes"
	"slices"

	"vigil/internal/protobuf"
)

// mapping writes the entries of a map field sorted by key; b begins at the first tag and ends with the last value. The
// generated marshallers sort maps already, so entries are written as they come as long as their keys ascend.
func (w *walker) mapping(dst []byte, f *field, b []byte, depth int) []byte {
	begin := len(dst)
	dst = append(dst, '{')
	var prev []byte
	first := true
	for i := 0; i < len(b); {
		e, ok := protobuf.Next(b, i)
		if !ok {
			return nil
		}
		i = e.End
		if e.Num != f.num {
			continue
		}
		entry, ok := parseEntry(&f.value, b[e.Start:e.End])
		if !ok {
			return nil
		}
		if !first && bytes.Compare(prev, entry.key) >= 0 {
			return w.sortedMapping(dst[:begin], f, b, depth)
		}
		if dst = w.entry(dst, &f.value, entry, first, depth); dst == nil {
			return nil
		}
		prev, first = entry.key, false
	}
	return append(dst, '}')
}

// sortedMapping is mapping for entries in any order; of entries with the same key the last one counts.
func (w *walker) sortedMapping(dst []byte, f *field, b []byte, depth int) []byte {
	var entries []entry
	for i := 0; i < len(b); {
		e, ok := protobuf.Next(b, i)
		if !ok {
			return nil
		}
		i = e.End
		if e.Num != f.num {
			continue
		}
		parsed, ok := parseEntry(&f.value, b[e.Start:e.End])
		if !ok {
			return nil
		}
		entries = append(entries, parsed)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	first := true
	for i, e := range entries {
		if i+1 < len(entries) && bytes.Equal(e.key, entries[i+1].key) {
			// A value that cannot be decoded is an error even where another replaces it; let the decoder say so.
			if f.value.kind.isMessage() {
				return nil
			}
			continue
		}
		if dst = w.entry(dst, &f.value, e, first, depth); dst == nil {
			return nil
		}
		first = false
	}
	return append(dst, '}')
}

// entry is one entry of a map field.
type entry struct {
	key, value []byte
	num        uint64
}

func parseEntry(v *value, b []byte) (e entry, ok bool) {
	seen := false
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return e, false
		}
		switch {
		case f.Num > 2:
		case f.Num == 1 && f.Type == protobuf.Bytes:
			e.key = b[f.Start:f.End]
		case f.Num == 2 && f.Type == v.kind.wireType():
			if seen && v.kind.isMessage() {
				return e, false
			}
			e.value, e.num, seen = b[f.Start:f.End], f.Value, true
		default:
			return e, false
		}
		i = f.End
	}
	return e, true
}

func (w *walker) entry(dst []byte, v *value, e entry, first bool, depth int) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = append(appendString(dst, e.key), ':')
	return w.value(dst, v, e.value, e.num, depth)
}
