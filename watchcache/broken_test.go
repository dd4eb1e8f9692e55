package watchcache

import (
	"errors"
	"fmt"
	"testing"
)

// An exact read shows which objects could not be read at its revision, wherever in a chunk that is.
func TestSnapshotAt_Broken(t *testing.T) {
	r := newRig(t)
	const key = "/registry/pods/a/one"
	want := map[int64]string{}
	note := func(what string) { want[r.rev] = what }
	r.put(pod{"a/one", "n1", ""})
	note("a/one@101")
	r.raw(key, []byte("rubbish"))
	note("broken")
	r.put(pod{"a/two", "n1", ""})
	note("broken")
	r.raw(key, []byte("more rubbish"))
	note("broken")
	r.put(pod{"a/one", "n1", ""})
	note("a/one@105")
	r.del("a/one")
	note("none")
	r.raw("/registry/pods/a/one", []byte("rubbish"))
	note("broken")
	r.del("a/one")
	note("none")
	for range 200 { // no event tells of these
		r.raw("/registry/pods/a/one", []byte("rubbish"))
		note("broken")
		r.del("a/one")
		note("none")
	}
	r.fill(200)
	note("none")
	for range 2 { // the second time with what the first has left
		for rev, want := range want {
			s, err := r.pods.SnapshotAt(rev)
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if v, ok := s.Get(key); ok {
				got = fmt.Sprintf("a/one@%s", serialOf(t, v))
			} else if s.Broken(key) != nil {
				got = "broken"
			}
			if got != want {
				t.Errorf("at %d: got %s, want %s", rev, got, want)
			}
			if _, err := s.List(Selection{}, "", 0); errors.Is(err, ErrBroken) != (want == "broken") {
				t.Errorf("at %d: list gives %v, want %s", rev, err, want)
			}
		}
	}
}
