package watchcache

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"vigil/object"
	"vigil/store"
)

var (
	largePods = flag.Int("large.pods", 4000, "pods of TestLarge")
	largeSeed = flag.Uint64("large.seed", 0, "seed of TestLarge; 0 picks one")
)

// Lists, pages, exact reads and watches are right at every size of the cache: while it grows to several levels, and while
// namespaces and nodes are emptied. What was published is the same later.
func TestLarge(t *testing.T) {
	for name, opts := range map[string][]rigOption{
		"all in the window": nil,
		"small window":      {window(Window{MaxEvents: 700})},
		"small chunks":      {window(Window{MaxEvents: 400}), chunkEvents(3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := *largeSeed
			if seed == 0 {
				seed = rand.Uint64() >> 1
			}
			t.Logf("-large.seed=%d", seed)
			n := *largePods
			if raceEnabled {
				n /= 3
			}
			l := newLarge(t, rand.New(rand.NewPCG(seed, 0)), n, opts)
			if all, levels := l.pods.Len(), l.grow(); levels < 4 && n >= 4000 {
				t.Errorf("%d pods make %d levels only, want 4", all, levels)
			}
			l.churn(n / 2)
			l.look()
			l.drop("namespaces", 0, func(p pod) string { ns, _ := splitKey(p.key); return ns })
			l.refill()
			l.drop("nodes", 1, func(p pod) string { return p.node })
			l.look()
			l.refill()
			l.dropMiddle()
			l.churn(n / 2)
			l.drop("labels", 0, func(p pod) string { return p.app })
			l.look()
			if l.pods.Len() != 0 {
				t.Errorf("%d pods are left", l.pods.Len())
			}
			if l.restarts == 0 && len(opts) > 0 {
				t.Error("no watch fell out of the window")
			}
			t.Logf("%d revisions, %d versions kept, %d watches restarted, %d exact reads", l.rev-100, len(l.kept), l.restarts, l.exact)
		})
	}
}

// large drives a rig and the stupid model of it, a map.
type large struct {
	*rig
	rnd      *rand.Rand
	all      []pod          // every pod that there may be, in order of the keys
	model    map[string]pod // by key
	serials  map[string]int64
	watchers []*mirror
	kept     []keptVersion
	restarts int
	exact    int
}

// keptVersion is what lists showed at a revision.
type keptVersion struct {
	snap *Snapshot
	want map[string]int64 // serial by key
	sel  []Selection
	list [][]string
}

// mirror is a watch and what its events have made of it.
type mirror struct {
	sel    Selection
	cursor *Cursor
	pods   map[string]string // serial by key
}

func newLarge(t *testing.T, rnd *rand.Rand, n int, opts []rigOption) *large {
	l := &large{rig: newRig(t, opts...), rnd: rnd, model: map[string]pod{}, serials: map[string]int64{}}
	for i := range n {
		l.all = append(l.all, pod{fmt.Sprintf("ns-%02d/p-%05d", i*12/n, i), fmt.Sprintf("n%02d", rnd.IntN(40)), string(rune('a' + rnd.IntN(5)))})
	}
	for _, sel := range []Selection{
		{}, {Namespace: "ns-03"}, {Namespace: "ns-11"}, {Fields: mustFields(t, "spec.nodeName=n07")},
		{Labels: mustLabels(t, "app in (a,c)")}, {Namespace: "ns-05", Fields: mustFields(t, "spec.nodeName=n20")},
		{Namespace: "ns-07", Name: l.all[n*7/12+5].key[len("ns-07/"):]}, {Namespace: "ns-02", Labels: mustLabels(t, "app!=b")},
	} {
		l.watchers = append(l.watchers, &mirror{sel: sel})
	}
	return l
}

// step feeds a batch and looks at what a moment may show.
func (l *large) step(changed ...pod) {
	var b store.Batch
	for _, p := range changed {
		l.rev++
		e := store.Event{Key: "/registry/pods/" + p.key, ModRev: l.rev}
		if p.node == "" { // deleted
			delete(l.model, p.key)
			delete(l.serials, p.key)
		} else {
			e.Value = p.stored(l.t, l.rev)
			l.model[p.key], l.serials[p.key] = p, l.rev
		}
		b.Events = append(b.Events, e)
	}
	b.Rev = l.rev
	l.server.apply(b)
	w := l.watchers[l.rnd.IntN(len(l.watchers))]
	switch l.rnd.IntN(300) {
	case 0, 1, 2, 3, 4, 5:
		l.follow(w)
	case 6:
		w.close()
	case 7, 8:
		l.keep()
	case 9, 10, 11, 12:
		l.checkExact()
	case 13:
		if l.pods.log.events < 5000 || l.rnd.IntN(10) == 0 { // which takes longer the longer the window is
			l.check()
		}
	}
}

// batch feeds changes in batches of one to sixty.
func (l *large) batch(changes []pod) {
	for len(changes) > 0 {
		n := 1
		if l.rnd.IntN(10) == 0 {
			n = min(len(changes), 1+l.rnd.IntN(60))
		}
		l.step(changes[:n]...)
		changes = changes[n:]
	}
}

// grow makes all pods in order, and returns the levels of their tree.
func (l *large) grow() int {
	l.batch(l.all)
	return l.pods.current.Load().objects.Levels()
}

// refill makes the pods that are not there, last first.
func (l *large) refill() {
	var gone []pod
	for _, p := range slices.Backward(l.all) {
		if _, ok := l.model[p.key]; !ok {
			gone = append(gone, p)
		}
	}
	l.batch(gone)
}

// churn changes, moves, deletes and makes pods at random.
func (l *large) churn(n int) {
	for range n {
		p := l.all[l.rnd.IntN(len(l.all))]
		switch l.rnd.IntN(4) {
		case 0:
			if _, ok := l.model[p.key]; !ok {
				continue
			}
			p.node = ""
		case 1:
			p.node = fmt.Sprintf("n%02d", l.rnd.IntN(40))
		case 2:
			p.app = string(rune('a' + l.rnd.IntN(5)))
		}
		l.step(p)
	}
}

// drop deletes the pods group by group, in random order of the groups, but keeps some groups.
func (l *large) drop(what string, keep int, group func(pod) string) {
	groups := map[string][]pod{}
	for _, p := range l.model {
		groups[group(p)] = append(groups[group(p)], pod{key: p.key})
	}
	var names []string
	for name, pods := range groups {
		names = append(names, name)
		slices.SortFunc(pods, func(a, b pod) int { return strings.Compare(a.key, b.key) })
	}
	slices.Sort(names)
	l.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[keep:] {
		l.batch(groups[name])
	}
}

// dropMiddle deletes nine tenths of the pods, from the middle outwards.
func (l *large) dropMiddle() {
	mid, n := len(l.all)/2, len(l.all)*45/100
	var gone []pod
	for i := range n {
		gone = append(gone, pod{key: l.all[mid-1-i].key}, pod{key: l.all[mid+i].key})
	}
	l.batch(gone)
}

func (sel Selection) sees(p pod) bool {
	ns, name := splitKey(p.key)
	if sel.Namespace != "" && sel.Namespace != ns || sel.Name != "" && sel.Name != name {
		return false
	}
	if sel.Fields != nil && sel.Fields.Requirements()[0].Value != p.node {
		return false
	}
	return sel.Labels == nil || sel.Labels.Matches(labels.Set{"app": p.app})
}

// want returns the keys that a selection shows now.
func (l *large) want(sel Selection) []string {
	keys := []string{}
	for _, p := range l.all {
		if now, ok := l.model[p.key]; ok && sel.sees(now) {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// keep compares lists of the newest content and remembers it.
func (l *large) keep() {
	k := keptVersion{snap: l.pods.Snapshot(), want: map[string]int64{}}
	for key, serial := range l.serials {
		k.want[key] = serial
	}
	for _, w := range l.watchers {
		k.sel = append(k.sel, w.sel)
		k.list = append(k.list, l.want(w.sel))
	}
	k.compare(l, k.snap)
	l.kept = append(l.kept, k)
}

// compare compares the lists of s, whole and in pages, with what was there.
func (k *keptVersion) compare(l *large, s *Snapshot) {
	l.t.Helper()
	if s.Len() != len(k.want) {
		l.t.Fatalf("revision %d has %d objects, had %d", s.Revision(), s.Len(), len(k.want))
	}
	for i, sel := range k.sel {
		limit := 0
		if l.rnd.IntN(2) == 0 {
			limit = 1 + l.rnd.IntN(len(k.list[i])+1)
		}
		var got []*object.Version
		for from := ""; ; {
			page, err := s.List(sel, from, limit)
			if err != nil {
				l.t.Fatal(err)
			}
			got = append(got, page.Items...)
			if rest := int64(len(k.list[i]) - len(got)); page.Remaining >= 0 && page.Remaining != rest {
				l.t.Fatalf("revision %d, %v: %d remain, want %d", s.Revision(), sel, page.Remaining, rest)
			}
			if from = page.Next; from == "" {
				break
			}
		}
		if keys := names(got); !slices.Equal(keys, k.list[i]) {
			l.t.Fatalf("revision %d, %v in pages of %d: %d objects, want %d", s.Revision(), sel, limit, len(keys), len(k.list[i]))
		}
		for _, v := range got {
			if want := k.want[v.Key()[len("/registry/pods/"):]]; v.Revision() != want {
				l.t.Fatalf("revision %d: %s is at %d, want %d", s.Revision(), v.Key(), v.Revision(), want)
			}
		}
	}
}

// checkExact reads a kept revision again, if the window still has it.
func (l *large) checkExact() {
	if len(l.kept) == 0 {
		return
	}
	k := &l.kept[l.rnd.IntN(len(l.kept))]
	if l.rnd.IntN(4) > 0 {
		k = &l.kept[len(l.kept)-1]
	}
	s, err := l.pods.SnapshotAt(k.snap.Revision())
	switch {
	case errors.Is(err, ErrExpired):
	case err != nil:
		l.t.Fatal(err)
	default:
		l.exact++
		k.compare(l, s)
	}
}

// look compares everything that has been kept, and what all watches have made of their events.
func (l *large) look() {
	l.t.Helper()
	l.check()
	for i := range l.kept {
		l.kept[i].compare(l, l.kept[i].snap)
	}
	for _, w := range l.watchers {
		l.follow(w)
		want := l.want(w.sel)
		if len(w.pods) != len(want) {
			l.t.Fatalf("watch of %v has %d pods, want %d", w.sel, len(w.pods), len(want))
		}
		for _, key := range want {
			if w.pods[key] != fmt.Sprint(l.serials[key]) {
				l.t.Fatalf("watch of %v has %s at %s, want %d", w.sel, key, w.pods[key], l.serials[key])
			}
		}
	}
}

func (w *mirror) close() {
	if w.cursor != nil {
		w.cursor.Close()
		w.cursor = nil
	}
}

// follow takes all events of a watch. One that is not under way begins anew.
func (l *large) follow(w *mirror) {
	l.t.Helper()
	if w.cursor == nil {
		w.pods = map[string]string{}
		w.cursor = l.watch(WatchOptions{Selection: w.sel, Initial: l.pods.Snapshot()})
	}
	for {
		ev, ok, err := w.cursor.Next()
		if errors.Is(err, ErrExpired) {
			l.restarts++
			w.close()
			l.follow(w)
			return
		}
		if err != nil {
			l.t.Fatal(err)
		}
		if !ok {
			return
		}
		key := ev.Object.Key()[len("/registry/pods/"):]
		if _, had := w.pods[key]; had != (ev.Type != Added) {
			l.t.Fatalf("watch of %v: %s of %s at %d", w.sel, ev.Type, key, ev.Rev)
		}
		if ev.Type == Deleted {
			delete(w.pods, key)
		} else {
			w.pods[key] = serialOf(l.t, ev.Object)
		}
	}
}
