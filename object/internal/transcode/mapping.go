package transcode

import (
	"bytes"
	"slices"

	"vigil/object/internal/wire"
)

// mapping writes the entries of a map field sorted by key; b begins at the first tag and ends with the last value. The
// generated marshallers sort maps already, so entries are written as they come as long as their keys ascend.
func (w *walker) mapping(f *field, b []byte, depth int) bool {
	begin := len(w.dst)
	w.dst = append(w.dst, '{')
	var prev []byte
	first := true
	for i := 0; i < len(b); {
		e, ok := wire.Next(b, i)
		if !ok {
			return false
		}
		i = e.End
		if e.Num != f.num {
			continue
		}
		entry, ok := parseEntry(&f.value, b[e.Start:e.End])
		if !ok {
			return false
		}
		if !first && bytes.Compare(prev, entry.key) >= 0 {
			w.dst = w.dst[:begin]
			return w.sortedMapping(f, b, depth)
		}
		if !w.entry(&f.value, entry, first, depth) {
			return false
		}
		prev, first = entry.key, false
	}
	w.dst = append(w.dst, '}')
	return true
}

// sortedMapping is mapping for entries in any order; of entries with the same key the last one counts.
func (w *walker) sortedMapping(f *field, b []byte, depth int) bool {
	var entries []entry
	for i := 0; i < len(b); {
		e, ok := wire.Next(b, i)
		if !ok {
			return false
		}
		i = e.End
		if e.Num != f.num {
			continue
		}
		parsed, ok := parseEntry(&f.value, b[e.Start:e.End])
		if !ok {
			return false
		}
		entries = append(entries, parsed)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	w.dst = append(w.dst, '{')
	first := true
	for i, e := range entries {
		if i+1 < len(entries) && bytes.Equal(e.key, entries[i+1].key) {
			// A value that cannot be decoded is an error even where another replaces it; let the decoder say so.
			if f.value.kind.isMessage() {
				return false
			}
			continue
		}
		if !w.entry(&f.value, e, first, depth) {
			return false
		}
		first = false
	}
	w.dst = append(w.dst, '}')
	return true
}

// entry is one entry of a map field.
type entry struct {
	key, value []byte
	num        uint64
}

func parseEntry(v *value, b []byte) (e entry, ok bool) {
	seen := false
	for i := 0; i < len(b); {
		f, ok := wire.Next(b, i)
		if !ok {
			return e, false
		}
		switch {
		case f.Num > 2:
		case f.Num == 1 && f.Type == wire.Bytes:
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

func (w *walker) entry(v *value, e entry, first bool, depth int) bool {
	if !first {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(appendString(w.dst, e.key), ':')
	return w.value(v, e.value, e.num, depth)
}
