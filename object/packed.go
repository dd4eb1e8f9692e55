package object

import (
	"sync/atomic"

	"vigil/object/internal/deflate"
)

// Packed is a text compressed so that it can stand anywhere in any PackedStream: made once, sent to everybody. Its blocks begin and
// end with a byte and refer to nothing before them. It is immutable.
type Packed struct {
	bytes []byte
	sum   deflate.Checksum
}

// Bytes is what is to be sent. It is shared: never change it.
func (p *Packed) Bytes() []byte { return p.bytes }

// pack compresses text followed by tail.
func pack(text []byte, tail string) *Packed {
	e := encoders.Get().(*deflate.Encoder)
	e.Begin()
	e.Add(0, text, []byte(tail))
	borrowed := scratch.Get().(*[]byte)
	*borrowed = e.AppendBlock((*borrowed)[:0])
	p := &Packed{bytes: append(make([]byte, 0, len(*borrowed)), *borrowed...), sum: e.Sum()}
	scratch.Put(borrowed)
	if !e.Big() {
		encoders.Put(e)
	}
	return p
}

// PackedEvent returns what stands in a watch event behind its head, as [AppendWatchEventJSONHead] or [AppendWatchEventProtobufHead] appends
// it, packed. It is kept with the version; JSON that is made only to be packed is not.
func (v *Version) PackedEvent(e Encoding, metadata bool) (*Packed, error) {
	made := v.encodings()
	slot := &made.packed[e]
	if metadata {
		slot = &made.packedMeta[e]
	}
	if p := slot.Load(); p != nil {
		return p, nil
	}
	text, err := v.passingForm(e, metadata)
	if err != nil {
		return nil, err
	}
	made.mu.Lock()
	defer made.mu.Unlock()
	if p := slot.Load(); p != nil {
		return p, nil
	}
	tail := ""
	if e == JSON {
		tail = WatchEventJSONTail
	}
	p := pack(text, tail)
	slot.Store(p)
	return p, nil
}

// passingForm returns a form of the object as it stands in a watch event.
func (v *Version) passingForm(e Encoding, metadata bool) ([]byte, error) {
	switch {
	case e == JSON && metadata:
		return v.MetadataJSON()
	case e == JSON:
		return v.passingJSON()
	case metadata:
		return v.MetadataProtobuf()
	}
	return v.Protobuf()
}

func (p *Packed) sizeBytes() int {
	if p == nil {
		return 0
	}
	return packedSize + cap(p.bytes)
}

// packedSize is what a Packed costs besides its bytes.
const packedSize = 48

type packedForm = atomic.Pointer[Packed]

// PackedStream puts a compressed stream together from texts that are packed already and others. It has no more state than a
// checksum. Everything that is appended must be sent, in order.
type PackedStream struct {
	coding Coding
	begun  bool
	sum    deflate.Checksum
}

// NewPackedStream returns a stream in a coding, which must not be 0.
func NewPackedStream(coding Coding) PackedStream {
	return PackedStream{coding: coding, sum: deflate.SumOf(nil)}
}

// AppendHead appends text as it is, not compressed. Readers may hold it back until Add or AppendText.
func (s *PackedStream) AppendHead(dst, text []byte) []byte {
	if !s.begun {
		s.begun = true
		dst = append(dst, s.coding.header()...)
	}
	s.sum.Add(deflate.SumOf(text))
	return deflate.AppendStored(dst, text)
}

// Add says that p is to be sent next. AppendHead must have been called before.
func (s *PackedStream) Add(p *Packed) { s.sum.Add(p.sum) }

// packAbove is the length of texts from which compressing is worth the 60 bytes of a code.
const packAbove = 512

// AppendText appends a text that nobody else gets.
func (s *PackedStream) AppendText(dst, text []byte) []byte {
	if len(text) < packAbove {
		return deflate.AppendMark(s.AppendHead(dst, text))
	}
	dst = s.AppendHead(dst, nil)
	p := pack(text, "")
	s.Add(p)
	return append(dst, p.bytes...)
}

// AppendEnd appends the end of the stream.
func (s *PackedStream) AppendEnd(dst []byte) []byte {
	dst = deflate.AppendEnd(s.AppendHead(dst, nil))
	return s.coding.appendTrailer(dst, s.sum)
}
