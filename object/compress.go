package object

import (
	"sync"
	"sync/atomic"
	"time"

	"vigil/object/internal/deflate"
)

// Compressor writes lists in gzip or zlib form and keeps the compressed form of every item, so that a list that is asked for again is put
// together by copying. It is safe for use by many goroutines.
//
// # What is kept
//
// An item is compressed with regard to its neighbour: a pod that follows a pod of the same controller has some 150 bytes, alone it would
// have 1,700. So a form holds for one predecessor; a version keeps the forms for the two predecessors it had last (in the whole list
// and in a selection, for example). When an object changes, its new version and the one behind it are compressed again, nothing else.
// All items of a kind share one Huffman code, made from the first items that are compressed (package deflate says why). JSON that
// is made only to be compressed is not kept.
//
// # Bound
//
// The forms of a kind in one encoding are a book. Books hold at most the compressor's limit together, plus 64 KiB or one item;
// beyond that the book used longest ago is dropped, be it the one that grows. A book that has not been used for five to ten minutes is
// dropped as well. What remains of a dropped book is up to 160 bytes for each version that was in it, until the version goes.
type Compressor struct {
	limit int
	idle  time.Duration

	ids atomic.Uint64 // the last identity given to a version; 0 is none

	mu    sync.Mutex
	books map[bookKey]*book
	held  int         // by all books, in bytes
	sweep *time.Timer // nil while there are no books
}

// Defaults of a Compressor.
const (
	DefaultCompressorLimit = 64 << 20
	compressorIdle         = 5 * time.Minute
)

// NewCompressor returns a compressor that keeps up to limit bytes; 0 means DefaultCompressorLimit.
func NewCompressor(limit int) *Compressor {
	if limit == 0 {
		limit = DefaultCompressorLimit
	}
	return &Compressor{limit: limit, idle: compressorIdle, books: map[bookKey]*book{}}
}

// SizeBytes is the memory held by compressed forms now.
func (c *Compressor) SizeBytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// bookKey says what forms a book holds.
type bookKey struct {
	typ      *Type
	encoding Encoding
}

// book is the forms of one kind in one encoding.
type book struct {
	key   bookKey
	code  *deflate.Code
	owner *Compressor

	// Guarded by owner.mu.
	kept  bool // false: what is written is not kept
	held  int
	used  time.Time
	pages []*page
	last  *page  // that is being filled; of pageBytes
	free  []byte // its rest
}

// page is where the bits of forms stand. A dropped page has none.
type page struct{ bytes atomic.Pointer[[]byte] }

const pageBytes = 64 << 10

// open returns the book for key, nil when there is none yet.
func (c *Compressor) open(key bookKey) *book {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.books[key]
	if b != nil {
		b.used = time.Now()
	}
	return b
}

// add makes a book with the given code, unless there is one by now. A book that is not worth keeping serves one list.
func (c *Compressor) add(key bookKey, code *deflate.Code, keep bool) *book {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.books[key]; b != nil {
		return b
	}
	b := &book{key: key, code: code, owner: c, kept: keep, used: time.Now()}
	if keep {
		c.books[key] = b
		if c.sweep == nil {
			c.sweep = time.AfterFunc(c.idle, c.dropIdle)
		}
	}
	return b
}

// keep copies a form's bits into the book and returns where they are: a page and the place in it. It returns nil when the book
// keeps nothing more.
func (b *book) keep(form []byte) (*page, int) {
	c := b.owner
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.kept {
		return nil, 0
	}
	var p *page
	start := 0
	switch {
	case len(form) > pageBytes/4: // a page of its own
		p = b.newPage(len(form))
		copy(*p.bytes.Load(), form)
	case len(b.free) < len(form):
		b.last = b.newPage(pageBytes)
		b.free = *b.last.bytes.Load()
		fallthrough
	default:
		p, start = b.last, pageBytes-len(b.free)
		b.free = b.free[copy(b.free, form):]
	}
	b.held += compressedSize
	c.held += compressedSize
	c.fit()
	if !b.kept {
		return nil, 0
	}
	return p, start
}

// newPage adds a page. It is called with the owner's lock held.
func (b *book) newPage(size int) *page {
	bytes := make([]byte, size)
	p := &page{}
	p.bytes.Store(&bytes)
	b.pages = append(b.pages, p)
	b.held += size
	b.owner.held += size
	return p
}

// fit drops books until the limit is kept. It is called with the lock held.
func (c *Compressor) fit() {
	for c.held > c.limit {
		var oldest *book
		for _, b := range c.books {
			if oldest == nil || b.used.Before(oldest.used) {
				oldest = b
			}
		}
		c.drop(oldest)
	}
}

// drop frees a book's bytes. It is called with the lock held.
func (c *Compressor) drop(b *book) {
	for _, p := range b.pages {
		p.bytes.Store(nil)
	}
	b.pages, b.last, b.free = nil, nil, nil
	b.kept = false
	c.held -= b.held
	delete(c.books, b.key)
}

// dropIdle drops what has not been used for a while, and looks again later while there is anything left.
func (c *Compressor) dropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.books {
		if time.Since(b.used) >= c.idle {
			c.drop(b)
		}
	}
	if c.sweep = nil; len(c.books) > 0 {
		c.sweep = time.AfterFunc(c.idle, c.dropIdle)
	}
}
