package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// examples are the encoded objects that k8s.io/api ships, by file name: protobuf in its envelope, and compact JSON.
func examples(tb testing.TB, visit func(name string, proto, jsn []byte, obj metav1.Object)) {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		tb.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "testdata", "HEAD", "*.pb"))
	if err != nil || len(files) < 100 {
		tb.Fatalf("k8s.io/api has %d examples (%v)", len(files), err)
	}
	for _, file := range files {
		proto, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(proto, nil, nil)
		if err != nil {
			continue // a kind that client-go's scheme does not have
		}
		obj, ok := decoded.(metav1.Object)
		if !ok {
			continue // a kind without metadata
		}
		indented, err := os.ReadFile(strings.TrimSuffix(file, ".pb") + ".json")
		if err != nil {
			tb.Fatal(err)
		}
		var jsn bytes.Buffer
		if err := json.Compact(&jsn, indented); err != nil {
			tb.Fatal(err)
		}
		visit(filepath.Base(file), proto, jsn.Bytes(), obj)
		visit(filepath.Base(file)+" indented", proto, indented, obj)
	}
}

func TestReadMeta_AgreesWithDecoders(t *testing.T) {
	seen := 0
	examples(t, func(name string, proto, jsn []byte, obj metav1.Object) {
		seen++
		message, err := Unwrap(proto)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for e, b := range map[Encoding][]byte{Proto: message, JSON: jsn} {
			var m Meta
			if err := ReadMeta(e, b, &m); err != nil {
				t.Errorf("%s, encoding %d: %v", name, e, err)
				continue
			}
			got := []string{string(m.Namespace.Of(b)), string(m.Name.Of(b)), string(m.UID.Of(b)), string(m.ResourceVersion.Of(b))}
			want := []string{obj.GetNamespace(), obj.GetName(), string(obj.GetUID()), obj.GetResourceVersion()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, encoding %d (-want +got):\n%s", name, e, diff)
			}
			if diff := cmp.Diff(obj.GetLabels(), collect(Labels, e, b)); diff != "" {
				t.Errorf("%s, encoding %d: labels (-want +got):\n%s", name, e, diff)
			}
			if diff := cmp.Diff(obj.GetAnnotations(), collect(Annotations, e, b)); diff != "" {
				t.Errorf("%s, encoding %d: annotations (-want +got):\n%s", name, e, diff)
			}
			var owners []Owner
			for _, o := range obj.GetOwnerReferences() {
				owners = append(owners, Owner{o.APIVersion, o.Kind, o.Name, string(o.UID), o.Controller != nil && *o.Controller})
			}
			var found []Owner
			Owners(e, b, func(o Owner) bool { found = append(found, o); return true })
			if diff := cmp.Diff(owners, found); diff != "" {
				t.Errorf("%s, encoding %d: owners (-want +got):\n%s", name, e, diff)
			}
			var uids []Owner
			OwnerUIDs(e, b, func(uid []byte, controller bool) bool {
				uids = append(uids, Owner{UID: string(uid), Controller: controller})
				return true
			})
			var controller string
			for i := range owners {
				if owners[i].Controller && controller == "" {
					controller = owners[i].UID
				}
				owners[i] = Owner{UID: owners[i].UID, Controller: owners[i].Controller}
			}
			if diff := cmp.Diff(owners, uids); diff != "" {
				t.Errorf("%s, encoding %d: uids of owners (-want +got):\n%s", name, e, diff)
			}
			if got := string(ControllerUID(e, b)); got != controller {
				t.Errorf("%s, encoding %d: uid of the controller %q, want %q", name, e, got, controller)
			}
		}
	})
	t.Log(seen, "examples")
}

func collect(walk func(Encoding, []byte, func(k, v []byte) bool), e Encoding, b []byte) map[string]string {
	m := map[string]string{}
	walk(e, b, func(k, v []byte) bool { m[string(k)] = string(v); return true })
	return m
}

func TestAppendWithoutManagedFields_CutsNothingElse(t *testing.T) {
	decode := func(b []byte) metav1.Object {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(metav1.Object)
	}
	examples(t, func(name string, proto, jsn []byte, _ metav1.Object) {
		kind, message, err := UnwrapTyped(proto)
		if err != nil {
			t.Fatal(err)
		}
		for e, b := range map[Encoding][]byte{Proto: message, JSON: jsn} {
			before := slices.Clone(b)
			cut, ok := AppendWithoutManagedFields(nil, e, b)
			if !ok {
				t.Errorf("%s, encoding %d: nothing cut", name, e)
				continue
			}
			if !bytes.Equal(before, b) {
				t.Errorf("%s, encoding %d: the original was changed", name, e)
			}
			if _, again := AppendWithoutManagedFields(nil, e, cut); again {
				t.Errorf("%s, encoding %d: still something to cut", name, e)
			}
			if e == Proto {
				b, cut = proto, wrap(t, kind, cut)
			}
			want, got := decode(b), decode(cut)
			want.SetManagedFields(nil)
			if !reflect.DeepEqual(want, got) {
				t.Errorf("%s, encoding %d (-want +got):\n%s", name, e, cmp.Diff(want, got))
			}
		}
	})
}

// wrap puts a message into an envelope.
func wrap(t testing.TB, kind TypeMeta, message []byte) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind}, Raw: message}
	b, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(protoMagic), b...)
}

// event is what a stream said, in a form to compare.
type event struct {
	Type         Type
	Name, Object string
	End          bool
}

// readAll reads a stream to its end.
func readAll(r io.Reader, e Encoding) ([]event, error) {
	s := NewStream(r, e)
	var out []event
	for {
		var ev Event
		if err := s.Next(&ev); err != nil {
			return out, err
		}
		out = append(out, event{ev.Type, string(ev.Meta.Name.Of(ev.Object)), string(ev.Object), ev.Meta.InitialEventsEnd})
	}
}

// stream makes a watch stream of pods of many sizes, and what is to be read from it.
func stream(t testing.TB, e Encoding) ([]byte, []event) {
	var b []byte
	var want []event
	for i, typ := range []Type{Added, Modified, Deleted, Bookmark, Added, Error} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("pod-", i), ResourceVersion: fmt.Sprint(100 + i),
			Annotations: map[string]string{"text": strings.Repeat("x\"\\{[ü", []int{0, 10, 1000, 0, 30_000, 0}[i])},
		}}
		if typ == Bookmark {
			pod.Annotations[initialEventsEnd] = "true"
		}
		name := []string{"", "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}[typ]
		ev := event{Type: typ, Name: pod.Name, End: typ == Bookmark}
		if e == JSON {
			pod.Kind = "Pod"
			o, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			b = fmt.Appendf(b, "{\"type\":%q,\"object\":%s}\n", name, o)
			ev.Object = string(o)
		} else {
			message, err := pod.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			envelope := wrap(t, TypeMeta{"v1", "Pod"}, message)
			frame, err := (&metav1.WatchEvent{Type: name, Object: runtime.RawExtension{Raw: envelope}}).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			b = append(append(b, byte(len(frame)>>24), byte(len(frame)>>16), byte(len(frame)>>8), byte(len(frame))), frame...)
			ev.Object = string(message)
			if typ == Error {
				ev.Object = string(envelope)
			}
		}
		if typ == Error {
			ev.Name = ""
		}
		want = append(want, ev)
	}
	return b, want
}

func TestStream_ReadsWhatWasWritten(t *testing.T) {
	for _, e := range []Encoding{Proto, JSON} {
		b, want := stream(t, e)
		for name, r := range map[string]io.Reader{
			"whole":       bytes.NewReader(b),
			"byte-wise":   iotest.OneByteReader(bytes.NewReader(b)),
			"halves":      iotest.HalfReader(bytes.NewReader(b)),
			"data at EOF": iotest.DataErrReader(bytes.NewReader(b)),
		} {
			got, err := readAll(r, e)
			if err != io.EOF {
				t.Errorf("encoding %d, %s: ends with %v, want io.EOF", e, name, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("encoding %d, %s (-want +got):\n%s", e, name, diff)
			}
		}
	}
}

// A stream that is cut anywhere gives all events before the cut, and says that it was cut unless that was between two.
func TestStream_CutAnywhere(t *testing.T) {
	for _, e := range []Encoding{Proto, JSON} {
		b, want := stream(t, e)
		for range 300 {
			n := rand.IntN(len(b))
			got, err := readAll(bytes.NewReader(b[:n]), e)
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Fatalf("encoding %d, cut at %d: %v", e, n, err)
			}
			if len(got) >= len(want) || !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("encoding %d, cut at %d: wrong events", e, n)
			}
			if rest, _ := readAll(bytes.NewReader(b[n:]), e); err == io.EOF && len(rest)+len(got) != len(want) {
				t.Fatalf("encoding %d, cut at %d: io.EOF within an event", e, n)
			}
		}
	}
}

func TestStream_ReadyMeansNextDoesNotRead(t *testing.T) {
	for _, e := range []Encoding{Proto, JSON} {
		b, want := stream(t, e)
		reads := 0
		s := NewStream(readerFunc(func(p []byte) (int, error) {
			reads++
			n := copy(p[:min(len(p), 700)], b)
			if b = b[n:]; n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}), e)
		ready := 0
		for range want {
			before, was := reads, s.Ready()
			var ev Event
			if err := s.Next(&ev); err != nil {
				t.Fatal(err)
			}
			if was {
				ready++
				if reads != before {
					t.Errorf("encoding %d: Next read although the stream was ready", e)
				}
			}
		}
		if ready == 0 {
			t.Errorf("encoding %d: the stream was never ready", e)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestStream_RefusesFramesThatAreTooLarge(t *testing.T) {
	endless := readerFunc(func(p []byte) (int, error) {
		for i := range p {
			p[i] = '{'
		}
		return len(p), nil
	})
	if _, err := readAll(endless, JSON); !errors.Is(err, ErrTooLarge) {
		t.Errorf("endless JSON: %v, want ErrTooLarge", err)
	}
	if _, err := readAll(strings.NewReader("\x7f\xff\xff\xff"), Proto); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a frame of 2 GB: %v, want ErrTooLarge", err)
	}
	// A length that lies costs no more memory than what arrives.
	allocated := testing.AllocsPerRun(1, func() {
		if _, err := readAll(strings.NewReader("\x01\xff\xff\xff1234"), Proto); err != io.ErrUnexpectedEOF {
			t.Errorf("a frame that ends too early: %v", err)
		}
	})
	if allocated > 10 {
		t.Errorf("%v allocations for a lie", allocated)
	}
}

func podList(n int) *corev1.PodList {
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "next"}}
	l.APIVersion, l.Kind = "v1", "PodList"
	for i := range n {
		l.Items = append(l.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("pod-", i), ResourceVersion: fmt.Sprint(i + 1)}})
	}
	return l
}

func encodeList(t testing.TB, l *corev1.PodList, e Encoding) []byte {
	if e == JSON {
		b, err := json.MarshalIndent(l, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	message, err := l.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, TypeMeta{"v1", "PodList"}, message)
}

func TestReadList(t *testing.T) {
	for _, e := range []Encoding{Proto, JSON} {
		for _, n := range []int{0, 1, 3, 5000} {
			l := podList(n)
			b := encodeList(t, l, e)
			var names []string
			meta, err := ReadList(iotest.HalfReader(bytes.NewReader(b)), e, func(it Item) error {
				names = append(names, string(it.Meta.Name.Of(it.Object)))
				return nil
			})
			if err != nil {
				t.Fatalf("encoding %d, %d items: %v", e, n, err)
			}
			if meta != (ListMeta{"77", "next"}) || len(names) != n || (n > 0 && names[n-1] != l.Items[n-1].Name) {
				t.Errorf("encoding %d, %d items: read %d, %+v", e, n, len(names), meta)
			}
			for range 50 {
				at := rand.IntN(len(b))
				// The end of a protobuf list is not marked: only what is missing within the promised length is noticed.
				if _, err := ReadList(bytes.NewReader(b[:at]), e, func(Item) error { return nil }); err == nil && at < len(b)-4 && n > 0 {
					t.Errorf("encoding %d, %d items: no error for a list cut at %d of %d", e, n, at, len(b))
				}
			}
			stop := errors.New("stop")
			if _, err := ReadList(bytes.NewReader(b), e, func(Item) error { return stop }); n > 0 && err != stop {
				t.Errorf("encoding %d: the callback's error became %v", e, err)
			}
		}
	}
}

// FuzzStream reads anything as a stream, in both encodings and as a whole and byte by byte: no panic, and the same events.
func FuzzStream(f *testing.F) {
	for _, e := range []Encoding{Proto, JSON} {
		b, _ := stream(f, e)
		f.Add(b[:200])
		f.Add(b[:2000])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range []Encoding{Proto, JSON} {
			whole, err1 := readAll(bytes.NewReader(b), e)
			bytewise, err2 := readAll(iotest.OneByteReader(bytes.NewReader(b)), e)
			if !slices.Equal(whole, bytewise) {
				t.Errorf("encoding %d: other events when read byte by byte:\n%s", e, cmp.Diff(whole, bytewise))
			}
			if (err1 == io.EOF) != (err2 == io.EOF) {
				t.Errorf("encoding %d: ends with %v, byte by byte with %v", e, err1, err2)
			}
		}
	})
}

// FuzzList reads anything as a list.
func FuzzList(f *testing.F) {
	for _, e := range []Encoding{Proto, JSON} {
		b := encodeList(f, podList(3), e)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range []Encoding{Proto, JSON} {
			_, err := ReadList(bytes.NewReader(b), e, func(it Item) error {
				it.Meta.Name.Of(it.Object)
				return nil
			})
			if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("encoding %d: %v", e, err)
			}
		}
	})
}

// FuzzObject scans anything as an object: no panic, and what a decoder takes is read as the decoder reads it.
func FuzzObject(f *testing.F) {
	n := 0
	examples(f, func(_ string, proto, jsn []byte, _ metav1.Object) {
		if n++; n%20 == 0 {
			message, _ := Unwrap(proto)
			f.Add(message)
			f.Add(jsn)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range []Encoding{Proto, JSON} {
			var m Meta
			err := ReadMeta(e, b, &m)
			labels := collect(Labels, e, b)
			Owners(e, b, func(Owner) bool { return true })
			Strings(b, []int32{2, 10}, func([]byte) bool { return true })
			if cut, ok := AppendWithoutManagedFields(nil, e, b); ok && err == nil {
				var moved Meta
				if err := ReadMeta(e, cut, &moved); err != nil {
					t.Errorf("encoding %d: metadata is malformed after the cut: %v", e, err)
				} else if string(moved.Name.Of(cut)) != string(m.Name.Of(b)) {
					t.Errorf("encoding %d: the cut changed the name", e)
				}
			}
			var p metav1.PartialObjectMetadata
			// Groups and the like pass a decoder and are refused here: no server sends them.
			if e == Proto && err == nil && p.Unmarshal(b) == nil {
				if string(m.Name.Of(b)) != p.Name || string(m.ResourceVersion.Of(b)) != p.ResourceVersion || string(m.UID.Of(b)) != string(p.UID) {
					t.Errorf("read %q %q, the decoder %q %q", m.Name.Of(b), m.ResourceVersion.Of(b), p.Name, p.ResourceVersion)
				}
				if len(p.Labels) > 0 && !cmp.Equal(labels, p.Labels) {
					t.Errorf("labels %v, the decoder %v", labels, p.Labels)
				}
			}
		}
	})
}
