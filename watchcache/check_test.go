package watchcache

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"vigil/watchcache/internal/tree"
)

// Check finds every kind of damage.
func TestCheck_Damage(t *testing.T) {
	for name, damage := range map[string]func(c *Cache, s *state){
		"an object is missing from the newest content": func(c *Cache, s *state) {
			e := s.objects.Edit()
			e.Delete("/registry/pods/a/p030")
			s.objects = e.Tree()
		},
		"an index lacks a key": func(c *Cache, s *state) {
			b, _ := s.indexes[0].Get("n1")
			keys := b.keys.Edit()
			keys.Delete("/registry/pods/a/p001")
			e := s.indexes[0].Edit()
			e.Set(&bucket{"n1", keys.Tree()})
			s.indexes[0] = e.Tree()
		},
		"a key is in the wrong place of an index": func(c *Cache, s *state) {
			from, _ := s.indexes[0].Get("n1")
			to, _ := s.indexes[0].Get("n2")
			less, more := from.keys.Edit(), to.keys.Edit()
			less.Delete("/registry/pods/a/p001")
			more.Set("/registry/pods/a/p001")
			e := s.indexes[0].Edit()
			e.Set(&bucket{"n1", less.Tree()})
			e.Set(&bucket{"n2", more.Tree()})
			s.indexes[0] = e.Tree()
		},
		"a value is in the index without a key": func(c *Cache, s *state) {
			e := s.indexes[0].Edit()
			e.Set(&bucket{"n9", tree.Tree[objectKey]{}})
			s.indexes[0] = e.Tree()
		},
		"a digest is another's": func(c *Cache, s *state) {
			e := s.objects.Edit()
			v, _ := e.Get("/registry/pods/a/p001")
			v.labels = ^v.labels
			e.Set(v)
			s.objects = e.Tree()
		},
		"a key is marked as broken":  func(c *Cache, s *state) { s.broken = map[string]error{"x": fmt.Errorf("no")} },
		"an event too many":          func(c *Cache, s *state) { c.log.events++ },
		"bytes too few":              func(c *Cache, s *state) { c.log.chunks[1].bytes-- },
		"a window that begins later": func(c *Cache, s *state) { c.log.oldest++ },
		"a chunk that begins later":  func(c *Cache, s *state) { c.log.chunks[1].before = c.log.chunks[2].before },
		"a chunk without its links":  func(c *Cache, s *state) { c.log.chunks[0].keys = bloom{} },
		"a chunk whose content is that of the next": func(c *Cache, s *state) {
			c.log.chunks[1].state = c.log.chunks[2].state
		},
		"a lost chunk": func(c *Cache, s *state) { c.log.chunks[0].next.Store(c.log.chunks[2]) },
		"an event on the wrong branch": func(c *Cache, s *state) {
			b := c.log.branch(branchKey{byNamespace, "a"})
			b.appendLocked(&link{ev: c.log.main.tail.ev, cur: true})
		},
		"an event that a branch lacks": func(c *Cache, s *state) {
			b := c.log.branch(branchKey{byNamespace, "a"})
			b.head = b.head.next.Load()
		},
		"a branch without cursors": func(c *Cache, s *state) { c.log.branch(branchKey{byNamespace, "z"}) },
		"a cursor elsewhere":       func(c *Cache, s *state) { c.log.main.cursors[0].slot = 7 },
		"an event of the wrong revision": func(c *Cache, s *state) {
			c.log.chunks[1].before.next.Load().ev.rev += 7
		},
		"an event that concerns others": func(c *Cache, s *state) {
			c.log.chunks[1].before.next.Load().ev.branches[0]++
		},
		"an exact read that went wrong": func(c *Cache, s *state) {
			wrong := *c.log.chunks[1].state
			wrong.rev += 3
			c.log.chunks[1].memo.Store(&wrong)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, chunkEvents(20))
			r.watch(WatchOptions{After: r.rev})
			r.watch(WatchOptions{After: r.rev, Selection: Selection{Namespace: "a"}})
			for i := range 100 {
				r.put(pod{fmt.Sprintf("a/p%03d", i), fmt.Sprintf("n%d", i%3), "x"})
			}
			r.check()
			s := *r.pods.current.Load()
			s.indexes = append([]tree.Tree[*bucket](nil), s.indexes...)
			damage(r.pods, &s)
			r.pods.current.Store(&s)
			err := r.server.Check()
			if err == nil {
				t.Fatal("not found")
			}
			t.Log(err)
			w := httptest.NewRecorder()
			r.server.ServeHTTP(w, httptest.NewRequest("GET", "/debug/watchcache?check", nil))
			if w.Code != 500 || !strings.Contains(w.Body.String(), err.Error()) {
				t.Errorf("the page says %d %s", w.Code, w.Body)
			}
			r.pods.log = nil // the end of the test checks, too
		})
	}
}

// BenchmarkCheck checks a cache of 10,000 pods with a window of 20,000 events.
func BenchmarkCheck(b *testing.B) {
	r := newRig(b)
	for i := range 20000 {
		r.put(pod{fmt.Sprintf("ns-%02d/p-%05d", i/200%50, i%10000), fmt.Sprintf("n%d", i%100), "x"})
	}
	for b.Loop() {
		r.check()
	}
}
