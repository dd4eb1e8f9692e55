package object

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzNewVersion makes versions of any bytes as any kind. Nothing may panic, and what decodes must agree with its
// other forms.
func FuzzNewVersion(f *testing.F) {
	all := storable(f)
	for i, s := range all {
		f.Add(uint16(i), int64(i)*1000, s.Message(f))
	}
	pods := podType()
	for i, s := range all {
		if s.Kind.Kind == "Pod" {
			all[i].typ.Fields = pods.Fields
		}
	}
	f.Fuzz(func(t *testing.T, kind uint16, rev int64, msg []byte) {
		checkMessage(t, all[int(kind)%len(all)].typ, rev, msg)
	})
}

// checkMessage makes a version of a message, touches it, and compares it with the decoded object if there is one.
func checkMessage(t *testing.T, typ *Type, rev int64, msg []byte) {
	v, err := NewVersion(typ, goldenKey, rev, sealMessage(typ.layout().head, msg))
	if err != nil {
		return
	}
	touch(t, v)
	if obj, err := v.Decode(); err == nil {
		agree(t, v, obj)
	}
}

var (
	seed   = flag.Int64("seed", 1, "seed of the damage")
	rounds = flag.Int("rounds", 10, "damaged objects of each kind")
)

// TestNewVersion_Damaged does what FuzzNewVersion does, a few times in every run, with examples that were damaged in
// one to four places.
func TestNewVersion_Damaged(t *testing.T) {
	random := rand.New(rand.NewSource(*seed))
	pods := podType()
	for _, s := range storable(t) {
		if s.Kind.Kind == "Pod" {
			s.typ.Fields = pods.Fields
		}
		for range *rounds {
			msg := bytes.Clone(s.Message(t))
			for range 1 + random.Intn(4) {
				msg = damage(random, msg)
			}
			checkMessage(t, s.typ, random.Int63n(1<<random.Intn(63)+1), msg)
			if t.Failed() {
				t.Fatalf("seed %d", *seed)
			}
		}
	}
}

// damage flips a bit, drops a byte, repeats a part, or changes a byte into one that is likely to mean something.
func damage(random *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at := random.Intn(len(b))
	switch random.Intn(4) {
	case 0:
		b[at] ^= 1 << random.Intn(8)
	case 1:
		b = append(b[:at], b[at+1:]...)
	case 2:
		end := at + random.Intn(min(100, len(b)-at))
		b = append(b[:end:end], b[at:]...)
	case 3:
		b[at] = []byte{0, 1, 0x0a, 0x12, 0x32, 0x5a, 0x7f, 0x80, 0xff}[random.Intn(9)]
	}
	return b
}

// FuzzNewVersion_Envelope damages the envelope, too.
func FuzzNewVersion_Envelope(f *testing.F) {
	typ := podType()
	stored, err := EncodeStored(typ, testPod("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stored)
	f.Add([]byte(envelopeMagic))
	asJSON, err := json.Marshal(testPod("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(asJSON)
	f.Fuzz(func(t *testing.T, stored []byte) {
		v, err := NewVersion(typ, "/registry/pods/ns/a", 1, stored)
		if err != nil {
			return
		}
		touch(t, v)
	})
}

// FuzzNewVersion_CustomResource makes versions of any JSON.
func FuzzNewVersion_CustomResource(f *testing.F) {
	for _, stored := range []string{
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"labels":{"a":"b"},"name":"w","uid":"u-1"},"spec":{"color":"red"}}`,
		`{"kind":"Widget","spec":{"b":1,"a":2},"metadata":{"uid":"u-1","name":"w"},"apiVersion":"example.com/v1"}`,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"1"}}`,
		`{"apiVersion":"example.com/v1","kind":"Widget"}`,
	} {
		f.Add([]byte(stored))
	}
	f.Fuzz(checkCustomResource)
}

func checkCustomResource(t *testing.T, stored []byte) {
	v, err := NewVersion(widgetType(), widgetKey, 4711, stored)
	if err != nil {
		return
	}
	touch(t, v)
	b, err := v.JSON()
	if err != nil || !json.Valid(b) {
		t.Fatalf("%v: %s", err, b)
	}
	obj, err := v.Decode()
	if err != nil {
		t.Fatalf("%v: %q", err, stored)
	}
	if got := obj.(metav1.Object).GetResourceVersion(); got != "4711" {
		t.Fatalf("resource version %q in %s", got, b)
	}
	if !v.EqualStored(v.Stored()) || !bytes.Equal(v.At(1).At(4711).wire, b) {
		t.Fatalf("does not equal itself: %s", b)
	}
}

// TestNewVersion_CustomResourceDamaged does what FuzzNewVersion_CustomResource does, a few times in every run.
func TestNewVersion_CustomResourceDamaged(t *testing.T) {
	random := rand.New(rand.NewSource(*seed))
	for range 100 * *rounds {
		stored := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"labels":{"a":"b"},"name":"w","uid":"u-1"},"spec":{"color":"red"}}`)
		for range 1 + random.Intn(4) {
			stored = damage(random, stored)
			if at := random.Intn(len(stored)); random.Intn(2) == 0 {
				stored[at] = `{}[]",:\0e`[random.Intn(10)]
			}
		}
		checkCustomResource(t, stored)
	}
}

// touch calls everything.
func touch(t *testing.T, v *Version) {
	_, _, _, _ = v.UID(), v.Name(), v.Namespace(), v.SizeBytes()
	for _, get := range []func() ([]byte, error){
		v.Protobuf, v.ProtobufMessage, v.JSON, v.JSONItem, v.MetadataJSON, v.MetadataProtobuf, v.MetadataProtobufMessage, v.At(7).Protobuf,
	} {
		_, _ = get() // damage further in shows as an error
	}
	v.Labels().Has("app")
	for i := range v.typ.Fields {
		v.Field(v.typ.Fields[i].Label)
		v.FieldIs(v.typ.Fields[i].Label, "x")
	}
	v.MatchFields(fields.OneTermEqualSelector("status.podIPs", "10.0.0.1"))
	if v.isProto() && !v.EqualStored(v.Stored()) {
		t.Fatal("does not equal itself")
	}
}

// agree compares the forms of v with the decoded object.
func agree(t *testing.T, v *Version, obj runtime.Object) {
	meta := obj.(metav1.Object)
	want := labels.Set(meta.GetLabels())
	for key, value := range want {
		if got, ok := v.Labels().Lookup(key); !ok || got != value {
			t.Fatalf("label %q is %q, found %q", key, value, got)
		}
	}
	if v.Labels().Has("no such label") != want.Has("no such label") || string(meta.GetUID()) != v.UID() {
		t.Fatalf("uid %q, found %q", meta.GetUID(), v.UID())
	}
	if wantRev := formatRevision(v.rev); meta.GetResourceVersion() != string(wantRev.bytes()) {
		t.Fatalf("resource version %q at %d", meta.GetResourceVersion(), v.rev)
	}
	wantJSON, wantErr := json.Marshal(obj)
	got, err := v.JSON()
	if (err == nil) != (wantErr == nil) || !bytes.Equal(got, wantJSON) {
		t.Fatalf("%v %v\ngot  %s\nwant %s", err, wantErr, got, wantJSON)
	}
	// Metadata alone, decoded, is the metadata of the whole.
	sealed, err := v.MetadataProtobuf()
	if err != nil {
		t.Fatal(err)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(sealed[4:]); err != nil {
		t.Fatal(err)
	}
	var partial metav1.PartialObjectMetadata
	if err := partial.Unmarshal(unknown.Raw); err != nil || partial.ResourceVersion != meta.GetResourceVersion() || partial.UID != meta.GetUID() {
		t.Fatalf("%v: %+v", err, partial.ObjectMeta)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		compareFields(t, v, pod)
	}
}

// compareFields compares a pod's selectable fields with the decoded ones, where the object is stored as the generated
// marshallers write it; in other bytes a field may stand twice, and the scanner takes the first.
func compareFields(t *testing.T, v *Version, pod *corev1.Pod) {
	again, err := FromObject(v.typ, v.key, v.rev, pod)
	if err != nil || !bytes.Equal(again.wire, v.wire) {
		return
	}
	podIPs := ""
	if len(pod.Status.PodIPs) > 0 {
		podIPs = pod.Status.PodIPs[0].IP
	}
	for label, want := range map[string]string{
		"spec.nodeName":       pod.Spec.NodeName,
		"spec.hostNetwork":    strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":        string(pod.Status.Phase),
		"status.podIP":        pod.Status.PodIP,
		"status.podIPs":       podIPs,
		"metadata.generation": strconv.FormatInt(pod.Generation, 10),
	} {
		if got, ok := v.Field(label); !ok || got != want {
			t.Fatalf("%s is %q, found %q", label, want, got)
		}
	}
}
