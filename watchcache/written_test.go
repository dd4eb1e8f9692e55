package watchcache

import (
	"testing"
	"unsafe"

	"vigil/object"
	"vigil/store"
)

// write is what a writer does: it makes a version of what it has stored at the next revision. The event is still to come.
func (r *rig) write(p pod) (*object.Version, store.Batch) {
	r.t.Helper()
	r.rev++
	key, value := "/registry/pods/"+p.key, p.stored(r.t, r.rev)
	v, err := object.NewVersion(podType, key, r.rev, value)
	if err != nil {
		r.t.Fatal(err)
	}
	return v, store.Batch{Rev: r.rev, Events: []store.Event{{Key: key, ModRev: r.rev, Value: value}}}
}

// TestWritten: what a writer has made is not made again, unless the feed was faster.
func TestWritten(t *testing.T) {
	r := newRig(t)
	for _, feedFirst := range []bool{false, true} {
		v, b := r.write(pod{key: "ns/a", node: "n"})
		cur := r.watch(WatchOptions{After: r.rev - 1})
		if feedFirst {
			r.server.apply(b)
		}
		r.pods.Written(v)
		if !feedFirst {
			r.server.apply(b)
		}
		ev, ok, err := cur.Next()
		if err != nil || !ok || ev.Rev != r.rev || serialOf(t, ev.Object) != serialOf(t, v) {
			t.Fatalf("feed first %t: %+v, %v", feedFirst, ev, err)
		}
		seen, err := ev.Object.Protobuf()
		if err != nil {
			t.Fatal(err)
		}
		made, err := v.Protobuf()
		if err != nil {
			t.Fatal(err)
		}
		if same := unsafe.SliceData(seen) == unsafe.SliceData(made); same == feedFirst || ev.Object == v {
			t.Errorf("feed first %t: the same bytes %t", feedFirst, same)
		}
		cur.Close()
	}
	for i := range r.server.written {
		if v := r.server.written[i].Load(); v != nil {
			t.Errorf("%s is left", v.Key())
		}
	}
}

// TestWritten_Another: what is not what the event says is not taken for it.
func TestWritten_Another(t *testing.T) {
	r := newRig(t)
	other := &object.Type{APIVersion: "v1", Kind: "Pod", Namespaced: true, New: podType.New}
	for name, change := range map[string]func(v *object.Version, value []byte) (*object.Version, error){
		"key": func(v *object.Version, b []byte) (*object.Version, error) {
			return object.NewVersion(podType, v.Key()+"x", v.Revision(), b)
		},
		"revision": func(v *object.Version, _ []byte) (*object.Version, error) {
			return v.At(v.Revision() + int64(len(r.server.written))), nil
		},
		"type": func(v *object.Version, b []byte) (*object.Version, error) {
			return object.NewVersion(other, v.Key(), v.Revision(), b)
		},
		"content": func(v *object.Version, _ []byte) (*object.Version, error) {
			return object.NewVersion(podType, v.Key(), v.Revision(), pod{key: "ns/b"}.stored(t, 1))
		},
	} {
		v, b := r.write(pod{key: "ns/a"})
		wrong, err := change(v, b.Events[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		r.pods.Written(wrong)
		r.server.apply(b)
		cached, ok := r.pods.Get(v.Key())
		if !ok || cached == wrong || cached.Revision() != v.Revision() || serialOf(t, cached) != serialOf(t, v) {
			t.Errorf("another %s: cached %v", name, cached)
		}
	}
}
