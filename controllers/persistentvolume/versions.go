package persistentvolume

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// versions has the newest version of each object that is known: from the informer, or from the answer to a write, which is known
// earlier. Without it each step of a binding would begin from the state before the last one. What it returns is shared and never changed.
type versions[T interface {
	runtime.Object
	metav1.Object
}] struct {
	source *informer.Informer
	waits  func(T) bool // which objects wait for others

	mu      sync.Mutex
	newest  map[types.NamespacedName]T
	waiting map[types.NamespacedName]struct{}
}

func newVersions[T interface {
	runtime.Object
	metav1.Object
}](source *informer.Informer, waits func(T) bool) *versions[T] {
	return &versions[T]{source: source, waits: waits, newest: map[types.NamespacedName]T{}, waiting: map[types.NamespacedName]struct{}{}}
}

// take takes in a version that the informer has brought.
func (v *versions[T]) take(obj T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.takeLocked(obj)
}

// wrote takes in the answer to a write. The informer may be ahead and know already that the object is gone.
func (v *versions[T]) wrote(obj T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o, ok := v.source.Indexer().Get(obj.GetNamespace(), obj.GetName()); ok && o.UID() == obj.GetUID() {
		v.takeLocked(obj)
	}
}

func (v *versions[T]) takeLocked(obj T) {
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if have, ok := v.newest[key]; ok && have.GetUID() == obj.GetUID() && number(have) > number(obj) {
		return
	}
	v.newest[key] = obj
	if v.waits(obj) {
		v.waiting[key] = struct{}{}
	} else {
		delete(v.waiting, key)
	}
}

// drop forgets an object that is gone.
func (v *versions[T]) drop(obj T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if have, ok := v.newest[key]; ok && have.GetUID() == obj.GetUID() {
		delete(v.newest, key)
		delete(v.waiting, key)
	}
}

func (v *versions[T]) get(key types.NamespacedName) (obj T, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	obj, ok = v.newest[key]
	return obj, ok
}

// all are all objects, in no order.
func (v *versions[T]) all() []T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.newest))
}

// allWaiting are those that wait, in no order.
func (v *versions[T]) allWaiting() []T {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := make([]T, 0, len(v.waiting))
	for key := range v.waiting {
		list = append(list, v.newest[key])
	}
	return list
}

// number is a resource version; versions of one object can be ordered by it (KEP-5504).
func number(obj metav1.Object) uint64 {
	n, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // 0 for what is no number, which then never counts as newer
	return n
}
