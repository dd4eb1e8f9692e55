package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"vigil/internal/jsonscan"
)

// Objects without protobuf (custom resources above all) are held as the JSON that is served: one line, the members
// of the object and of its metadata sorted, the resource version spliced in at its place. Stored bytes in another
// style are brought into this one by decoding them.

// newJSON makes a version of stored JSON.
func newJSON(t *Type, key string, rev int64, stored []byte) (*Version, error) {
	if t.New != nil {
		return newTypedJSON(t, key, rev, stored)
	}
	if v, err := spliceJSON(t, key, rev, stored); v != nil || err != nil {
		return v, err
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(stored); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if obj.Object["metadata"] == nil {
		obj.Object["metadata"] = map[string]any{}
	}
	sorted, err := encodeStoredJSON(t, obj)
	if err != nil {
		return nil, err
	}
	v, err := spliceJSON(t, key, rev, sorted)
	if v == nil && err == nil {
		err = fmt.Errorf("%w: no metadata", ErrMalformed)
	}
	return v, err
}

// spliceJSON copies stored with the resource version in its place. It returns nil when stored is not in the style
// in which custom resources are written, and an error when it is not this type's object at all.
func spliceJSON(t *Type, key string, rev int64, stored []byte) (*Version, error) {
	end, style, ok := jsonscan.Value(stored, 0)
	if !ok || len(stored) == 0 {
		return nil, fmt.Errorf("%w: invalid JSON", ErrMalformed)
	}
	if style&jsonscan.Spaced != 0 || end != len(stored) || stored[0] != '{' {
		return nil, nil
	}
	top, ok := members(stored, 0, "apiVersion", "kind", "metadata")
	if !ok {
		return nil, nil
	}
	apiVersion, kind, metadata := top[0], top[1], top[2]
	if text, _ := stringAt(stored, apiVersion.Start); text != t.APIVersion {
		return nil, wrongType(t, "apiVersion", text)
	}
	if text, _ := stringAt(stored, kind.Start); text != t.Kind {
		return nil, wrongType(t, "kind", text)
	}
	if metadata.End == 0 || stored[metadata.Start] != '{' {
		return nil, nil
	}
	cut, ok := findRevisionPlace(stored, metadata.Start)
	if !ok {
		return nil, nil
	}
	return composeJSON(t, key, rev, stored, metadata.Start, cut), nil
}

func wrongType(t *Type, member, got string) error {
	return fmt.Errorf("%w: %s is %q where %s %s belongs", ErrMalformed, member, got, t.APIVersion, t.Kind)
}

// members returns the members of the object at b[i] with the given names, zero where absent. It reports false when
// the object's keys are not in strictly ascending order or written with escapes.
func members(b []byte, i int, names ...string) (found [3]jsonscan.Member, ok bool) {
	var prev []byte
	for i++; ; {
		m, ok := jsonscan.Next(b, i)
		if !ok {
			return found, true
		}
		if prev != nil && bytes.Compare(prev, m.Key) >= 0 || bytes.IndexByte(m.Key, '\\') >= 0 {
			return found, false
		}
		for n, name := range names {
			if string(m.Key) == name {
				found[n] = m
			}
		}
		prev, i = m.Key, m.End
	}
}

// splice is the place of the resource version in JSON: what stands between start and end goes, and
// before + the digits + after comes.
type splice struct {
	start, end    int
	before, after string
}

// findRevisionPlace returns where in the metadata object at b[i] the resource version belongs. It reports false when
// the members are not sorted.
func findRevisionPlace(b []byte, i int) (splice, bool) {
	sorted, ok := members(b, i, "resourceVersion")
	if !ok {
		return splice{}, false
	}
	if old := sorted[0]; old.End != 0 {
		return splice{start: old.Start, end: old.End, before: `"`, after: `"`}, true
	}
	const member = `"resourceVersion":"`
	at := i + 1
	for {
		m, ok := jsonscan.Next(b, at)
		switch {
		case !ok && at == i+1:
			return splice{start: at, end: at, before: member, after: `"`}, true
		case !ok:
			return splice{start: at, end: at, before: "," + member, after: `"`}, true
		case string(m.Key) > "resourceVersion":
			return splice{start: m.KeyStart, end: m.KeyStart, before: member, after: `",`}, true
		}
		at = m.End
	}
}

// composeJSON makes the version in one allocation of the exact size; metadata is the offset of the metadata object.
func composeJSON(t *Type, key string, rev int64, b []byte, metadata int, cut splice) *Version {
	digits := formatRevision(rev)
	size := len(b) - (cut.end - cut.start) + len(cut.before) + digits.n + len(cut.after)
	out := append(make([]byte, 0, size), b[:cut.start]...)
	out = append(out, cut.before...)
	v := &Version{typ: t, key: key, rev: rev, meta: uint32(metadata), rv: uint32(len(out))}
	out = append(out, digits.bytes()...)
	out = append(out, cut.after...)
	v.wire = append(out, b[cut.end:]...)
	metaEnd, _, _ := jsonscan.Value(v.wire, metadata)
	v.metaEnd = uint32(metaEnd)
	if m, ok := jsonscan.Find(v.wire, metadata, "labels"); ok && v.wire[m.Start] == '{' {
		v.labels = uint32(m.Start)
	}
	return v
}

// jsonAt is At for JSON.
func (v *Version) jsonAt(rev int64) *Version {
	start := int(v.rv)
	end := start + bytes.IndexByte(v.wire[start:], '"')
	return composeJSON(v.typ, v.key, rev, v.wire, int(v.meta), splice{start: start, end: end})
}

// storedJSON returns a copy of the JSON without the resource version.
func (v *Version) storedJSON() []byte {
	m, ok := jsonscan.Find(v.wire, int(v.meta), "resourceVersion")
	if !ok {
		return bytes.Clone(v.wire)
	}
	start, end := m.KeyStart, m.End
	switch {
	case v.wire[start-1] == ',':
		start--
	case v.wire[end] == ',':
		end++
	}
	return append(bytes.Clone(v.wire[:start]), v.wire[end:]...)
}

// newTypedJSON makes a version of a Go type that has no protobuf methods: its struct's order is what clients expect,
// so it is decoded and encoded.
func newTypedJSON(t *Type, key string, rev int64, stored []byte) (*Version, error) {
	obj, err := decodeTypedJSON(t, stored)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	accessor.SetResourceVersion(strconv.FormatInt(rev, 10))
	out, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	m, found := jsonscan.Find(out, 0, "metadata")
	if !found {
		return nil, fmt.Errorf("%w: no metadata", ErrMalformed)
	}
	version, found := jsonscan.Find(out, m.Start, "resourceVersion")
	if !found {
		return nil, fmt.Errorf("%w: no resourceVersion in %s", ErrMalformed, t.Kind)
	}
	return composeJSON(t, key, rev, out, m.Start, splice{start: version.Start + 1, end: version.End - 1}), nil
}

// decodeTypedJSON decodes an object of a Go type and checks what it says it is.
func decodeTypedJSON(t *Type, b []byte) (runtime.Object, error) {
	obj := t.New()
	if err := utiljson.Unmarshal(b, obj); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	apiVersion, kind := obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if apiVersion != t.APIVersion || kind != t.Kind {
		return nil, fmt.Errorf("%w: %s %s where %s %s belongs", ErrMalformed, apiVersion, kind, t.APIVersion, t.Kind)
	}
	return obj, nil
}

// encodeStoredJSON returns obj as stored JSON: one line, without resource version and self link.
func encodeStoredJSON(t *Type, obj runtime.Object) ([]byte, error) {
	obj = obj.DeepCopyObject()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
	}
	accessor.SetResourceVersion("")
	accessor.SetSelfLink("")
	obj.GetObjectKind().SetGroupVersionKind(t.groupVersionKind())
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t.Kind, err)
	}
	return bytes.TrimSuffix(b, []byte("\n")), nil
}
