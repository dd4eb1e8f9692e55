package object

import (
	"io"
	"sync"

	"vigil/object/internal/deflate"
)

// Compressible reports whether WriteList can write such a list: all but metadata-only ones.
func (l *ListWriter) Compressible() bool { return !l.MetadataOnly }

// Exceeds reports whether the items of the list are longer than n bytes together. It looks at no more items than it must.
func (l *ListWriter) Exceeds(n int, items []*Version) (bool, error) {
	for i, v := range items {
		text, err := l.itemText(nil, i, v)
		if err != nil {
			return false, err
		}
		if n -= len(text.head) + len(text.rest); n < 0 {
			return true, nil
		}
	}
	return false, nil
}

// itemText is an item as it stands in a list, with what stands before it.
type itemText struct {
	head    []byte
	private int // bytes of head that only are there when the item is not the first
	rest    []byte
}

// itemText returns the text of item i, whose head is appended to dst. Only for Compressible lists.
func (l *ListWriter) itemText(dst []byte, i int, v *Version) (itemText, error) {
	if l.Encoding == Protobuf {
		message, err := v.ProtobufMessage()
		if err != nil {
			return itemText{}, err
		}
		return itemText{head: appendProtobufItemHead(dst, len(message)), rest: message}, nil
	}
	full, err := v.passingJSON()
	if err != nil {
		return itemText{}, err
	}
	item := v.jsonPart(full)
	text := itemText{rest: item.rest}
	if i > 0 {
		dst = append(dst, ',')
		text.private = 1
	}
	text.head = append(dst, item.head...)
	return text, nil
}

// sampleBytes is how much text the code of a kind is made from. From a shorter list none is made that is kept.
const (
	sampleBytes    = 256 << 10
	minSampleBytes = 64 << 10
)

var encoders = sync.Pool{New: func() any { return new(deflate.Encoder) }}

// compressedList is a list that is being written.
type compressedList struct {
	*ListWriter
	items   []*Version
	coding  Coding
	book    *book
	encoder *deflate.Encoder // nil while all forms existed
	last    int              // the item that was given to the encoder last
	head    [16]byte         // scratch
}

// WriteList writes what l.Write writes, compressed. Errors are as there. The list must be Compressible. All codings share the
// compressed items.
func (c *Compressor) WriteList(w io.Writer, coding Coding, l *ListWriter, items []*Version) error {
	list := &compressedList{ListWriter: l, items: items, coding: coding}
	defer list.close()
	head, tail, err := l.frame(items)
	if err != nil {
		return err
	}
	key := bookKey{l.Type, l.Encoding}
	if list.book = c.open(key); list.book == nil {
		code, size, err := list.sample()
		if err != nil {
			return err
		}
		list.book = c.add(key, code, size >= minSampleBytes)
	}
	return list.write(w, head, tail)
}

// sample makes a code from the first items.
func (l *compressedList) sample() (code *deflate.Code, size int, err error) {
	e := l.startEncoder()
	e.Begin()
	var sample deflate.Sample
	for i := 0; i < len(l.items) && sample.SizeBytes() < sampleBytes; i++ {
		text, err := l.itemText(l.head[:0], i, l.items[i])
		if err != nil {
			return nil, 0, err
		}
		e.Add(text.private, text.head, text.rest)
		sample.Add(e)
	}
	return sample.Code(), sample.SizeBytes(), nil
}

func (l *compressedList) startEncoder() *deflate.Encoder {
	if l.encoder == nil {
		l.encoder = encoders.Get().(*deflate.Encoder)
	}
	l.last = -1
	return l.encoder
}

func (l *compressedList) close() {
	if l.encoder != nil && !l.encoder.Big() {
		encoders.Put(l.encoder)
	}
}

func (l *compressedList) write(w io.Writer, head, tail []byte) error {
	buf := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(buf)
	out := bitChunk{w: w, out: deflate.NewWriter(append(buf[:0], l.coding.header()...))}
	out.out.Begin(l.book.code)
	out.out.Literal(l.book.code, head)
	sum := deflate.SumOf(head)
	after := uint64(0)
	for i, v := range l.items {
		if c, form := v.compressed(l.book, after); c != nil {
			out.append(form, int(c.bits))
			sum.Add(c.sum)
			after = c.id
		} else {
			form, bits, err := l.compress(i)
			if err != nil {
				return err
			}
			part := l.encoder.Sum()
			out.append(form, bits)
			sum.Add(part)
			after = v.keepCompressed(l.book, after, form, bits, part)
		}
		if out.err != nil {
			return out.err
		}
	}
	out.out.Literal(l.book.code, tail)
	sum.Add(deflate.SumOf(tail))
	out.out.Finish(l.book.code)
	out.flush()
	if out.err == nil {
		_, out.err = w.Write(l.coding.appendTrailer(nil, sum))
	}
	return out.err
}

// compress makes the form of item i. It is valid until the next call.
func (l *compressedList) compress(i int) (form []byte, bits int, err error) {
	e := l.encoder
	if e == nil {
		e = l.startEncoder()
	}
	switch {
	case i == 0:
		e.Begin()
	case l.last != i-1:
		before, err := l.itemText(l.head[:0], i-1, l.items[i-1])
		if err != nil {
			return nil, 0, err
		}
		e.Begin(before.head[before.private:], before.rest)
	}
	text, err := l.itemText(l.head[:0], i, l.items[i])
	if err != nil {
		return nil, 0, err
	}
	e.Add(text.private, text.head, text.rest)
	l.last = i
	form, bits = e.Encode(l.book.code)
	return form, bits, nil
}

// bitChunk hands bit strings to an io.Writer in large chunks.
type bitChunk struct {
	w   io.Writer
	out *deflate.Writer
	err error // the first error of w
}

// piece is how many bytes of a form are taken at once. A chunk has room for two.
const piece = chunkBytes / 4

func (c *bitChunk) append(form []byte, bits int) {
	for bits > piece*8 && c.err == nil {
		c.out.Append(form[:piece], piece*8)
		form, bits = form[piece:], bits-piece*8
		c.flushFull()
	}
	c.out.Append(form, bits)
	c.flushFull()
}

func (c *bitChunk) flushFull() {
	if len(c.out.Complete()) > chunkBytes-piece-16 {
		c.flush()
	}
}

func (c *bitChunk) flush() {
	b := c.out.Complete()
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
	c.out.Reset(b[:0])
}
