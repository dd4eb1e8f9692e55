package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"vigil/store"
)

// feedTimeout is for what must come soon.
const feedTimeout = 5 * time.Minute

// Recorder is a Feed that runs beside a test and checks what every feed promises: revisions rise, none is cut in
// two, nothing comes after the revision a batch says it is complete to.
type Recorder struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each batch
	events  []store.Event
	rev     int64
	err     error
	done    chan struct{}
	problem string
}

// Record starts a feed after revision rev. It ends with the test or with ctx, whichever is first.
func Record(ctx context.Context, t testing.TB, s *store.Store, rev int64) *Recorder {
	r := &Recorder{changed: make(chan struct{}), rev: rev, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		err := s.Feed(ctx, rev, func(b store.Batch) error { r.add(b); return nil })
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		if r.problem != "" {
			t.Error(r.problem)
		}
	})
	return r
}

func (r *Recorder) add(b store.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.rev // of the batch before: it was said to be complete
	for _, e := range b.Events {
		if e.ModRev <= r.rev || e.ModRev < last || e.ModRev > b.Rev {
			r.problem = fmt.Sprintf("event of revision %d in a batch up to %d, after revision %d and event %d", e.ModRev, b.Rev, r.rev, last)
		}
		last = e.ModRev
	}
	if b.Rev < r.rev {
		r.problem = fmt.Sprintf("batch up to %d after one up to %d", b.Rev, r.rev)
	}
	r.events = append(r.events, b.Events...)
	r.rev = b.Rev
	close(r.changed)
	r.changed = make(chan struct{})
}

// WaitFor waits until the feed is complete up to rev and returns all events so far.
func (r *Recorder) WaitFor(t testing.TB, rev int64) []store.Event {
	t.Helper()
	deadline := time.After(feedTimeout)
	for {
		r.mu.Lock()
		events, at, changed := r.events, r.rev, r.changed
		r.mu.Unlock()
		if at >= rev {
			return events
		}
		select {
		case <-changed:
		case <-r.done:
			t.Fatalf("feed ended at revision %d before %d: %v", at, rev, r.Err())
		case <-deadline:
			t.Fatalf("feed is at revision %d with %d events, want %d", at, len(events), rev)
		}
	}
}

// Rev is how far the feed is complete.
func (r *Recorder) Rev() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rev
}

// Err is what ended the feed.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Wait waits for the feed's end and returns its error.
func (r *Recorder) Wait(t testing.TB) error {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(feedTimeout):
		t.Fatal("feed does not end")
	}
	return r.Err()
}

func testFeed(t *testing.T, target Target) {
	s := target.Store
	before := create(t, s, "/registry/pods/default/before", "v")
	r := Record(t.Context(), t, s, before)
	first := create(t, s, podA, "v1")
	second, err := s.Update(t.Context(), podA, []byte{}, first, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Etcd.Client().Put(t.Context(), "/other", "not ours"); err != nil {
		t.Fatal(err)
	}
	fourth, err := s.Delete(t.Context(), podA, second)
	if err != nil {
		t.Fatal(err)
	}
	got := r.WaitFor(t, fourth)
	want := []store.Event{
		{Key: podA, Value: []byte("v1"), ModRev: first},
		{Key: podA, Value: []byte{}, ModRev: second},
		{Key: podA, Value: nil, ModRev: fourth},
	}
	if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("events\n%#v, want\n%#v", got, want)
	}
}

// testFeedWholeTransactions writes transactions of many keys, some while the feed runs, some before it.
func testFeedWholeTransactions(t *testing.T, target Target) {
	const txns, keys = 50, 20
	write := func() (rev int64) {
		for i := range txns {
			var ops []clientv3.Op
			for k := range keys {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/pods/%d", k), fmt.Sprint(i)))
			}
			resp, err := target.Etcd.Client().Txn(t.Context()).Then(ops...).Commit()
			if err != nil {
				t.Fatal(err)
			}
			rev = resp.Header.Revision
		}
		return rev
	}
	write()
	r := Record(t.Context(), t, target.Store, 1)
	events := r.WaitFor(t, write())
	perRev := map[int64]int{}
	for _, e := range events {
		perRev[e.ModRev]++
	}
	for rev, n := range perRev {
		if n != keys {
			t.Errorf("revision %d has %d events, want %d", rev, n, keys)
		}
	}
	if len(perRev) != 2*txns {
		t.Errorf("%d revisions, want %d", len(perRev), 2*txns)
	}
}

// testFeedCatchesUp starts a feed a long way back, with values that etcd cannot send in one message.
func testFeedCatchesUp(t *testing.T, target Target) {
	s := target.Store
	const n, size = 60, 100 << 10
	var last int64
	for i := range n {
		rev, err := s.Create(t.Context(), fmt.Sprintf("/registry/secrets/a/%d", i), Value(i, size), 0)
		if err != nil {
			t.Fatal(err)
		}
		last = rev
	}
	events := Record(t.Context(), t, s, 1).WaitFor(t, last)
	if len(events) != n {
		t.Fatalf("%d events, want %d", len(events), n)
	}
	for i, e := range events {
		if want := fmt.Sprintf("/registry/secrets/a/%d", i); e.Key != want || string(e.Value) != string(Value(i, size)) {
			t.Errorf("event %d is %s with %d bytes, want %s", i, e.Key, len(e.Value), want)
		}
	}
}

func testFeedCompacted(t *testing.T, target Target) {
	s := target.Store
	first := create(t, s, podA, "v1")
	create(t, s, podA+"1", "v")
	third := create(t, s, podA+"2", "v")
	compact(t, target, third)
	if err := Record(t.Context(), t, s, first-1).Wait(t); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("feed from before compaction: %v, want ErrCompacted", err)
	}
	if events := Record(t.Context(), t, s, third-1).WaitFor(t, third); len(events) != 1 {
		t.Errorf("feed from the compacted revision has %d events, want 1", len(events))
	}
	// A feed that runs is not hurt by compaction.
	r := Record(t.Context(), t, s, third)
	fourth := create(t, s, podA+"3", "v")
	compact(t, target, fourth)
	fifth := create(t, s, podA+"4", "v")
	if events := r.WaitFor(t, fifth); len(events) != 2 {
		t.Errorf("%d events across a compaction, want 2", len(events))
	}
}

func testFeedEnds(t *testing.T, target Target) {
	s := target.Store
	create(t, s, podA, "v1")
	enough := errors.New("enough")
	if err := s.Feed(t.Context(), 1, func(store.Batch) error { return enough }); err != enough {
		t.Errorf("feed with a failing fn: %v, want its error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := Record(ctx, t, s, 1)
	r.WaitFor(t, 2)
	cancel()
	if err := r.Wait(t); !errors.Is(err, context.Canceled) {
		t.Errorf("feed after cancel: %v, want context.Canceled", err)
	}
	if err := s.RequestProgress(t.Context()); err == nil {
		t.Error("progress requested without a feed")
	}
}

// testFeedProgress writes outside the prefix: only progress can tell a feed that it has missed nothing.
func testFeedProgress(t *testing.T, target Target) {
	s := target.Store
	at := create(t, s, podA, "v1")
	r := Record(t.Context(), t, s, at-1)
	r.WaitFor(t, at)
	for range 20 {
		if _, err := target.Etcd.Client().Put(t.Context(), "/other", "v"); err != nil {
			t.Fatal(err)
		}
		rev, err := s.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.WaitFor(t, rev)
	}
}

// testFeedFarBehind starts feeds so far back that etcd would need several turns for one watch. Some revisions on the way, and all of the
// last ones, are of keys outside the prefix.
func testFeedFarBehind(t *testing.T, target Target) {
	const txns, others = 2500, 1000
	client := target.Etcd.Client()
	var want []store.Event
	var last int64
	for i := range txns {
		ops := []clientv3.Op{clientv3.OpPut(fmt.Sprintf("/registry/pods/%d", i%100), fmt.Sprint(i)), clientv3.OpPut("/registry/pods/all", fmt.Sprint(i))}
		switch i % 10 {
		case 3:
			ops = []clientv3.Op{clientv3.OpPut("/other", "v")}
		case 7:
			ops = []clientv3.Op{clientv3.OpDelete("/registry/pods/all")}
		}
		resp, err := client.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
		for _, op := range ops {
			switch {
			case op.IsDelete():
				want = append(want, store.Event{Key: string(op.KeyBytes()), ModRev: last})
			case string(op.KeyBytes()) != "/other":
				want = append(want, store.Event{Key: string(op.KeyBytes()), Value: op.ValueBytes(), ModRev: last})
			}
		}
	}
	for range others {
		resp, err := client.Put(t.Context(), "/other", "v")
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	first := want[0].ModRev
	for _, after := range []int64{first - 1, first + 1, first + 700, first + 1600, first + txns - 1, last - 1} {
		r := Record(t.Context(), t, target.Store, after)
		deadline := time.After(feedTimeout)
		for asked := false; r.Rev() < last; { // progress is for those who ask
			if err := target.Store.RequestProgress(t.Context()); err != nil && asked {
				t.Fatal(err)
			} else if err == nil {
				asked = true
			}
			select {
			case <-deadline:
				t.Fatalf("feed after %d is at %d, want %d", after, r.Rev(), last)
			case <-time.After(10 * time.Millisecond):
			}
		}
		events := r.WaitFor(t, last)
		begin, _ := slices.BinarySearchFunc(want, after+1, func(e store.Event, rev int64) int { return cmp.Compare(e.ModRev, rev) })
		if len(events) != len(want[begin:]) {
			t.Fatalf("feed after %d has %d events, want %d", after, len(events), len(want[begin:]))
		}
		for i, e := range events {
			if w := want[begin+i]; e.Key != w.Key || e.ModRev != w.ModRev || string(e.Value) != string(w.Value) || (e.Value == nil) != (w.Value == nil) {
				t.Fatalf("feed after %d: event %d is %s at %d, %q, want %s at %d, %q", after, i, e.Key, e.ModRev, e.Value, w.Key, w.ModRev, w.Value)
			}
		}
	}
}

// testFeeds has several feeds under concurrent writers; all must see the same.
func testFeeds(t *testing.T, target Target) {
	s := target.Store
	const writers, each = 8, 100
	var recorders []*Recorder
	for range 3 {
		recorders = append(recorders, Record(t.Context(), t, s, 1))
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Create(t.Context(), fmt.Sprintf("/registry/pods/%d/%d", w, i), Value(i, 500), 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rev, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	recorders = append(recorders, Record(t.Context(), t, s, 1))
	for i, r := range recorders {
		events := r.WaitFor(t, rev)
		if len(events) != writers*each {
			t.Errorf("feed %d has %d events, want %d", i, len(events), writers*each)
		}
		for j, e := range events {
			if e.ModRev != events[0].ModRev+int64(j) {
				t.Errorf("feed %d: event %d has revision %d, want %d", i, j, e.ModRev, events[0].ModRev+int64(j))
				break
			}
		}
	}
}
