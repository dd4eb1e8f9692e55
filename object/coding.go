package object

import (
	"encoding/binary"

	"vigil/object/internal/deflate"
)

// Coding is a content coding: what stands around a DEFLATE stream (RFC 1951). The zero value is none.
type Coding uint8

const (
	Gzip    Coding = iota + 1 // RFC 1952
	Deflate                   // HTTP's "deflate": zlib, RFC 1950
)

// String returns the coding's name in HTTP, "" for none.
func (c Coding) String() string {
	switch c {
	case Gzip:
		return "gzip"
	case Deflate:
		return "deflate"
	}
	return ""
}

// ParseCoding returns the coding with a name in HTTP, the zero value if there is none.
func ParseCoding(name string) Coding {
	switch name {
	case "gzip":
		return Gzip
	case "deflate":
		return Deflate
	}
	return 0
}

// header is what stands before the DEFLATE stream. In gzip it says: deflate, no name, no time, fastest, unknown system; in zlib: deflate, a
// window of 32 KiB, no dictionary, fastest.
func (c Coding) header() string {
	if c == Deflate {
		return "\x78\x01"
	}
	return "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
}

// appendTrailer appends what comes behind the DEFLATE stream of a text with the checksum sum.
func (c Coding) appendTrailer(dst []byte, sum deflate.Checksum) []byte {
	if c == Deflate {
		return binary.BigEndian.AppendUint32(dst, sum.Adler)
	}
	dst = binary.LittleEndian.AppendUint32(dst, sum.CRC)
	return binary.LittleEndian.AppendUint32(dst, sum.Size)
}
