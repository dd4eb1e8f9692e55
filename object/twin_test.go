package object

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"
)

// TestTwin: the JSON of a version and its twin is made once while both are in use, and not kept by the twin before it is asked for.
func TestTwin(t *testing.T) {
	for name, asked := range map[string]func(v, twin *Version){
		"version first": func(v, twin *Version) { mustJSON(t, v); mustJSON(t, twin) },
		"twin first":    func(v, twin *Version) { mustJSON(t, twin); mustJSON(t, v) },
	} {
		v := podVersion(t, "a", 7)
		twin := v.Twin()
		if twin == v || twin.Key() != v.Key() || twin.Revision() != v.Revision() || unsafe.SliceData(twin.wire) != unsafe.SliceData(v.wire) {
			t.Errorf("%s: another version", name)
		}
		asked(v, twin)
		if unsafe.SliceData(mustJSON(t, v)) != unsafe.SliceData(mustJSON(t, twin)) {
			t.Errorf("%s: made twice", name)
		}
		runtime.KeepAlive(v)
	}

	v := podVersion(t, "a", 7)
	want := bytes.Clone(mustJSON(t, v))
	twin := v.Twin()
	if n := twin.SizeBytes(); n >= v.SizeBytes() {
		t.Errorf("the twin has %d bytes of %d", n, v.SizeBytes())
	}
	runtime.GC() // v is not in use any more
	if twin.origin.Value() != nil {
		t.Error("the twin keeps the version")
	}
	if got := mustJSON(t, twin); !bytes.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func mustJSON(t *testing.T, v *Version) []byte {
	t.Helper()
	b, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestVersion_Release: what is let go of is made once more, the same.
func TestVersion_Release(t *testing.T) {
	v := podVersion(t, "a", 7)
	bare := v.SizeBytes()
	forms := func() (all []string) {
		json := mustJSON(t, v)
		meta, err := v.MetadataProtobuf()
		if err != nil {
			t.Fatal(err)
		}
		packed, err := v.PackedEvent(Protobuf, false)
		if err != nil {
			t.Fatal(err)
		}
		return []string{string(json), string(meta), string(packed.Bytes())}
	}
	want := forms()

	json := mustJSON(t, v)
	v.ReleaseWatched()
	if got := mustJSON(t, v); unsafe.SliceData(got) != unsafe.SliceData(json) {
		t.Error("JSON went with what watches ask for")
	}
	if made := v.made.Load(); made.metaWire.Load() != nil || made.packed[Protobuf].Load() != nil {
		t.Error("what watches ask for is still there")
	}
	if got := forms(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	v.Release()
	if n := v.SizeBytes(); n != bare {
		t.Errorf("%d bytes are held, %d before anything was made", n, bare)
	}
	if got := forms(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	v.Release()
	if _, err := v.MetadataProtobuf(); err != nil {
		t.Fatal(err)
	}
	v.ReleaseWatched()
	if n := v.SizeBytes(); n != bare {
		t.Errorf("%d bytes are held for nobody, %d before anything was made", n, bare)
	}
}

// TestVersion_ReleaseInUse: forms that are released while others ask for them are the same as ever.
func TestVersion_ReleaseInUse(t *testing.T) {
	v := podVersion(t, "a", 7)
	want := bytes.Clone(mustJSON(t, v))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if got, err := v.JSON(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %s (%v), want %s", got, err, want)
					return
				}
				v.ReleaseWatched()
				if _, err := v.PackedEvent(JSON, true); err != nil {
					t.Error(err)
					return
				}
				v.Release()
			}
		})
	}
	all.Wait()
}
