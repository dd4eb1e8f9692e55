package watchcache

import (
	"hash/maphash"
	"sort"
	"strings"
	"sync/atomic"
	"time"
)

// eventLog is the window of one cache: its events, cut into chunks, and the branches that watchers stand on. All of it
// is guarded by Cache.mu, except that cursors follow links and chunks without a lock.
type eventLog struct {
	bounds      Window
	minEvents   int
	chunkEvents int
	seed        maphash.Seed

	main        *branch
	byNamespace map[string]*branch
	byKey       map[string]*branch
	byIndex     []map[string]*branch // by position in Resource.Indexes
	indexes     []string             // Resource.Indexes

	chunks []*chunk // oldest first, never empty; the last is open
	oldest int64    // every event with a greater revision is in the window
	last   int64    // revision of the newest event, or oldest
	newest int64    // revision of the newest event or mark, or oldest
	events int
	bytes  int64

	touched []*branch // to be woken after this batch
	trimmed bool      // since the last sweep
}

// chunk is a run of events. It begins with a batch of the feed and knows the cache's content before it, so that the
// content at any revision inside is that one with at most one chunk's events applied. Keeping a tree for
// each event instead would hold on to a whole path of nodes for each.
type chunk struct {
	after  int64                 // revision of the event or mark before its first one (or of the load)
	before *link                 // the main link before its first
	next   atomic.Pointer[chunk] // set when the chunk is closed; chunkGone when it has left the window
	keys   bloom                 // of its events' branches; complete once it is closed

	memo atomic.Pointer[state] // the state last computed inside it

	// Guarded by Cache.mu.
	state   *state // before its first event; nil when it has left the window
	events  int
	marks   []mark // what happened besides the events, by revision; those that are there never change
	bytes   int64
	newest  time.Time // when its last event came
	settled bool      // see settle
}

// chunkGone stands in for the successor of a trimmed chunk.
var chunkGone = new(chunk)

// eventOverhead is about what an event costs besides its objects: itself, a link, and the nodes of old trees that its chunk keeps.
const eventOverhead = 700

func newEventLog(bounds Window, minEvents, chunkEvents int, indexes []string, loaded *state) *eventLog {
	l := &eventLog{
		bounds:      bounds,
		minEvents:   minEvents,
		chunkEvents: max(1, min(chunkEvents, bounds.MaxEvents/8)),
		seed:        maphash.MakeSeed(),
		main:        newBranch(branchKey{by: byAll}, loaded.rev),
		byNamespace: map[string]*branch{},
		byKey:       map[string]*branch{},
		byIndex:     make([]map[string]*branch, len(indexes)),
		indexes:     indexes,
		oldest:      loaded.rev,
		last:        loaded.rev,
		newest:      loaded.rev,
	}
	for i := range l.byIndex {
		l.byIndex[i] = map[string]*branch{}
	}
	l.chunks = []*chunk{{after: loaded.rev, before: l.main.tail, state: loaded}}
	return l
}

// begin opens a new chunk, if the open one is full, for events that come on top of s.
func (l *eventLog) begin(s *state) {
	open := l.chunks[len(l.chunks)-1]
	if open.length() < l.chunkEvents {
		return
	}
	c := &chunk{after: l.newest, before: l.main.tail, state: s}
	open.next.Store(c)
	l.chunks = append(l.chunks, c)
}

// length is the number of events and marks.
func (c *chunk) length() int { return c.events + len(c.marks) }

// mark puts a mark into the open chunk.
func (l *eventLog) mark(m mark, now time.Time) {
	open := l.chunks[len(l.chunks)-1]
	open.marks = append(open.marks, m)
	open.newest = now
	open.bytes += eventOverhead
	l.bytes += eventOverhead
	l.newest = m.rev
}

// append puts an event on all branches it concerns.
func (l *eventLog) append(ev *event, now time.Time) {
	open := l.chunks[len(l.chunks)-1]
	open.events++
	open.newest = now
	if ev.old.Version != nil {
		open.bytes += int64(ev.old.SizeBytes())
		l.bytes += int64(ev.old.SizeBytes())
	}
	open.bytes += eventOverhead
	l.bytes += eventOverhead
	l.events++
	l.last = ev.rev
	l.newest = max(l.newest, ev.rev)

	ev.main.ev, ev.main.old, ev.main.cur = ev, ev.old.Version != nil, ev.cur.Version != nil
	l.put(l.main, &ev.main)
	ev.branches = make([]uint64, 0, 2+len(l.indexes))
	l.concerned(ev, func(key branchKey, old, cur bool) {
		hash := l.hash(key)
		open.keys.add(hash)
		ev.branches = append(ev.branches, hash)
		if b := l.branches(key.by)[key.value]; b != nil {
			l.put(b, &link{ev: ev, old: old, cur: cur})
		}
	})
}

func (l *eventLog) put(b *branch, at *link) {
	b.appendLocked(at)
	l.touch(b)
}

// takeTouched appends the branches touched since the last call to dst.
func (l *eventLog) takeTouched(dst []*branch) []*branch {
	for _, b := range l.touched {
		b.touched = false
	}
	dst = append(dst, l.touched...)
	clear(l.touched)
	l.touched = l.touched[:0]
	return dst
}

func (l *eventLog) touch(b *branch) {
	if !b.touched {
		b.touched = true
		l.touched = append(l.touched, b)
	}
}

// concerned calls fn for every selecting branch that the event belongs on, and says with which of its sides.
func (l *eventLog) concerned(ev *event, fn func(key branchKey, old, cur bool)) {
	key := ev.key()
	old, cur := ev.old.Version != nil, ev.cur.Version != nil
	if ns := namespaceOf(ev); ns != "" {
		fn(branchKey{byNamespace, ns}, old, cur)
	}
	fn(branchKey{byKey, key}, old, cur)
	for i, label := range l.indexes {
		by := byIndex + branchKind(i)
		var before, after string
		if old {
			before, _ = ev.old.Field(label)
		}
		if cur {
			after, _ = ev.cur.Field(label)
		}
		switch {
		case old && cur && before != after:
			fn(branchKey{by, before}, true, false)
			fn(branchKey{by, after}, false, true)
		case cur:
			fn(branchKey{by, after}, old, true)
		default:
			fn(branchKey{by, before}, true, false)
		}
	}
}

func namespaceOf(ev *event) string {
	if ev.cur.Version != nil {
		return ev.cur.Namespace()
	}
	return ev.old.Namespace()
}

// branches returns the map that holds the branches of a kind other than byAll.
func (l *eventLog) branches(by branchKind) map[string]*branch {
	switch by {
	case byNamespace:
		return l.byNamespace
	case byKey:
		return l.byKey
	}
	return l.byIndex[by-byIndex]
}

// branch returns the branch for a new cursor.
func (l *eventLog) branch(key branchKey) *branch {
	if key.by == byAll {
		return l.main
	}
	m := l.branches(key.by)
	b := m[key.value]
	if b == nil {
		key.value = strings.Clone(key.value)
		b = newBranch(key, l.last)
		m[key.value] = b
	}
	return b
}

// drop forgets a branch that nobody watches any more.
func (l *eventLog) drop(b *branch) {
	if m := l.branches(b.key.by); m[b.key.value] == b {
		delete(m, b.key.value)
	}
}

// all calls fn for every branch.
func (l *eventLog) all(fn func(*branch)) {
	fn(l.main)
	for _, m := range append([]map[string]*branch{l.byNamespace, l.byKey}, l.byIndex...) {
		for _, b := range m {
			fn(b)
		}
	}
}

// chunkAt returns the chunk in which the first event after rev is or will be. rev must not be less than oldest.
func (l *eventLog) chunkAt(rev int64) *chunk {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].after > rev })
	return l.chunks[i-1]
}

// trim takes chunks off until the window is within its bounds.
func (l *eventLog) trim(now time.Time, s *state) {
	for {
		first := l.chunks[0]
		over := l.events > l.bounds.MaxEvents || l.bytes > l.bounds.MaxBytes
		keep := l.bounds.Age
		if l.bytes-first.bytes >= l.bounds.OldBytes {
			keep = min(keep, l.bounds.Fresh)
		}
		old := first.length() > 0 && now.Sub(first.newest) > keep && l.events-first.events >= l.minEvents
		if !over && !old || first.length() == 0 {
			return
		}
		if len(l.chunks) == 1 {
			if first.length() < l.chunkEvents && !old && l.bytes <= l.bounds.MaxBytes {
				return
			}
			next := &chunk{after: l.newest, before: l.main.tail, state: s}
			first.next.Store(next)
			l.chunks = append(l.chunks, next)
		}
		l.trimChunk(first)
	}
}

func (l *eventLog) trimChunk(c *chunk) {
	for range c.events {
		at := l.main.head.next.Load()
		l.concerned(at.ev, func(key branchKey, _, _ bool) {
			if b := l.branches(key.by)[key.value]; b != nil {
				b.trimLocked(at.ev)
			}
		})
		l.main.trimLocked(at.ev)
	}
	l.events -= c.events
	l.bytes -= c.bytes
	l.oldest = l.chunks[1].after
	l.trimmed = true
	c.next.Store(chunkGone)
	c.state = nil // a cursor may still stand here
	c.memo.Store(nil)
	l.chunks[0] = nil
	l.chunks = l.chunks[1:]
}

// settle lets go of what was made for those who watch, some time after a chunk's last event: by then they have had it. What a laggard
// wants is made once more. It brings the bytes of the chunk up to date.
func (l *eventLog) settle(now time.Time) {
	const after = 10 * time.Second
	i := sort.Search(len(l.chunks), func(i int) bool { return !l.chunks[i].settled })
	for ; i < len(l.chunks)-1; i++ {
		c := l.chunks[i]
		if now.Sub(c.newest) < after {
			return
		}
		bytes := int64(c.length()) * eventOverhead
		for at, n := c.before.next.Load(), 0; n < c.events; at, n = at.next.Load(), n+1 {
			at.ev.gone.Store(nil)
			if v := at.ev.cur.Version; v != nil {
				v.ReleaseWatched()
			}
			if v := at.ev.old.Version; v != nil {
				v.Release()
				bytes += int64(v.SizeBytes())
			}
		}
		l.bytes += bytes - c.bytes
		c.bytes, c.settled = bytes, true
	}
}

// end lets all cursors run out of the window, for a log that is being replaced.
func (l *eventLog) end() {
	l.all(func(b *branch) {
		b.endLocked()
		l.touch(b)
	})
	l.chunks[len(l.chunks)-1].next.Store(chunkGone)
	l.trimmed = true
}

func (l *eventLog) hash(key branchKey) uint64 {
	return maphash.String(l.seed, key.value) + uint64(key.by)*0x9e3779b97f4a7c15
}

// bloom is a set of hashes that may report one too many: 3 % with the 200 that a full chunk of pods has.
type bloom [32]uint64

func (b *bloom) add(h uint64) {
	i, j := h&2047, h>>11&2047
	b[i>>6] |= 1 << (i & 63)
	b[j>>6] |= 1 << (j & 63)
}

func (b *bloom) has(h uint64) bool {
	i, j := h&2047, h>>11&2047
	return b[i>>6]>>(i&63)&1 != 0 && b[j>>6]>>(j&63)&1 != 0
}
