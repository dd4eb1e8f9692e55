package tree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	tidwall "github.com/tidwall/btree"
)

func benchItems(n int) []*item {
	items := make([]*item, n)
	for i := range items {
		items[i] = &item{key: fmt.Sprintf("/registry/pods/ns-%03d/pod-%05d", i*100/n, i)}
	}
	return items
}

// BenchmarkPublish replaces one item and publishes, as a feed batch with one event does, with the library beside it.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1000, 50000} {
		items := benchItems(n)
		b.Run(fmt.Sprintf("own/%d", n), func(b *testing.B) {
			e := Build(items).Edit()
			var keep Tree[*item]
			b.ReportAllocs()
			for b.Loop() {
				e.Set(items[rand.IntN(n)])
				keep = e.Tree()
			}
			_ = keep
		})
		for _, degree := range []int{8, 16, 32} {
			b.Run(fmt.Sprintf("tidwall-%d/%d", degree, n), func(b *testing.B) {
				t := tidwall.NewBTreeGOptions(func(a, b *item) bool { return strings.Compare(a.key, b.key) < 0 },
					tidwall.Options{Degree: degree, NoLocks: true})
				for _, i := range items {
					t.Load(i)
				}
				b.ReportAllocs()
				for b.Loop() {
					t.Set(items[rand.IntN(n)])
					t = t.IsoCopy()
				}
			})
		}
	}
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

func BenchmarkScan(b *testing.B) {
	t := Build(benchItems(50000))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for it := t.Seek(""); ; n++ {
			if _, ok := it.Next(); !ok {
				break
			}
		}
		if n != 50000 {
			b.Fatal(n)
		}
	}
}
