package watchcache

import (
	"sync/atomic"

	"vigil/object"
	"vigil/store"
)

// written holds versions that writers have made and the feed has not brought yet, by revision. It is a table of fixed size: what is not
// fetched is overwritten, and then made once more.
type written [128]atomic.Pointer[object.Version]

// maxWritten bounds the bytes of a version in the table, and so what the table keeps alive.
const maxWritten = 64 << 10

func (w *written) at(rev int64) *atomic.Pointer[object.Version] {
	return &w[uint64(rev)%uint64(len(w))]
}

// take returns a twin of the version that was made of what an event has, nil if there is none.
func (w *written) take(t *object.Type, e *store.Event) *object.Version {
	slot := w.at(e.ModRev)
	v := slot.Load()
	if v == nil || v.Revision() != e.ModRev || v.Key() != e.Key || v.Type() != t || e.Err != nil || !v.EqualStored(e.Value) {
		return nil
	}
	slot.CompareAndSwap(v, nil)
	return v.Twin()
}

// Written is told of a version as soon as it has been written, so that the feed, if it brings the same bytes later, need not make
// another. While the writer makes its answer, it and those who watch have the same JSON.
func (c *Cache) Written(v *object.Version) {
	if v.Type() != c.res.Type || v.WireBytes() > maxWritten || c.server.rev.Load() >= v.Revision() {
		return
	}
	slot := c.server.written.at(v.Revision())
	slot.Store(v)
	if c.server.rev.Load() >= v.Revision() {
		slot.CompareAndSwap(v, nil) // the feed was faster after all
	}
}
