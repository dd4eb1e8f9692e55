package object

import "vigil/object/internal/deflate"

// compressed is the form of an item of a list behind a certain other item. It is immutable.
type compressed struct {
	book  *book
	page  *page
	older *compressed // behind another predecessor; it has no older one
	id    uint64      // of the version in this book
	after uint64      // the predecessor's id; 0: the item is the first
	start uint32      // in the page
	bits  uint32
	sum   deflate.Checksum
}

// compressedSize is what a form costs besides its bits, in bytes.
const compressedSize = 80

// form returns the bits, nil when they have been dropped.
func (c *compressed) form() []byte {
	bytes := c.page.bytes.Load()
	if bytes == nil {
		return nil
	}
	return (*bytes)[c.start : c.start+(c.bits+7)/8]
}

// compressed returns the version's form in b behind the item with the identity after, with its bits, nil if there is none.
func (v *Version) compressed(b *book, after uint64) (*compressed, []byte) {
	made := v.made.Load()
	if made == nil {
		return nil, nil
	}
	for c := made.compressed[b.key.encoding].Load(); c != nil; c = c.older {
		if c.book == b && c.after == after {
			if form := c.form(); form != nil {
				return c, form
			}
		}
	}
	return nil, nil
}

// keepCompressed keeps a form that compressed did not find, and returns the version's identity in b.
func (v *Version) keepCompressed(b *book, after uint64, form []byte, bits int, sum deflate.Checksum) uint64 {
	made := v.encodings()
	made.mu.Lock()
	defer made.mu.Unlock()
	at := &made.compressed[b.key.encoding]
	var older *compressed // the newest one of this book behind another predecessor
	for c := at.Load(); c != nil; c = c.older {
		if c.book != b {
			continue
		}
		if c.after == after && c.form() != nil { // made meanwhile by another list
			return c.id
		}
		if older == nil && c.after != after {
			older = c
		}
	}
	c := &compressed{book: b, after: after, bits: uint32(bits), sum: sum}
	if older != nil {
		c.id = older.id
		c.older = &compressed{}
		*c.older = *older
		c.older.older = nil
	} else {
		c.id = b.owner.ids.Add(1)
	}
	page, start := b.keep(form)
	if page == nil {
		return c.id
	}
	c.page, c.start = page, uint32(start)
	at.Store(c)
	return c.id
}

// sizeBytes is what the forms of a version hold beside their book.
func (c *compressed) sizeBytes() int {
	n := 0
	for ; c != nil; c = c.older {
		n += compressedSize
	}
	return n
}
