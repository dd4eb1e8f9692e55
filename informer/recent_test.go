package informer

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"vigil/informer/internal/wire"
)

func objectOf(t testing.TB, data string) *Object {
	t.Helper()
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, []byte(data), &m); err != nil {
		t.Fatal(err)
	}
	o, err := newObject(podResource.Type, wire.JSON, "default/p", []byte(data), &m, false)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func versionOf(uid, version int, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":"p","namespace":"default","uid":"%d","resourceVersion":"%d"},"more":%q}`, uid, version, more)
}

func sameBytes(a, b *Object) bool { return unsafe.StringData(a.data) == unsafe.StringData(b.data) }

// Objects share bytes when they have the same, not when they say that they are the same version.
func TestObject_SharesEqualBytes(t *testing.T) {
	a := objectOf(t, versionOf(1, 2, "x"))
	if b := objectOf(t, versionOf(1, 2, "x")); !sameBytes(a, b) {
		t.Error("two objects of the same bytes do not share them")
	}
	b := objectOf(t, versionOf(1, 2, "y"))
	if b.data != versionOf(1, 2, "y") {
		t.Errorf("an object of other bytes has %s", b.data)
	}
	runtime.KeepAlive(a)
}

// What was received of late is kept by those who keep it, and by nothing else.
func TestObject_RecentAreCollected(t *testing.T) {
	collected := make(chan struct{})
	func() {
		o := objectOf(t, versionOf(1, 2, "to be collected"))
		runtime.AddCleanup(o, func(c chan struct{}) { close(c) }, collected)
	}()
	for {
		runtime.GC()
		select {
		case <-collected:
			return
		default:
		}
	}
}

// Informers receive at the same time, in the middle of collections.
func TestObject_SharesConcurrently(t *testing.T) {
	var informers sync.WaitGroup
	for range 8 {
		informers.Go(func() {
			for i := range 3000 {
				data := versionOf(i%100, i, "")
				if o := objectOf(t, data); o.data != data {
					t.Errorf("%s became %s", data, o.data)
				}
				if i%500 == 0 {
					runtime.GC()
				}
			}
		})
	}
	informers.Wait()
}

// BenchmarkObject_Received measures what an object costs that some informers of a process have received.
func BenchmarkObject_Received(b *testing.B) {
	const objects = 10_000
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("informers=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			padding := strings.Repeat("x", 2000)
			var m wire.Meta
			kept := make([]*Object, 0, n*objects)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				kept = kept[:0]
				for i := range objects {
					data := []byte(versionOf(i, i, padding))
					if err := wire.ReadMeta(wire.JSON, data, &m); err != nil {
						b.Fatal(err)
					}
					for range n {
						o, err := newObject(podResource.Type, wire.JSON, "default/p", data, &m, false)
						if err != nil {
							b.Fatal(err)
						}
						kept = append(kept, o)
					}
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/objects, "B/object")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/objects, "ns/object")
			runtime.KeepAlive(kept)
		})
	}
}
