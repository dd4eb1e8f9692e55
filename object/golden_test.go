package object

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"vigil/object/internal/golden"
)

// stored is an example that can be stored: it has ObjectMeta.
type stored struct {
	golden.Case
	typ *Type
}

// storable returns the examples of HEAD that have ObjectMeta.
func storable(tb testing.TB) []stored {
	scheme := golden.Scheme(tb)
	var all []stored
	for _, c := range golden.Load(tb) {
		obj, err := scheme.New(c.Kind)
		if err != nil {
			tb.Fatal(err)
		}
		if _, ok := obj.(metav1.Object); !ok || c.Release != "HEAD" {
			continue
		}
		apiVersion, kind := c.Kind.ToAPIVersionAndKind()
		newObject := func() runtime.Object {
			obj, err := scheme.New(c.Kind)
			if err != nil {
				tb.Fatal(err)
			}
			return obj
		}
		all = append(all, stored{c, &Type{APIVersion: apiVersion, Kind: kind, Namespaced: true, New: newObject}})
	}
	if len(all) < 100 {
		tb.Fatalf("only %d kinds", len(all))
	}
	return all
}

// decoded returns the example as Go object with kind and the resource version set.
func (s *stored) decoded(tb testing.TB, resourceVersion string) runtime.Object {
	obj := s.typ.New()
	if err := obj.(protoMessage).Unmarshal(s.Message(tb)); err != nil {
		tb.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(s.Kind)
	obj.(metav1.Object).SetResourceVersion(resourceVersion)
	return obj
}

// serialize is what the upstream protobuf serializer writes.
func serialize(tb testing.TB, obj runtime.Object) []byte {
	var buf bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &buf); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func marshalJSON(tb testing.TB, obj any) []byte {
	b, err := json.Marshal(obj)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func partialOf(tb testing.TB, obj runtime.Object) *metav1.PartialObjectMetadata {
	var p metav1.PartialObjectMetadata
	if err := json.Unmarshal(marshalJSON(tb, obj), &p); err != nil {
		tb.Fatal(err)
	}
	p.APIVersion, p.Kind = metadataAPIVersion, metadataKind
	return &p
}

const goldenKey = "/registry/things/ns/name"

// TestVersion_Golden compares every form of every kind with what the upstream serializers write.
func TestVersion_Golden(t *testing.T) {
	for _, s := range storable(t) {
		t.Run(s.Name(), func(t *testing.T) {
			want := s.decoded(t, "12345")
			v, err := NewVersion(s.typ, goldenKey, 12345, s.Protobuf)
			if err != nil {
				t.Fatal(err)
			}
			checkForms(t, v, want)
			checkForms(t, v.At(67), s.decoded(t, "67"))
			checkForms(t, v.At(12345678901), s.decoded(t, "12345678901"))

			got, err := v.Decode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })); diff != "" {
				t.Error(diff)
			}
			if v.UID() != "uidValue" || !v.Labels().Has("labelsKey") || v.Labels().Get("labelsKey") != "labelsValue" {
				t.Errorf("uid %q, label %q", v.UID(), v.Labels().Get("labelsKey"))
			}
		})
	}
}

func checkForms(t *testing.T, v *Version, want runtime.Object) {
	t.Helper()
	envelope := serialize(t, want)
	equal(t, "Protobuf", v.Protobuf, envelope)
	message, err := want.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "ProtobufMessage", v.ProtobufMessage, message)

	full := marshalJSON(t, want)
	equal(t, "JSON", v.JSON, full)
	item := want.DeepCopyObject()
	item.GetObjectKind().SetGroupVersionKind(runtimeKind{})
	equal(t, "JSONItem", v.JSONItem, marshalJSON(t, item))

	partial := partialOf(t, want)
	equal(t, "MetadataJSON", v.MetadataJSON, marshalJSON(t, partial))
	equal(t, "MetadataProtobuf", v.MetadataProtobuf, serialize(t, partial))
	if message, err = partial.Marshal(); err != nil {
		t.Fatal(err)
	}
	equal(t, "MetadataProtobufMessage", v.MetadataProtobufMessage, message)

	bare := want.DeepCopyObject()
	bare.(metav1.Object).SetResourceVersion("")
	if !bytes.Equal(v.Stored(), serialize(t, bare)) {
		t.Errorf("Stored is not the object without its resource version")
	}
	if !v.EqualStored(serialize(t, bare)) || v.EqualStored([]byte("{}")) {
		t.Error("EqualStored")
	}
}

func equal(t *testing.T, form string, get func() ([]byte, error), want []byte) {
	t.Helper()
	got, err := get()
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s\ngot  %q\nwant %q", form, got, want)
	}
}

// TestEncodeStored_Golden encodes every kind from Go objects.
func TestEncodeStored_Golden(t *testing.T) {
	for _, s := range storable(t) {
		t.Run(s.Name(), func(t *testing.T) {
			obj := s.decoded(t, "99")
			before := obj.DeepCopyObject()
			want := s.decoded(t, "")
			want.(metav1.Object).SetSelfLink("")

			got, err := EncodeStored(s.typ, obj)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, serialize(t, want)) {
				t.Errorf("got  %q\nwant %q", got, serialize(t, want))
			}
			v, err := FromObject(s.typ, goldenKey, 7, obj)
			if err != nil {
				t.Fatal(err)
			}
			want.(metav1.Object).SetResourceVersion("7")
			checkForms(t, v, want)
			if !v.EqualStored(got) {
				t.Error("what was written does not equal what was stored")
			}
			if !bytes.Equal(marshalJSON(t, before), marshalJSON(t, obj)) {
				t.Error("the object was changed")
			}
		})
	}
}

// TestVersion_StoredAsJSON reads built-in kinds from JSON, as an old cluster may hold them.
func TestVersion_StoredAsJSON(t *testing.T) {
	for _, s := range storable(t) {
		t.Run(s.Name(), func(t *testing.T) {
			var line bytes.Buffer // the example is indented, and raw extensions keep that in protobuf
			if err := json.Compact(&line, s.JSON); err != nil {
				t.Fatal(err)
			}
			v, err := NewVersion(s.typ, goldenKey, 4711, line.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			want := s.decoded(t, "4711")
			want.(metav1.Object).SetSelfLink("")
			checkForms(t, v, want)
		})
	}
}

func TestNewVersion_Refuses(t *testing.T) {
	typ := podType()
	pod := testPod("a")
	good, err := EncodeStored(typ, pod)
	if err != nil {
		t.Fatal(err)
	}
	other := &Type{APIVersion: "apps/v1", Kind: "Pod", New: typ.New}
	wrong, err := EncodeStored(other, pod)
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{
		"nothing":          nil,
		"magic only":       []byte(envelopeMagic),
		"cut short":        good[:len(good)-5],
		"another version":  wrong,
		"another magic":    append([]byte("k8t\x00"), good[4:]...),
		"broken JSON":      []byte(`{"kind":"Pod","apiVersion":"v1"`),
		"other JSON":       []byte(`{"kind":"Node","apiVersion":"v1","metadata":{}}`),
		"damaged metadata": sealMessage(typ.layout().head, []byte("\x0a\x05\x0a\x7faaa")),
		"no metadata":      sealMessage(typ.layout().head, []byte("\x12\x7f")),
	} {
		if v, err := NewVersion(typ, "/registry/pods/ns/a", 1, stored); err == nil {
			t.Errorf("%s: accepted as %q", name, v.wire)
		} else if !strings.Contains(err.Error(), ErrMalformed.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
