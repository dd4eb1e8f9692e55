package deflate

import (
	"hash/adler32"
	"hash/crc32"
)

// Checksum is the checksums of a text that gzip and zlib end with, and what is needed to join them to those of what stands before the
// text.
type Checksum struct {
	CRC   uint32
	Adler uint32
	Size  uint32 // of the text in bytes, modulo 2^32 as in gzip's trailer
	shift uint32 // x^(8*Size) modulo the polynomial: multiplying by it appends Size zero bytes
}

const (
	one       = 1 << 31 // the polynomial 1: the highest bit is the coefficient of x^0
	adlerBase = 65521   // the largest prime below 2^16
)

// SumOf returns the checksum of text, which is shorter than 4 GiB.
func SumOf(text []byte) Checksum {
	return Checksum{
		CRC:   crc32.ChecksumIEEE(text),
		Adler: adler32.Checksum(text),
		Size:  uint32(len(text)),
		shift: power(uint64(len(text)) * 8),
	}
}

// Add makes s the checksum of its text followed by t's. The sum itself can only be added to, not be added.
func (s *Checksum) Add(t Checksum) {
	s.CRC = multiply(t.shift, s.CRC) ^ t.CRC
	s.Adler = joinAdler(s.Adler, t.Adler, t.Size)
	s.Size += t.Size
}

// joinAdler returns the Adler-32 of two texts in a row; n is the length of the second. Its low half is 1 and the sum of all bytes; the
// high half is the sum of what the low half was after each byte (RFC 1950). So every byte of the second text adds the first
// text's low half to the high half, less the 1 that was counted already.
func joinAdler(first, second, n uint32) uint32 {
	low := first&0xffff + second&0xffff + adlerBase - 1
	high := first>>16 + second>>16 + n%adlerBase*((first&0xffff+adlerBase-1)%adlerBase)%adlerBase
	return high%adlerBase<<16 | low%adlerBase
}

// power returns x^n.
func power(n uint64) uint32 {
	p, square := uint32(one), uint32(one>>1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = multiply(square, p)
		}
		square = multiply(square, square)
	}
	return p
}

// multiply returns the product of two polynomials over GF(2) modulo that of CRC-32, four coefficients of a at a time.
func multiply(a, b uint32) uint32 {
	var of [16]uint32 // the products of b with all polynomials of degree 3
	of[8] = b
	of[4] = timesX(of[8])
	of[2] = timesX(of[4])
	of[1] = timesX(of[2])
	for i := 3; i < 16; i++ {
		low := i & -i
		of[i] = of[low] ^ of[i^low]
	}
	p := of[a&15]
	for i := 4; i < 32; i += 4 {
		// The entries of every sixteenth place of the table for bytes are those for half bytes.
		p = p>>4 ^ crc32.IEEETable[p&15<<4] ^ of[a>>i&15]
	}
	return p
}

func timesX(p uint32) uint32 { return p>>1 ^ crc32.IEEE&-(p&1) }
