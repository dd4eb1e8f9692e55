package wire

import (
	"fmt"
	"io"

	"vigil/internal/protobuf"
)

// ListMeta is what a list says about itself.
type ListMeta struct {
	ResourceVersion string
	Continue        string // "" on the last page
}

// Item is one object of a list. Its bytes are valid until the function it was given to returns.
type Item struct {
	Object []byte
	Meta   Meta
}

// ReadList reads one list from r to its end and calls fn for each item, in order. Protobuf lists are read item by
// item, so a list of any length needs the memory of its largest item; JSON lists are read whole.
func ReadList(r io.Reader, e Encoding, fn func(Item) error) (ListMeta, error) {
	if e == JSON {
		return readJSONList(r, fn)
	}
	l := protoList{buf: buffer{r: r}, fn: fn}
	err := l.read()
	return l.meta, err
}

// protoList reads a list whose items need not all be in memory: k8s\0, the fields of runtime.Unknown up to raw, in it
// the fields of the list.
type protoList struct {
	buf  buffer
	fn   func(Item) error
	meta ListMeta
}

func (l *protoList) read() error {
	if err := l.buf.fill(len(protoMagic)); err != nil {
		return unexpected(err)
	}
	if string(l.buf.have()[:len(protoMagic)]) != string(protoMagic) {
		return fmt.Errorf("%w protobuf: no k8s envelope", ErrMalformed)
	}
	l.buf.take(len(protoMagic))
	for {
		num, size, err := l.field()
		if err != nil {
			return unexpected(err)
		}
		if num == unknownRaw {
			if err := l.list(size); err != nil {
				return err
			}
			// What follows (content type and encoding, both empty) says nothing, but the response must be whole.
			l.buf.take(len(l.buf.have()))
			_, err := io.Copy(io.Discard, l.buf.r)
			return err
		}
		if err := l.skip(size); err != nil {
			return err
		}
	}
}

// list reads the list's own message of size bytes.
func (l *protoList) list(size uint64) error {
	for size > 0 {
		num, n, used, err := l.sizedField()
		if err != nil {
			return unexpected(err)
		}
		if used+n > size || used+n < n {
			return errProto
		}
		size -= used + n
		if num != listItems && num != objectMetadata {
			if err := l.skip(n); err != nil {
				return err
			}
			continue
		}
		if n > MaxObject {
			return fmt.Errorf("%w: an item of %d bytes", ErrTooLarge, n)
		}
		if err := l.buf.fill(int(n)); err != nil {
			return unexpected(err)
		}
		body := l.buf.have()[:n]
		if num == objectMetadata {
			err = l.listMeta(body)
		} else {
			item := Item{Object: body}
			if err = protoMeta(body, &item.Meta); err == nil {
				err = l.fn(item)
			}
		}
		if err != nil {
			return err
		}
		l.buf.take(int(n))
	}
	return nil
}

func (l *protoList) listMeta(b []byte) error {
	f := walk(b, Span{0, len(b)})
	for f.next() {
		switch {
		case f.typ != protobuf.Bytes:
		case f.num == listResourceVersion:
			l.meta.ResourceVersion = string(f.span.Of(b))
		case f.num == listContinue:
			l.meta.Continue = string(f.span.Of(b))
		}
	}
	if f.failed() {
		return errProto
	}
	return nil
}

// field reads the tag and length of the next field, which must be length-delimited: runtime.Unknown has no others.
func (l *protoList) field() (num int32, size uint64, err error) {
	num, size, _, err = l.sizedField()
	return num, size, err
}

// sizedField is field that also says how many bytes it used.
func (l *protoList) sizedField() (num int32, size, used uint64, err error) {
	tag, n, err := l.varint()
	if err != nil {
		return 0, 0, 0, err
	}
	if tag&7 != protobuf.Bytes || tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return 0, 0, 0, errProto
	}
	size, m, err := l.varint()
	if err != nil {
		return 0, 0, 0, unexpected(err)
	}
	return int32(tag >> 3), size, uint64(n + m), nil
}

func (l *protoList) varint() (v uint64, n int, err error) {
	for n < 10 {
		if err := l.buf.fill(1); err != nil {
			if n > 0 {
				err = unexpected(err)
			}
			return 0, n, err
		}
		b := l.buf.have()[0]
		l.buf.take(1)
		v |= uint64(b&0x7f) << (7 * n)
		n++
		if b < 0x80 {
			return v, n, nil
		}
	}
	return 0, n, errProto
}

func (l *protoList) skip(n uint64) error {
	for n > 0 {
		if err := l.buf.fill(1); err != nil {
			return unexpected(err)
		}
		k := min(n, uint64(len(l.buf.have())))
		l.buf.take(int(k))
		n -= k
	}
	return nil
}

func readJSONList(r io.Reader, fn func(Item) error) (meta ListMeta, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return meta, err
	}
	top := walkJSON(b, 0)
	for top.next() {
		switch {
		case top.is("metadata"):
			in := walkJSON(b, top.value.Start)
			for in.next() {
				t, _ := text(b, in.value)
				switch {
				case in.is("resourceVersion"):
					meta.ResourceVersion = string(t)
				case in.is("continue"):
					meta.Continue = string(t)
				}
			}
			if in.failed() {
				return meta, errJSON
			}
		case top.is("items") && b[top.value.Start] == '[':
			err := elements(b, top.value.Start, func(s Span) error {
				item := Item{Object: s.Of(b)}
				if err := jsonMeta(item.Object, &item.Meta); err != nil {
					return err
				}
				return fn(item)
			})
			if err != nil {
				return meta, err
			}
		}
	}
	if top.failed() {
		return meta, errJSON
	}
	return meta, nil
}
