// Package deflate compresses texts so that their compressed forms can be joined to one DEFLATE stream (RFC 1951) later, by copying.
//
// All texts of a stream share one [Code], a pair of Huffman codes that was made from a sample. A stream is one long block: the
// code's header, then the bits of each text, then the end. Since nothing stands between the texts, they need not be aligned to
// bytes: [Writer.Append] shifts them into place, eight bytes at a time. A text may refer back to the text before it, so its form
// is of use only where the same text precedes it.
//
// Blocks of their own for each text, aligned by an empty stored block, would cost the 60 to 80 bytes of a dynamic block's header
// for each, or the third that fixed codes are longer; a pod that follows a pod has about 300 bytes in all. Texts whose
// statistics are far from the sample's get a block of their own nevertheless, with the shared code's header behind it.
//
// The checksum of a joined gzip stream (RFC 1952) is put together from those of the parts, see [Checksum].
package deflate
