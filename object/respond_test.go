package object

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestListWriter_Typed(t *testing.T) {
	for _, n := range []int{0, 1, 2, 50} {
		for _, meta := range []ListMeta{{ResourceVersion: 99}, {ResourceVersion: 99, Continue: "<tok>", Remaining: new(int64(7))}} {
			var items []*Version
			want := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
			want.ListMeta = metav1.ListMeta{ResourceVersion: "99", Continue: meta.Continue, RemainingItemCount: meta.Remaining}
			partial := &metav1.PartialObjectMetadataList{ListMeta: want.ListMeta, Items: []metav1.PartialObjectMetadata{}}
			partial.APIVersion, partial.Kind = metadataAPIVersion, metadataKind+"List"
			for i := range n {
				name := fmt.Sprintf("pod-%d", i)
				items = append(items, podVersion(t, name, int64(i+1)))
				pod := testPod(name)
				pod.ResourceVersion = fmt.Sprint(i + 1)
				partial.Items = append(partial.Items, *partialOf(t, pod))
				want.Items = append(want.Items, *pod)
			}
			l := ListWriter{Type: podType(), Meta: meta}
			checkList(t, l, items, append(marshalJSON(t, want), '\n'))
			l.Encoding = Protobuf
			checkList(t, l, items, serialize(t, want))
			l.MetadataOnly = true
			checkList(t, l, items, serialize(t, partial))
			l.Encoding = JSON
			checkList(t, l, items, append(marshalJSON(t, partial), '\n'))
		}
	}
}

func TestListWriter_CustomResources(t *testing.T) {
	typ := widgetType()
	want := &unstructured.UnstructuredList{Object: map[string]any{}}
	want.SetAPIVersion("example.com/v1")
	want.SetKind("WidgetList")
	want.SetResourceVersion("99")
	want.SetContinue("")
	var items []*Version
	for i := range 3 {
		stored := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w-%d"}}`, i)
		v, err := NewVersion(typ, fmt.Sprintf("/registry/example.com/widgets/ns/w-%d", i), int64(i+1), []byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, v)
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON([]byte(stored)); err != nil {
			t.Fatal(err)
		}
		u.SetResourceVersion(fmt.Sprint(i + 1))
		want.Items = append(want.Items, u)
	}
	l := ListWriter{Type: typ, Meta: ListMeta{ResourceVersion: 99}}
	checkList(t, l, items, append(bytes.TrimSpace(marshalJSON(t, withContinue(want))), '\n'))

	l.Encoding = Protobuf
	if err := l.Write(&bytes.Buffer{}, items); !errors.Is(err, ErrNoProtobuf) {
		t.Errorf("protobuf: %v", err)
	}
	l.MetadataOnly = true
	var buf bytes.Buffer
	if err := l.Write(&buf, items); err != nil {
		t.Fatal(err)
	}
	var unknown runtime.Unknown
	var partial metav1.PartialObjectMetadataList
	if err := unknown.Unmarshal(buf.Bytes()[4:]); err != nil {
		t.Fatal(err)
	}
	if err := partial.Unmarshal(unknown.Raw); err != nil || len(partial.Items) != 3 || partial.Items[2].ResourceVersion != "3" {
		t.Errorf("%v: %+v", err, partial)
	}
}

// withContinue adds the empty continue that lists of custom resources have on the wire.
func withContinue(list *unstructured.UnstructuredList) map[string]any {
	content := list.UnstructuredContent()
	content["metadata"].(map[string]any)["continue"] = ""
	return content
}

func checkList(t *testing.T, l ListWriter, items []*Version, want []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := l.Write(&got, items); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("encoding %d, metadata only %v\ngot  %.3000q\nwant %.3000q", l.Encoding, l.MetadataOnly, got.Bytes(), want)
	}
	if size, err := l.Size(items); err != nil || size != int64(len(want)) {
		t.Errorf("size %d, %v; want %d", size, err, len(want))
	}
}

// failing fails after some bytes and must not be written to again.
type failing struct {
	t    *testing.T
	left int
}

var errBroken = errors.New("broken")

func (f *failing) Write(p []byte) (int, error) {
	if f.left < 0 {
		f.t.Error("written to after a failure")
	}
	if f.left -= len(p); f.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestListWriter_WriterFails(t *testing.T) {
	var items []*Version
	for i := range 60 {
		items = append(items, podVersion(t, fmt.Sprint("pod-", i), 1))
	}
	for _, e := range []Encoding{JSON, Protobuf} {
		for _, left := range []int{0, 100 << 10} {
			l := ListWriter{Type: podType(), Encoding: e}
			if err := l.Write(&failing{t, left}, items); !errors.Is(err, errBroken) {
				t.Errorf("encoding %d, after %d bytes: %v", e, left, err)
			}
		}
	}
}

func TestAppendWatchEvent(t *testing.T) {
	v := podVersion(t, "a", 5)
	obj, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := append(marshalJSON(t, metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: obj}}), '\n')
	got := AppendWatchEventJSON(nil, "ADDED", obj)
	if !bytes.Equal(got, want) || SizeWatchEventJSON("ADDED", len(obj)) != len(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	if obj, err = v.Protobuf(); err != nil {
		t.Fatal(err)
	}
	event, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: obj}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	want = append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
	got = AppendWatchEventProtobuf(nil, "MODIFIED", obj)
	if !bytes.Equal(got, want) || SizeWatchEventProtobuf("MODIFIED", len(obj)) != len(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNewBookmark(t *testing.T) {
	for _, end := range []bool{false, true} {
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		pod.ResourceVersion = "88"
		widget := map[string]any{"resourceVersion": "88"}
		if end {
			pod.Annotations = map[string]string{"k8s.io/initial-events-end": "true"}
			widget["annotations"] = pod.Annotations
		}
		v, err := NewBookmark(podType(), 88, end)
		if err != nil {
			t.Fatal(err)
		}
		checkForms(t, v, pod)
		if v, err = NewBookmark(widgetType(), 88, end); err != nil {
			t.Fatal(err)
		}
		equal(t, "JSON", v.JSON, marshalJSON(t, map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": widget}))
	}
}

// TestVersion_JSONMadeOnce: concurrent callers get the same bytes.
func TestVersion_JSONMadeOnce(t *testing.T) {
	v := podVersion(t, "a", 5)
	before := v.SizeBytes()
	first := make(chan *byte)
	for range 8 {
		go func() {
			b, err := v.JSON()
			if err != nil || !json.Valid(b) {
				t.Error(err)
				b = []byte("?")
			}
			first <- &b[0]
		}()
	}
	one := <-first
	for range 7 {
		if <-first != one {
			t.Error("made twice")
		}
	}
	b, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if grown := v.SizeBytes() - before; grown < len(b) || grown > len(b)+400 {
		t.Errorf("grew by %d bytes for %d bytes of JSON", grown, len(b))
	}
}

// TestVersion_SizeBytes: what a version holds beyond its bytes stays small.
func TestVersion_SizeBytes(t *testing.T) {
	v := podVersion(t, "a", 5)
	b, err := v.Protobuf()
	if err != nil {
		t.Fatal(err)
	}
	if overhead := v.SizeBytes() - len(b); overhead > 150 {
		t.Errorf("%d bytes on top of %d", overhead, len(b))
	}
}
