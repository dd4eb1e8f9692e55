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

// take returns the version that was made of what an event has, nil if there is none.
func (w *written) take(t *object.Type, e *store.Event) *object.Version {
	slot := w.at(e.ModRev)
	v := slot.Load()
	if v == nil || v.Revision() != e.ModRev || v.Key() != e.Key || v.Type() != t || e.Err != nil || !v.EqualStored(e.Value) {
		return nil
	}
	slot.CompareAndSwap(v, nil)
	return v
}

// Written is told of a version as soon as it has been written, and returns the one that shows what was written. Feed and writer
// each make a version of the same bytes; whoever comes second gets the first one's, so that forms that are made on demand are made once, for
// the writer's answer and for all who watch.
func (c *Cache) Written(v *object.Version) *object.Version {
	if v.Type() != c.res.Type || v.WireBytes() > maxWritten {
		return v
	}
	if c.server.rev.Load() < v.Revision() {
		slot := c.server.written.at(v.Revision())
		slot.Store(v)
		if c.server.rev.Load() < v.Revision() {
			return v
		}
		slot.CompareAndSwap(v, nil) // the feed was faster after all
	}
	if cached, ok := c.Get(v.Key()); ok && cached.Revision() == v.Revision() {
		return cached
	}
	return v
}
