package object

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/protobuf"
)

// Encoding is a form in which objects go over the wire.
type Encoding uint8

const (
	JSON Encoding = iota
	Protobuf
)

// ListMeta is the metadata of a list.
type ListMeta struct {
	ResourceVersion int64
	Continue        string // "" on the last page
	Remaining       *int64 // nil when unknown
}

// ListWriter writes the response to a list request: a header and the shared bytes of the items, in large chunks, so
// that no list is ever built in memory. The zero value of every optional field is the ordinary list.
type ListWriter struct {
	Type         *Type
	Encoding     Encoding
	MetadataOnly bool   // a PartialObjectMetadataList
	Kind         string // of the list; "" means the type's kind with List appended
	Meta         ListMeta
}

// chunkBytes is how much is handed to the io.Writer at once.
const chunkBytes = 64 << 10

var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// Write writes the list of items, which must be of the writer's type. A JSON list ends with a newline. An error of the
// io.Writer is returned as it is; any other means that an item cannot be encoded and that the response is incomplete.
// Size finds such items beforehand.
func (l *ListWriter) Write(w io.Writer, items []*Version) error {
	buf := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(buf)
	c := &chunk{w: w, b: buf[:0]}
	if l.Encoding == Protobuf {
		return l.writeProtobuf(c, items)
	}
	return l.writeJSON(c, items)
}

// Size returns the number of bytes that Write will write. In JSON this makes the encodings of all items.
func (l *ListWriter) Size(items []*Version) (int64, error) {
	if l.Encoding == Protobuf {
		_, message, err := l.protobufSizes(items)
		if err != nil {
			return 0, err
		}
		head := len(envelopeHead(l.names())) + protobuf.SizeUvarint(uint64(message))
		return int64(head) + message + int64(len(envelopeTail)), nil
	}
	head, tail, err := l.jsonFrame()
	if err != nil {
		return 0, err
	}
	n := int64(len(head)) + int64(len(tail)) + int64(max(len(items)-1, 0))
	for _, v := range items {
		item, err := l.jsonItem(v)
		if err != nil {
			return 0, err
		}
		n += int64(len(item.head) + len(item.rest))
		for _, p := range item.more {
			n += int64(len(p))
		}
	}
	return n, nil
}

// names returns the API version and kind of the list.
func (l *ListWriter) names() (apiVersion, kind string) {
	switch {
	case l.MetadataOnly:
		return metadataAPIVersion, metadataKind + "List"
	case l.Kind != "":
		return l.Type.APIVersion, l.Kind
	}
	return l.Type.APIVersion, l.Type.Kind + "List"
}

// frame returns what stands before and behind the items.
func (l *ListWriter) frame(items []*Version) (head, tail []byte, err error) {
	if l.Encoding == JSON {
		return l.jsonFrame()
	}
	meta, message, err := l.protobufSizes(items)
	if err != nil {
		return nil, nil, err
	}
	head = protobuf.AppendUvarint(envelopeHead(l.names()), uint64(message))
	return protobuf.AppendBytes(head, 1, meta), []byte(envelopeTail), nil
}

// A protobuf list is the envelope around metadata (field 1) and the items (field 2). All lengths must be known before
// the first byte; they are sums of what the items know.

func (l *ListWriter) protobufItem(v *Version) ([]byte, error) {
	if l.MetadataOnly {
		return v.MetadataProtobufMessage()
	}
	return v.ProtobufMessage()
}

func (l *ListWriter) protobufSizes(items []*Version) (meta []byte, message int64, err error) {
	m := metav1.ListMeta{
		ResourceVersion:    strconv.FormatInt(l.Meta.ResourceVersion, 10),
		Continue:           l.Meta.Continue,
		RemainingItemCount: l.Meta.Remaining,
	}
	if meta, err = m.Marshal(); err != nil {
		return nil, 0, fmt.Errorf("encode list metadata: %w", err)
	}
	message = int64(protobuf.SizeBytes(len(meta)))
	for _, v := range items {
		item, err := l.protobufItem(v)
		if err != nil {
			return nil, 0, err
		}
		message += int64(protobuf.SizeBytes(len(item)))
	}
	return meta, message, nil
}

func (l *ListWriter) writeProtobuf(c *chunk, items []*Version) error {
	head, tail, err := l.frame(items)
	if err != nil {
		return err
	}
	c.write(head)
	for _, v := range items {
		item, err := l.protobufItem(v)
		if err != nil {
			return err
		}
		c.room(maxItemHead)
		c.b = appendProtobufItemHead(c.b, len(item))
		c.write(item)
		if c.err != nil {
			return c.err
		}
	}
	c.write(tail)
	return c.flush()
}

// maxItemHead is the most that stands before an item in a list.
const maxItemHead = 1 + 10

// appendProtobufItemHead appends what stands before an item of n bytes.
func appendProtobufItemHead(dst []byte, n int) []byte {
	return protobuf.AppendUvarint(append(dst, 2<<3|protobuf.Bytes), uint64(n))
}

// jsonPart is an item of a JSON list: an optional '{' and bytes that exist already.
type jsonPart struct {
	head string
	rest []byte
	more [][]byte // behind rest, of large objects
}

func (l *ListWriter) jsonItem(v *Version) (jsonPart, error) {
	if l.MetadataOnly {
		b, err := v.MetadataJSON()
		return jsonPart{rest: b}, err
	}
	if parts := v.LargeJSON(); parts != nil {
		item := v.jsonPart(parts[0])
		item.more = parts[1:]
		return item, nil
	}
	b, err := v.JSON()
	if err != nil {
		return jsonPart{}, err
	}
	return v.jsonPart(b), nil
}

// jsonPart cuts a list item out of the version's JSON.
func (v *Version) jsonPart(full []byte) jsonPart {
	if v.typ.New == nil {
		return jsonPart{rest: full}
	}
	return jsonPart{head: "{", rest: full[len(v.typ.layout().jsonHead):]}
}

func (l *ListWriter) writeJSON(c *chunk, items []*Version) error {
	head, tail, err := l.frame(items)
	if err != nil {
		return err
	}
	c.write(head)
	for i, v := range items {
		item, err := l.jsonItem(v)
		if err != nil {
			return err
		}
		c.room(maxItemHead)
		if i > 0 {
			c.b = append(c.b, ',')
		}
		c.b = append(c.b, item.head...)
		c.write(item.rest)
		for _, p := range item.more {
			c.write(p)
		}
		if c.err != nil {
			return c.err
		}
	}
	c.write(tail)
	return c.flush()
}

// jsonFrame returns what stands before and behind the items. Typed lists have the order of the Go struct; lists of
// custom resources are sorted and always have continue.
func (l *ListWriter) jsonFrame() (head, tail []byte, err error) {
	apiVersion, kind := l.names()
	if l.Type.New == nil && !l.MetadataOnly {
		meta := map[string]any{"continue": l.Meta.Continue, "resourceVersion": strconv.FormatInt(l.Meta.ResourceVersion, 10)}
		if l.Meta.Remaining != nil {
			meta["remainingItemCount"] = *l.Meta.Remaining
		}
		b, err := json.Marshal(meta)
		if err != nil {
			return nil, nil, fmt.Errorf("encode list metadata: %w", err)
		}
		head = []byte(`{"apiVersion":` + strconv.Quote(apiVersion) + `,"items":[`)
		return head, []byte(`],"kind":` + strconv.Quote(kind) + `,"metadata":` + string(b) + "}\n"), nil
	}
	b, err := json.Marshal(metav1.ListMeta{
		ResourceVersion:    strconv.FormatInt(l.Meta.ResourceVersion, 10),
		Continue:           l.Meta.Continue,
		RemainingItemCount: l.Meta.Remaining,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode list metadata: %w", err)
	}
	head = []byte(`{"kind":` + strconv.Quote(kind) + `,"apiVersion":` + strconv.Quote(apiVersion) + `,"metadata":` + string(b) + `,"items":[`)
	return head, []byte("]}\n"), nil
}

// chunk gathers small writes.
type chunk struct {
	w   io.Writer
	b   []byte // pending; never grows beyond its capacity
	err error  // the first error of w
}

// room makes sure that n bytes can be appended to b.
func (c *chunk) room(n int) {
	if cap(c.b)-len(c.b) < n {
		c.flush()
	}
}

// write adds p. What does not fit goes straight to the writer when it is large.
func (c *chunk) write(p []byte) {
	for len(p) > 0 && c.err == nil {
		if len(c.b) == 0 && len(p) >= cap(c.b) {
			_, c.err = c.w.Write(p)
			return
		}
		n := copy(c.b[len(c.b):cap(c.b)], p)
		c.b, p = c.b[:len(c.b)+n], p[n:]
		if len(c.b) == cap(c.b) {
			c.flush()
		}
	}
}

func (c *chunk) flush() error {
	if c.err == nil && len(c.b) > 0 {
		_, c.err = c.w.Write(c.b)
	}
	c.b = c.b[:0]
	return c.err
}
