package object

import (
	"bytes"
	"runtime"
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
