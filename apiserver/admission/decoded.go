package admission

import (
	"sync"
	"time"

	"vigil/kinds"
	"vigil/object"
)

// decodedObjects are objects decoded of late. Namespaces, nodes or quotas are asked for again and again; a pod whose node writes its
// status is asked for once in each version. So there are two generations: who is asked for in the elder joins the younger, and the
// elder is forgotten when a new one begins. The zero value is empty.
type decodedObjects struct {
	mu             sync.RWMutex
	younger, elder map[*object.Version]kinds.Object
	ticking        bool // the next generation will begin by itself
}

const (
	generationMost = 1024             // objects in a generation
	generationLife = 10 * time.Second // at most
)

func (d *decodedObjects) get(v *object.Version) (kinds.Object, bool) {
	d.mu.RLock()
	obj, ok := d.younger[v]
	if ok {
		d.mu.RUnlock()
		return obj, true
	}
	obj, ok = d.elder[v]
	d.mu.RUnlock()
	if ok {
		d.put(v, obj)
	}
	return obj, ok
}

func (d *decodedObjects) put(v *object.Version, obj kinds.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.younger) >= generationMost {
		d.nextLocked()
	}
	if d.younger == nil {
		d.younger = map[*object.Version]kinds.Object{}
	}
	d.younger[v] = obj
	d.tickLocked()
}

func (d *decodedObjects) nextLocked() { d.younger, d.elder = nil, d.younger }

// tickLocked lets the next generation begin in a while, as long as there is anything to forget.
func (d *decodedObjects) tickLocked() {
	if d.ticking || d.younger == nil && d.elder == nil {
		return
	}
	d.ticking = true
	time.AfterFunc(generationLife, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ticking = false
		d.nextLocked()
		d.tickLocked()
	})
}
