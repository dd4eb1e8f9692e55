// Package barrier keeps controllers from acting on a cache that does not show their own writes yet.
//
// After a write the controller notes the version that the server gave it; before it acts on the same owner again it asks
// whether its informer has come that far. All versions of one server are one sequence, so the comparison is exact: nothing is
// counted, nothing times out.
package barrier

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Barrier remembers the newest write for each owner.
type Barrier struct {
	mu     sync.Mutex
	newest map[types.UID]uint64
}

// New makes an empty barrier.
func New() *Barrier { return &Barrier{newest: map[types.UID]uint64{}} }

// Wrote notes a write on behalf of owner that got this resource version.
func (b *Barrier) Wrote(owner types.UID, resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest[owner] = max(b.newest[owner], version)
}

// Passed says whether a cache at this resource version shows every write noted for owner.
func (b *Barrier) Passed(owner types.UID, resourceVersion string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrote, ok := b.newest[owner]
	if !ok {
		return true
	}
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || version < wrote {
		return false
	}
	delete(b.newest, owner)
	return true
}

// Forget drops what is known of an owner that is gone.
func (b *Barrier) Forget(owner types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.newest, owner)
}
