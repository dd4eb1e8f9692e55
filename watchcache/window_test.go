package watchcache

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"vigil/object"
)

// fill puts n pods, one batch each.
func (r *rig) fill(n int) {
	for i := range n {
		r.put(pod{fmt.Sprintf("a/p%03d", i), "", ""})
	}
}

func (r *rig) checkLog() {
	r.t.Helper()
	l := r.pods.log
	events, bytes := 0, int64(0)
	for _, c := range l.chunks {
		events += c.events
		bytes += c.bytes
	}
	inMain := 0
	for at := l.main.head.next.Load(); at != nil; at = at.next.Load() {
		inMain++
	}
	if events != l.events || events != inMain || bytes != l.bytes {
		r.t.Errorf("log counts %d events and %d bytes, its chunks hold %d and %d, its main branch %d", l.events, l.bytes, events, bytes, inMain)
	}
	if l.oldest < l.main.after || l.oldest != l.chunks[0].after {
		r.t.Errorf("oldest is %d, the main branch starts after %d, the first chunk after %d", l.oldest, l.main.after, l.chunks[0].after)
	}
}

func TestWindow_Bounds(t *testing.T) {
	t.Run("count", func(t *testing.T) {
		r := newRig(t, window(Window{MaxEvents: 40}))
		r.fill(1000)
		if n := r.pods.log.events; n < 35 || n > 40 {
			t.Errorf("%d events, want 35 to 40", n)
		}
		r.checkLog()
	})
	t.Run("count smaller than a chunk", func(t *testing.T) {
		r := newRig(t, window(Window{MaxEvents: 1}))
		r.fill(10)
		if n := r.pods.log.events; n > 1 {
			t.Errorf("%d events, want at most 1", n)
		}
		r.checkLog()
	})
	t.Run("bytes", func(t *testing.T) {
		r := newRig(t, window(Window{MaxBytes: 100_000}))
		for range 1000 {
			r.put(pod{"a/one", "", ""})
		}
		if n := r.pods.log.bytes; n < 50_000 || n > 100_000 {
			t.Errorf("%d bytes, want at most 100000 and not much less", n)
		}
		r.checkLog()
	})
	t.Run("what was made for watches goes", func(t *testing.T) {
		r := newRig(t)
		r.put(pod{"a/one", "", ""})
		r.put(pod{"a/gone", "", ""})
		first, _ := r.pods.Get("/registry/pods/a/one")
		r.put(pod{"a/one", "", ""})
		r.del("a/gone")
		newest, _ := r.pods.Get("/registry/pods/a/one")
		deletion := r.pods.log.main.tail.ev
		for range 70 { // closes the chunk
			r.put(pod{"a/other", "", ""})
		}
		before, held := r.pods.log.bytes, []int{first.SizeBytes(), newest.SizeBytes()}
		left := deletion.leaving()
		want := [][]byte{}
		for _, v := range []*object.Version{first, newest, left} {
			b, err := v.MetadataProtobuf()
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, bytes.Clone(b))
		}
		if _, err := first.JSON(); err != nil {
			t.Fatal(err)
		}
		if _, err := newest.PackedEvent(object.JSON, false); err != nil {
			t.Fatal(err)
		}
		r.server.sweep()
		if deletion.leaving() != left || first.SizeBytes() == held[0] || newest.SizeBytes() == held[1] {
			t.Error("gone at once")
		}
		r.now = r.now.Add(11 * time.Second)
		r.server.sweep()
		if deletion.gone.Load() != nil || first.SizeBytes() != held[0] || newest.SizeBytes() != held[1] || r.pods.log.bytes != before {
			t.Errorf("versions have %d and %d bytes, before %d; the log %d, before %d", first.SizeBytes(), newest.SizeBytes(), held, r.pods.log.bytes, before)
		}
		for i, v := range []*object.Version{first, newest, deletion.leaving()} {
			if b, err := v.MetadataProtobuf(); err != nil || !bytes.Equal(b, want[i]) {
				t.Errorf("made once more it is %q (%v), was %q", b, err, want[i])
			}
		}
		r.checkLog()
	})
	t.Run("bytes of old events", func(t *testing.T) {
		r := newRig(t, window(Window{OldBytes: 50_000, Fresh: time.Minute, Age: time.Hour}), chunkEvents(4))
		for range 200 {
			r.put(pod{"a/one", "", ""})
		}
		all := r.pods.log.bytes
		r.now = r.now.Add(50 * time.Second)
		r.server.sweep()
		if n := r.pods.log.events; n != 200 || all < 100_000 {
			t.Errorf("%d events after 50 s, want all 200; %d bytes, want more than are kept later", n, all)
		}
		r.put(pod{"a/young", "", ""})
		r.now = r.now.Add(20 * time.Second)
		r.server.sweep()
		if n := r.pods.log.bytes; n < 50_000 || n > 60_000 {
			t.Errorf("%d bytes after 70 s, want 50,000 and less than a chunk more", n)
		}
		r.checkLog()
		r.now = r.now.Add(20 * time.Minute)
		left := r.pods.log.events
		r.server.sweep()
		if n := r.pods.log.events; n != left {
			t.Errorf("%d events after 20 minutes, want %d as before: they are few", n, left)
		}
	})
	t.Run("age", func(t *testing.T) {
		r := newRig(t, window(Window{Age: time.Minute}), chunkEvents(4))
		r.fill(10)
		r.now = r.now.Add(40 * time.Second)
		r.fill(10)
		r.server.sweep()
		if n := r.pods.log.events; n != 20 {
			t.Errorf("%d events after 40 s, want all 20", n)
		}
		r.now = r.now.Add(40 * time.Second)
		r.server.sweep()
		if n := r.pods.log.events; n != 12 { // the third chunk of four has two young ones
			t.Errorf("%d events after 80 s, want 12", n)
		}
		r.now = r.now.Add(40 * time.Second)
		r.server.sweep()
		if n := r.pods.log.events; n != 0 {
			t.Errorf("%d events after 120 s, want 0", n)
		}
		r.checkLog()
		if _, err := r.pods.Watch(WatchOptions{After: r.rev}); err != nil {
			t.Errorf("a watch from the newest revision: %v", err)
		}
		r.fill(5)
		r.checkLog()
	})
	t.Run("age with a minimum", func(t *testing.T) {
		r := newRig(t, window(Window{Age: time.Minute}), chunkEvents(4))
		r.pods.log.minEvents = 10
		r.fill(20)
		r.now = r.now.Add(time.Hour)
		r.server.sweep()
		if n := r.pods.log.events; n != 12 {
			t.Errorf("%d events, want 12: the fewest whole chunks with at least 10", n)
		}
		r.checkLog()
	})
}

// A watch starts anywhere in the window and nowhere before.
func TestWindow_Start(t *testing.T) {
	r := newRig(t, window(Window{MaxEvents: 40}))
	r.fill(100)
	oldest := r.pods.log.oldest
	for rev := int64(100); rev <= r.rev; rev++ {
		for _, sel := range []Selection{{}, {Namespace: "a"}} {
			c, err := r.pods.Watch(WatchOptions{After: rev, Selection: sel})
			var expired *ExpiredError
			switch {
			case rev >= oldest && err != nil:
				t.Errorf("watch after %d: %v", rev, err)
			case rev < oldest && (!errors.As(err, &expired) || *expired != ExpiredError{rev, oldest} || !errors.Is(err, ErrExpired)):
				t.Errorf("watch after %d: %v, want expired, oldest %d", rev, err, oldest)
			case err == nil:
				if got := drain(t, c); int64(len(got)) != r.rev-rev {
					t.Errorf("watch after %d gets %d events, want %d", rev, len(got), r.rev-rev)
				}
				c.Close()
			}
		}
	}
}

// Who reads too late is told so; who stands at the end of a quiet branch has missed nothing, however much happens
// elsewhere.
func TestWindow_SlowCursors(t *testing.T) {
	r := newRig(t, window(Window{MaxEvents: 40}))
	r.put(pod{"quiet/one", "", ""}, pod{"a/one", "", ""})
	open := func(sel Selection) *Cursor { return r.watch(WatchOptions{After: 100, Selection: sel}) }
	everything, busy, quiet := open(Selection{}), open(Selection{Namespace: "a"}), open(Selection{Namespace: "quiet"})
	unread := open(Selection{Namespace: "quiet"})
	behind := r.watch(WatchOptions{After: 100, Selection: Selection{Name: "one", Namespace: "quiet"}})
	if behind.behind.Load() == nil {
		t.Fatal("a younger branch would have to catch up")
	}
	drain(t, quiet)
	initial := r.watch(WatchOptions{Initial: r.pods.Snapshot(), Selection: Selection{Namespace: "quiet"}})
	var told []string
	for name, c := range map[string]*Cursor{"everything": everything, "busy": busy, "quiet": quiet, "unread": unread, "behind": behind, "initial": initial} {
		c.onExpired = func() { told = append(told, name) }
	}
	r.fill(20)
	r.server.sweep()
	if len(told) > 0 {
		t.Errorf("%v expired within the window", told)
	}
	r.fill(100)
	r.server.sweep()
	r.server.sweep()
	slices.Sort(told)
	if want := []string{"behind", "busy", "everything", "initial", "unread"}; !slices.Equal(told, want) {
		t.Errorf("told that they are out of the window: %v, want %v", told, want)
	}
	for _, c := range []*Cursor{everything, busy, unread, behind, initial} {
		for range 2 {
			if got, err := drainErr(t, c); !errors.Is(err, ErrExpired) || len(got) > 0 {
				t.Errorf("%s: got %d events and %v, want ErrExpired", c.branch.key.describe(pods), len(got), err)
			}
		}
		c.Close()
	}
	r.put(pod{"quiet/one", "", ""})
	wantEvents(t, drain(t, quiet), fmt.Sprintf("MODIFIED %d quiet/one@%d", r.rev, r.rev))
}

// A cursor that is not read keeps neither the events behind it in memory nor the trees of its start.
func TestWindow_SlowCursorsFreeMemory(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    func(r *rig) WatchOptions
	}{
		{"main branch", func(*rig) WatchOptions { return WatchOptions{After: 100} }},
		{"namespace", func(*rig) WatchOptions { return WatchOptions{After: 100, Selection: Selection{Namespace: "a"}} }},
		{"initial events", func(r *rig) WatchOptions { return WatchOptions{Initial: r.pods.Snapshot()} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, window(Window{MaxEvents: 40}))
			r.put(pod{"a/x", "", ""})
			c := r.watch(tc.o(r))
			if _, ok, err := c.Next(); !ok || err != nil { // stands behind its first event
				t.Fatal(ok, err)
			}
			r.put(pod{"a/y", "", ""}, pod{"a/y", "", ""}, pod{"a/y", "", ""})
			v, _ := r.pods.Get("/registry/pods/a/y")
			watched := weak.Make[object.Version](v)
			v = nil
			for range 100 {
				r.put(pod{"a/y", "", ""})
			}
			r.server.sweep()
			for range 3 {
				runtime.GC()
			}
			if watched.Value() != nil {
				t.Error("an object that has left the window is still in memory")
			}
			runtime.KeepAlive(c)
		})
	}
}

func TestSnapshotAt(t *testing.T) {
	for _, chunk := range []int{1, 4, 64} {
		r := newRig(t, window(Window{MaxEvents: 60}), chunkEvents(chunk))
		want := map[int64][]string{}
		note := func() { want[r.rev] = names(mustList(t, r.pods.Snapshot(), Selection{}).Items) }
		for i := range 150 {
			switch i % 5 {
			case 0, 1, 2:
				r.put(pod{fmt.Sprintf("a/p%d", i), fmt.Sprintf("n%d", i%3), ""})
			case 3:
				r.del(fmt.Sprintf("a/p%d", i-2))
			case 4:
				r.progress(1)
			}
			note()
		}
		oldest := r.pods.log.oldest
		for rev, want := range want {
			snap, err := r.pods.SnapshotAt(rev)
			if rev < oldest {
				if !errors.Is(err, ErrExpired) {
					t.Errorf("snapshot at %d: %v, want ErrExpired", rev, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("snapshot at %d: %v", rev, err)
				continue
			}
			if got := names(mustList(t, snap, Selection{}).Items); !slices.Equal(got, want) || snap.Revision() != rev {
				t.Errorf("snapshot at %d shows %d: %v, want %v", rev, snap.Revision(), got, want)
			}
			for _, node := range []string{"n0", "n1", "n2"} {
				var scanned []string
				for _, v := range mustList(t, snap, Selection{}).Items {
					if got, _ := v.Field("spec.nodeName"); got == node {
						scanned = append(scanned, v.Key()[len(pods.Prefix):])
					}
				}
				if got := names(mustList(t, snap, Selection{Fields: mustFields(t, "spec.nodeName="+node)}).Items); !slices.Equal(got, scanned) {
					t.Errorf("snapshot at %d by index: %v, want %v", rev, got, scanned)
				}
			}
		}
		if _, err := r.pods.SnapshotAt(r.rev + 1); !errors.Is(err, ErrAhead) {
			t.Errorf("snapshot of the future: %v, want ErrAhead", err)
		}
	}
}

// Exact reads end after Window.Age even where nothing has happened; watches go on, because they miss nothing.
func TestSnapshotAt_Horizon(t *testing.T) {
	r := newRig(t, window(Window{Age: time.Minute}))
	r.put(pod{"a/one", "", ""})
	token := r.rev
	for range 5 {
		r.now = r.now.Add(11 * time.Second)
		r.progress(1)
		r.server.sweep()
	}
	if _, err := r.pods.SnapshotAt(token); err != nil {
		t.Errorf("after 55 s: %v", err)
	}
	for range 3 {
		r.now = r.now.Add(11 * time.Second)
		r.progress(1)
		r.server.sweep()
	}
	if _, err := r.pods.SnapshotAt(token); !errors.Is(err, ErrExpired) {
		t.Errorf("after 88 s: %v, want ErrExpired", err)
	}
	if _, err := r.pods.Watch(WatchOptions{After: token}); err != nil {
		t.Errorf("watch after a revision since which nothing has happened: %v", err)
	}
}

func mustList(t testing.TB, s *Snapshot, sel Selection) Page {
	t.Helper()
	page, err := s.List(sel, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return page
}
