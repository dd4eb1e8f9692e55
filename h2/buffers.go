package h2

import "sync"

// Buffers come in few sizes, so that neither a PING's answer holds 64 KiB nor a list goes out in crumbs. A buffer is in
// use only while frames are built or a response is being written; an idle connection holds none.
const (
	smallLen = 1 << 10
	eventLen = 8 << 10
	chunkLen = 64 << 10 // what one write to the TLS connection holds: four full records
	corkLen  = 65 << 10 // the same encrypted
)

// WriteBuffer is how many bytes of a response may be written before a Write can wait for the client.
const WriteBuffer = chunkLen

var (
	smallPool = sync.Pool{New: func() any { return new([smallLen]byte) }}
	eventPool = sync.Pool{New: func() any { return new([eventLen]byte) }}
	chunkPool = sync.Pool{New: func() any { return new([chunkLen]byte) }}
	corkPool  = sync.Pool{New: func() any { return new([corkLen]byte) }}
)

// getBuffer returns an empty buffer with room for n bytes, from a pool unless n is beyond the largest size.
func getBuffer(n int) []byte {
	switch {
	case n <= smallLen:
		return smallPool.Get().(*[smallLen]byte)[:0]
	case n <= eventLen:
		return eventPool.Get().(*[eventLen]byte)[:0]
	case n <= chunkLen:
		return chunkPool.Get().(*[chunkLen]byte)[:0]
	case n <= corkLen:
		return corkPool.Get().(*[corkLen]byte)[:0]
	}
	return make([]byte, 0, n)
}

// putBuffer gives a buffer back. One that has been grown by append goes to the garbage collector.
func putBuffer(b []byte) {
	switch cap(b) {
	case smallLen:
		smallPool.Put((*[smallLen]byte)(b[:smallLen]))
	case eventLen:
		eventPool.Put((*[eventLen]byte)(b[:eventLen]))
	case chunkLen:
		chunkPool.Put((*[chunkLen]byte)(b[:chunkLen]))
	case corkLen:
		corkPool.Put((*[corkLen]byte)(b[:corkLen]))
	}
}

// room returns b with room for n more bytes, moved to a larger pooled buffer when it has too little.
func room(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	if b == nil {
		return getBuffer(n)
	}
	larger := append(getBuffer(max(len(b)+n, 2*len(b))), b...)
	putBuffer(b)
	return larger
}
