package informer

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"weak"

	"vigil/informer/internal/wire"
)

// A process with a scheduler, controllers and kubelets has several informers that get the same version of an object, mostly within
// milliseconds of each other. They share its bytes: each looks among the objects that were received of late whether the bytes are there
// already. Nothing but memory is shared: each informer has its own connection, and takes the bytes of another only after it has received the
// same.

// recent are objects received since the last garbage collection, by what they are a version of. A later one takes the place of an earlier
// one.
type recent struct {
	slots [recentSlots]atomic.Pointer[Object]
}

const recentSlots = 2048

var (
	recentSeed = maphash.MakeSeed()

	// recents is weak so that what was received of late is not kept for that. It points to nil, or to what a collection may have taken.
	recents   atomic.Pointer[weak.Pointer[recent]]
	recentsMu sync.Mutex // held while recents is replaced
)

func currentRecent() *recent {
	load := func() *recent {
		if w := recents.Load(); w != nil {
			return w.Value()
		}
		return nil
	}
	if r := load(); r != nil {
		return r
	}
	recentsMu.Lock()
	defer recentsMu.Unlock()
	if r := load(); r != nil {
		return r
	}
	r := new(recent)
	w := weak.Make(r)
	recents.Store(&w)
	return r
}

// take gives o, of which all but data is known, the bytes b: those of another object that has the same, or a copy.
func (o *Object) take(b []byte, m *wire.Meta) {
	var h maphash.Hash
	h.SetSeed(recentSeed)
	h.Write(m.UID.Of(b))
	h.Write(m.ResourceVersion.Of(b))
	slot := &currentRecent().slots[h.Sum64()%recentSlots]
	if other := slot.Load(); other != nil && other.data == part(b) {
		o.data = other.data
		return
	}
	o.data = string(b)
	slot.Store(o)
}
