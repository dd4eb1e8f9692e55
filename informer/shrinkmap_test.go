package informer

import (
	"fmt"
	"runtime"
	"testing"
)

// An indexer that has been emptied gives the memory of its maps back.
func TestIndexer_ShrinksWhenEmptied(t *testing.T) {
	const n = 20000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	objects := make([]*Object, n)
	for i := range objects {
		objects[i] = labelled(fmt.Sprint("o", i), i, fmt.Sprint("v", i%2, i))
	}
	x := newIndexer(map[string]IndexFunc{
		"x":   ByLabel("x"),
		"all": func(dst []string, _ *Object) []string { return append(dst, "all") },
	})
	before := heap()
	for _, o := range objects {
		x.put(nil, o)
	}
	full := heap() - before
	for _, o := range objects[10:] {
		x.remove(o, "1")
	}
	if err := x.check(); err != nil {
		t.Fatal(err)
	}
	left := heap() - before
	t.Logf("%d KB with %d objects, %d KB with 10", full>>10, n, left>>10)
	if left > 100<<10 {
		t.Errorf("%d KB are left of %d", left>>10, full>>10)
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(objects)
}
