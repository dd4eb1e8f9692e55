package object

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// checkCompressed checks that the compressed list is the list, and returns its size with gzip.
func checkCompressed(tb testing.TB, c *Compressor, l ListWriter, items []*Version) int {
	tb.Helper()
	var plain, packed bytes.Buffer
	if err := l.Write(&plain, items); err != nil {
		tb.Fatal(err)
	}
	if err := c.WriteList(&packed, Gzip, &l, items); err != nil {
		tb.Fatal(err)
	}
	size := packed.Len()
	z, err := gzip.NewReader(&packed)
	if err != nil {
		tb.Fatal(err)
	}
	z.Multistream(false)
	got, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.Equal(got, plain.Bytes()) {
		tb.Fatalf("a list of %d bytes became another of %d", plain.Len(), len(got))
	}
	if packed.Len() > 0 {
		tb.Fatalf("%d bytes behind the member", packed.Len())
	}
	if err := c.WriteList(&packed, Deflate, &l, items); err != nil {
		tb.Fatal(err)
	}
	inflated, err := zlib.NewReader(&packed)
	if err != nil {
		tb.Fatal(err)
	}
	if got, err = io.ReadAll(inflated); err != nil || !bytes.Equal(got, plain.Bytes()) {
		tb.Fatalf("deflate: a list of %d bytes became another of %d: %v", plain.Len(), len(got), err)
	}
	return size
}

// clusterPods are pods as a cluster has them: those of a controller differ in name, uid, addresses, times and container ID.
func clusterPods(tb testing.TB, typ *Type, n, controllerSize int) []*Version {
	items := make([]*Version, n)
	for i := range items {
		items[i] = clusterPod(tb, typ, i, i/controllerSize, int64(1000000+3*i))
	}
	return items
}

func clusterPod(tb testing.TB, typ *Type, i, controller int, rev int64) *Version {
	digest := func(parts ...any) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(parts...)))) }
	uid := func(h string) types.UID {
		return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-" + h[16:20] + "-" + h[20:32])
	}
	own, all := digest("pod", i), digest("controller", controller)
	set := fmt.Sprintf("app-%s-%s", all[:4], all[4:12])
	pod := testPod(set + "-" + own[:5])
	pod.Namespace, pod.UID = "ns-"+all[:2], uid(own)
	pod.Labels["app"], pod.Labels["pod-template-hash"] = "app-"+all[:4], all[4:12]
	pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = set, uid(all)
	pod.CreationTimestamp = metav1.NewTime(pod.CreationTimestamp.Add(time.Duration(i) * time.Second))
	pod.Spec.NodeName = "node-" + own[10:12]
	pod.Spec.Containers[0].Image = "registry.example.com/team/" + set + ":v1"
	status := &pod.Status.ContainerStatuses[0]
	status.Image, status.ImageID, status.ContainerID = pod.Spec.Containers[0].Image, "sha256:"+all, "containerd://"+digest("container", i)
	pod.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	pod.Status.PodIPs[0].IP = pod.Status.PodIP
	for c := range pod.Status.Conditions {
		pod.Status.Conditions[c].LastTransitionTime = pod.CreationTimestamp
	}
	v, err := FromObject(typ, "/registry/pods/"+pod.Namespace+"/"+pod.Name, rev, pod)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// Random lists over a changing set of objects: whole, paged, selected, with huge items, in both encodings, with much and with hardly
// any room for compressed forms.
func TestCompressor_RandomLists(t *testing.T) {
	rounds := 80
	if testing.Short() {
		rounds = 8
	}
	for _, limit := range []int{0, 1, 100_000, 300_000} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			t.Parallel()
			r := newRand(uint64(limit))
			typ := podType()
			c := NewCompressor(limit)
			items := clusterPods(t, typ, 100, 7)
			rev := int64(5_000_000)
			for range rounds {
				for range r.IntN(5) { // changes
					i := r.IntN(len(items))
					switch rev++; r.IntN(12) {
					case 0:
						items = append(items[:i:i], items[i+1:]...)
					case 1:
						items = append(items[:i:i], append([]*Version{clusterPod(t, typ, int(rev), i/7, rev)}, items[i:]...)...)
					case 2:
						items[i] = hugePod(t, r, typ, rev)
					default:
						items[i] = items[i].At(rev)
					}
				}
				selected := items
				switch r.IntN(5) {
				case 0:
					from := r.IntN(len(items))
					selected = items[from:min(from+r.IntN(50), len(items))]
				case 1, 2:
					step := 1 + r.IntN(5)
					selected = nil
					for i := r.IntN(step); i < len(items); i += step {
						selected = append(selected, items[i])
					}
				}
				l := ListWriter{Type: typ, Encoding: Encoding(r.IntN(2)), Meta: ListMeta{ResourceVersion: rev}}
				if r.IntN(2) == 0 {
					l.Meta.Continue, l.Meta.Remaining = strings.Repeat("token<>", 1+r.IntN(30)), new(int64(rev))
				}
				checkCompressed(t, c, l, selected)
				if held := c.SizeBytes(); held > c.limit {
					t.Fatalf("%d bytes held, limit %d", held, c.limit)
				}
			}
		})
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(1, seed)) }

// hugePod has up to half a megabyte of what compresses well, badly or not at all.
func hugePod(tb testing.TB, r *rand.Rand, typ *Type, rev int64) *Version {
	text := make([]byte, r.IntN(500_000))
	symbols := []int{1, 3, 26, 64, 90}[r.IntN(5)]
	for i := range text {
		text[i] = byte(' ' + r.IntN(symbols))
	}
	pod := testPod("huge")
	pod.Annotations["text"] = string(text) + "äöü€漢"
	v, err := FromObject(typ, "/registry/pods/ns/huge", rev, pod)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestCompressor_SmallAndEmpty(t *testing.T) {
	typ := podType()
	c := NewCompressor(0)
	for _, n := range []int{0, 1, 2, 3, 100, 2, 1, 0} {
		for _, e := range []Encoding{JSON, Protobuf} {
			checkCompressed(t, c, ListWriter{Type: typ, Encoding: e, Meta: ListMeta{ResourceVersion: 7}}, clusterPods(t, typ, n, 5))
		}
	}
}

func TestCompressor_CustomResources(t *testing.T) {
	typ := widgetType()
	c := NewCompressor(0)
	var items []*Version
	for i := range 1000 {
		stored := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w-%d"},"spec":{"text":%q}}`, i, fmt.Sprint(rand.Uint64(), "ü漢"))
		v, err := NewVersion(typ, fmt.Sprint("/registry/example.com/widgets/ns/w-", i), int64(i+1), []byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, v)
	}
	l := ListWriter{Type: typ, Meta: ListMeta{ResourceVersion: 9999}}
	for range 2 {
		checkCompressed(t, c, l, items)
	}
	l.Encoding = Protobuf
	if err := c.WriteList(io.Discard, Gzip, &l, items); !errors.Is(err, ErrNoProtobuf) {
		t.Errorf("protobuf: %v", err)
	}
}

// The second time a list costs nothing but copying; a change costs the object and the one behind it; a selection does not displace
// the forms of the whole list.
func TestCompressor_Shares(t *testing.T) {
	typ := podType()
	c := NewCompressor(0)
	items := clusterPods(t, typ, 500, 5)
	l := ListWriter{Type: typ, Meta: ListMeta{ResourceVersion: 7}}
	made := func(items []*Version) (n int) {
		before := c.SizeBytes()
		checkCompressed(t, c, l, items)
		return (c.SizeBytes() - before) % pageBytes / compressedSize
	}
	if n := made(items); n != len(items) {
		t.Errorf("first list: %d forms made", n)
	}
	if n := made(items); n != 0 {
		t.Errorf("the same list: %d forms made", n)
	}
	items[100] = items[100].At(99)
	if n := made(items); n != 2 {
		t.Errorf("after a change: %d forms made", n)
	}
	some := []*Version{items[0], items[100], items[102], items[499]}
	if n := made(some); n != 3 { // the first is the first of the whole list, too
		t.Errorf("selection: %d forms made", n)
	}
	if n := made(items) + made(some); n != 0 {
		t.Errorf("both again: %d forms made", n)
	}
}

// JSON that is made to be compressed is not kept beside the compressed form.
func TestCompressor_KeepsNoJSON(t *testing.T) {
	typ := podType()
	items := clusterPods(t, typ, 100, 5)
	if err := NewCompressor(0).WriteList(io.Discard, Gzip, &ListWriter{Type: typ}, items); err != nil {
		t.Fatal(err)
	}
	for _, v := range items {
		if made := v.made.Load(); made == nil || made.json.Load() != nil || made.compressed[JSON].Load() == nil {
			t.Fatalf("%s: %d bytes", v.Key(), v.SizeBytes())
		}
	}
}

// Concurrent lists share what they make, and go on when the room runs out.
func TestCompressor_Concurrent(t *testing.T) {
	for _, limit := range []int{0, 150_000} {
		typ := podType()
		c := NewCompressor(limit)
		items := clusterPods(t, typ, 200, 5)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 5 {
					l := ListWriter{Type: typ, Encoding: Encoding(g % 2), Meta: ListMeta{ResourceVersion: 7}}
					checkCompressed(t, c, l, items[:len(items)-g*i])
				}
			})
		}
		wg.Wait()
	}
}

func TestCompressor_DropsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCompressor(0)
		typ, other := podType(), podType()
		items, others := clusterPods(t, typ, 100, 5), clusterPods(t, other, 100, 5)
		list := func(typ *Type, items []*Version) {
			checkCompressed(t, c, ListWriter{Type: typ, Meta: ListMeta{ResourceVersion: 7}}, items)
		}
		list(typ, items)
		list(other, others)
		both := c.SizeBytes()
		for range 3 { // the other kind goes out of use
			time.Sleep(4 * time.Minute)
			list(typ, items)
		}
		if held := c.SizeBytes(); held == 0 || held >= both {
			t.Errorf("%d bytes held of %d", held, both)
		}
		time.Sleep(2 * compressorIdle)
		synctest.Wait()
		if held := c.SizeBytes(); held != 0 {
			t.Errorf("%d bytes held after all have been idle", held)
		}
		list(typ, items)
		time.Sleep(3 * compressorIdle)
		synctest.Wait()
		if held := c.SizeBytes(); held != 0 || c.sweep != nil {
			t.Errorf("%d bytes held after another list, timer %v", held, c.sweep)
		}
	})
}

// The least recently used kind goes first.
func TestCompressor_LimitDropsOldest(t *testing.T) {
	a, b := podType(), podType()
	c := NewCompressor(3 * pageBytes)
	write := func(typ *Type, n int) {
		checkCompressed(t, c, ListWriter{Type: typ, Meta: ListMeta{ResourceVersion: 7}}, clusterPods(t, typ, n, 5))
	}
	write(a, 100)
	write(b, 100)
	for range 10 {
		write(a, 100)
	}
	if c.books[bookKey{b, JSON}] != nil || c.books[bookKey{a, JSON}] == nil {
		t.Errorf("books left: %v", c.books)
	}
}

type cutOff struct{ after int }

var errFailing = errors.New("connection lost")

func (f *cutOff) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errFailing
	}
	return len(p), nil
}

func TestCompressor_WriteError(t *testing.T) {
	typ := podType()
	c := NewCompressor(0)
	items := clusterPods(t, typ, 1000, 5)
	l := &ListWriter{Type: typ}
	for _, after := range []int{0, 60_000, 130_000} {
		if err := c.WriteList(&cutOff{after}, Gzip, l, items); err != errFailing {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
	checkCompressed(t, c, *l, items)
}

func TestListWriter_Exceeds(t *testing.T) {
	typ := podType()
	items := clusterPods(t, typ, 3, 5)
	for _, e := range []Encoding{JSON, Protobuf} {
		l := ListWriter{Type: typ, Encoding: e}
		empty, err := l.Size(nil)
		if err != nil {
			t.Fatal(err)
		}
		size, err := l.Size(items)
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range map[int]bool{0: true, int(size - empty - 20): true, int(size): false} {
			if got, err := l.Exceeds(n, items); got != want || err != nil {
				t.Errorf("encoding %d, %d of %d bytes: %v, %v", e, n, size, got, err)
			}
		}
	}
}

// FuzzCompressor makes pods of arbitrary text.
func FuzzCompressor(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add(strings.Repeat("abc", 1000), "äöü", "\x00\xff")
	typ := podType()
	typ.New = func() runtime.Object { return &corev1.Pod{} }
	c := NewCompressor(0)
	f.Fuzz(func(t *testing.T, x, y, z string) {
		var items []*Version
		for i, text := range []string{x, y, z, x, x + y, y + z + x} {
			pod := &corev1.Pod{}
			pod.Name, pod.Spec.NodeName = "p", text
			v, err := FromObject(typ, "/registry/pods/ns/p", int64(i+1), pod)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, v)
		}
		for _, e := range []Encoding{JSON, Protobuf} {
			l := ListWriter{Type: typ, Encoding: e}
			checkCompressed(t, c, l, items)
			checkCompressed(t, c, l, items[1:])
			checkCompressed(t, c, l, items)
		}
	})
}

// BenchmarkCompressor lists 10,000 pods, 45 MB of JSON, beside compress/gzip. "changed 1 %" has new versions of 100 pods each time.
func BenchmarkCompressor(b *testing.B) {
	typ := podType()
	items := clusterPods(b, typ, 10_000, 20)
	for _, e := range []Encoding{JSON, Protobuf} {
		name := []string{"json", "protobuf"}[e]
		l := ListWriter{Type: typ, Encoding: e, Meta: ListMeta{ResourceVersion: 7}}
		size, err := l.Size(items)
		if err != nil {
			b.Fatal(err)
		}
		run := func(mode string, write func(w io.Writer) error) {
			b.Run(name+"/"+mode, func(b *testing.B) {
				var n counter
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					n = 0
					if err := write(&n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n)/float64(len(items)), "B/item")
			})
		}
		run("gzip 1", func(w io.Writer) error {
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			if err := l.Write(z, items); err != nil {
				return err
			}
			return z.Close()
		})
		run("first", func(w io.Writer) error { return NewCompressor(0).WriteList(w, Gzip, &l, items) })
		c := NewCompressor(0)
		run("again", func(w io.Writer) error { return c.WriteList(w, Gzip, &l, items) })
		rev := int64(10_000_000)
		run("changed 1 %", func(w io.Writer) error {
			rev++
			for i := int(rev % 100); i < len(items); i += 100 {
				items[i] = items[i].At(rev)
			}
			return c.WriteList(w, Gzip, &l, items)
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
