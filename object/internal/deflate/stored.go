package deflate

import "encoding/binary"

// mark is an empty stored block at the start of a byte.
const mark = "\x00\x00\x00\xff\xff"

// AppendMark appends an empty stored block: readers hand on what they have when they meet one (zlib's Z_SYNC_FLUSH). It may stand where a
// block ends at the end of a byte.
func AppendMark(dst []byte) []byte { return append(dst, mark...) }

const maxStored = 1<<16 - 1

// AppendStored appends text as stored blocks: five bytes more than it has, for each 64 KiB. They may stand where a block ends at the
// end of a byte, and end so.
func AppendStored(dst, text []byte) []byte {
	for len(text) > 0 {
		n := min(len(text), maxStored)
		dst = append(dst, 0)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(n))
		dst = binary.LittleEndian.AppendUint16(dst, ^uint16(n))
		dst = append(dst, text[:n]...)
		text = text[n:]
	}
	return dst
}

// AppendEnd ends a stream at the start of a byte.
func AppendEnd(dst []byte) []byte { return append(dst, 3, 0) }
