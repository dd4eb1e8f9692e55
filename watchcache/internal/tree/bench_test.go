package tree

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	google "github.com/google/btree"
	tidwall "github.com/tidwall/btree"
)

func benchItems(n int) []*item {
	items := make([]*item, n)
	for i := range items {
		items[i] = &item{key: fmt.Sprintf("/registry/pods/ns-%03d/pod-%05d", i*100/n, i)}
	}
	return items
}

// contender is a copy-on-write tree as a watch cache would use it.
type contender interface {
	set(*item)
	delete(*item)
	// publish returns a snapshot that stays as it is.
	publish() any
	scan(from *item, fn func(*item) bool)
	len() int
}

type own struct{ e Editor[*item] }

func (c *own) set(i *item)    { c.e.Set(i) }
func (c *own) delete(i *item) { c.e.Delete(i.key) }
func (c *own) publish() any   { return c.e.Tree() }
func (c *own) len() int       { return c.e.Len() }
func (c *own) scan(from *item, fn func(*item) bool) {
	it := c.e.Tree().Seek(from.key)
	for {
		if i, ok := it.Next(); !ok || !fn(i) {
			return
		}
	}
}

type googles struct{ t *google.BTreeG[*item] }

func (c *googles) set(i *item)                          { c.t.ReplaceOrInsert(i) }
func (c *googles) delete(i *item)                       { c.t.Delete(i) }
func (c *googles) publish() any                         { return c.t.Clone() }
func (c *googles) len() int                             { return c.t.Len() }
func (c *googles) scan(from *item, fn func(*item) bool) { c.t.AscendGreaterOrEqual(from, fn) }

type tidwalls struct{ t *tidwall.BTreeG[*item] }

func (c *tidwalls) set(i *item)                          { c.t.Set(i) }
func (c *tidwalls) delete(i *item)                       { c.t.Delete(i) }
func (c *tidwalls) publish() any                         { return c.t.IsoCopy() }
func (c *tidwalls) len() int                             { return c.t.Len() }
func (c *tidwalls) scan(from *item, fn func(*item) bool) { c.t.Ascend(from, fn) }

// contenders have nodes of about the same size. Ours has up to 16 entries; the libraries' have up to 2*degree-1.
var contenders = []struct {
	name string
	make func() contender
}{
	{"own", func() contender { return &own{} }},
	{"google-8", func() contender { return &googles{google.NewG(8, less)} }},
	{"google-16", func() contender { return &googles{google.NewG(16, less)} }},
	{"tidwall-8", func() contender { return newTidwall(8) }},
	{"tidwall-16", func() contender { return newTidwall(16) }},
}

func newTidwall(degree int) contender {
	return &tidwalls{tidwall.NewBTreeGOptions(less, tidwall.Options{Degree: degree, NoLocks: true})}
}

func less(a, b *item) bool { return strings.Compare(a.key, b.key) < 0 }

func race(b *testing.B, n int, fn func(b *testing.B, c contender, items []*item)) {
	items := benchItems(n)
	for _, c := range contenders {
		b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
			t := c.make()
			for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
				t.set(items[i])
			}
			b.ReportAllocs()
			b.ResetTimer()
			fn(b, t, items)
		})
	}
}

// BenchmarkPublish replaces one item and publishes, as a feed batch with one event does.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1000, 50000} {
		race(b, n, func(b *testing.B, c contender, items []*item) {
			var keep any
			for b.Loop() {
				c.set(items[rand.IntN(n)])
				keep = c.publish()
			}
			_ = keep
		})
	}
}

// BenchmarkGrow makes a tree of 50,000 items and publishes after each; BenchmarkShrink takes them out again. In order is what a
// Deployment does whose pods sort behind those before, or a namespace that is emptied.
func BenchmarkGrow(b *testing.B)   { growOrShrink(b, false) }
func BenchmarkShrink(b *testing.B) { growOrShrink(b, true) }

func growOrShrink(b *testing.B, shrink bool) {
	const n = 50000
	items := benchItems(n)
	perm := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for _, order := range []struct {
		name string
		keys []int
	}{{"ordered", upTo(n)}, {"random", perm}} {
		for _, c := range contenders {
			b.Run(c.name+"/"+order.name, func(b *testing.B) {
				b.ReportAllocs()
				var keep any
				for b.Loop() {
					t := c.make()
					if shrink {
						b.StopTimer()
						for _, i := range perm {
							t.set(items[i])
						}
						b.StartTimer()
					}
					for _, k := range order.keys {
						if shrink {
							t.delete(items[k])
						} else {
							t.set(items[k])
						}
						keep = t.publish()
					}
				}
				_ = keep
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/change")
			})
		}
	}
}

// BenchmarkScan reads everything from a random place on.
func BenchmarkScan(b *testing.B) {
	race(b, 50000, func(b *testing.B, c contender, items []*item) {
		for b.Loop() {
			n := 0
			c.scan(items[0], func(*item) bool { n++; return true })
			if n != len(items) {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkSeek reads 20 items from a random place on, as a page does.
func BenchmarkSeek(b *testing.B) {
	race(b, 50000, func(b *testing.B, c contender, items []*item) {
		for b.Loop() {
			n := 0
			c.scan(items[rand.IntN(len(items)-20)], func(*item) bool { n++; return n < 20 })
		}
	})
}

// BenchmarkKept reports what a tree holds in memory for each item besides the item, and what each of 10,000 kept versions adds of which
// one item was replaced, as the versions of a window.
func BenchmarkKept(b *testing.B) {
	const n, versions = 50000, 10000
	items := benchItems(n)
	for _, order := range []string{"ordered", "random"} {
		keys := upTo(n)
		if order == "random" {
			keys = rand.New(rand.NewPCG(1, 1)).Perm(n)
		}
		for _, c := range contenders {
			b.Run(c.name+"/"+order, func(b *testing.B) {
				var perItem, perVersion float64
				for b.Loop() {
					before := heap()
					t := c.make()
					for _, k := range keys {
						t.set(items[k])
					}
					built := heap()
					kept := make([]any, 0, versions)
					for range versions {
						t.set(items[rand.IntN(n)])
						kept = append(kept, t.publish())
					}
					perItem = float64(built-before) / n
					perVersion = float64(heap()-built) / versions
					runtime.KeepAlive(kept)
				}
				b.ReportMetric(perItem, "B/item")
				b.ReportMetric(perVersion, "B/version")
			})
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkGet(b *testing.B) {
	items := benchItems(50000)
	t := Build(items)
	for b.Loop() {
		if _, ok := t.Get(items[rand.IntN(len(items))].key); !ok {
			b.Fatal("missing")
		}
	}
}

// BenchmarkCheck checks a tree of 50,000 items.
func BenchmarkCheck(b *testing.B) {
	t := Build(benchItems(50000))
	for b.Loop() {
		if err := t.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
