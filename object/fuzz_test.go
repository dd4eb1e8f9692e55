package object

import (
	"bytes"
	"encoding/json"
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
		typ := all[int(kind)%len(all)].typ
		stored := sealMessage(typ.layout().head, msg)
		v, err := NewVersion(typ, goldenKey, rev, stored)
		if err != nil {
			return
		}
		touch(t, v)
		obj, err := v.Decode()
		if err != nil {
			return
		}
		agree(t, v, obj)
	})
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
	f.Fuzz(func(t *testing.T, stored []byte) {
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
			t.Fatal(err)
		}
		if got := obj.(metav1.Object).GetResourceVersion(); got != "4711" {
			t.Fatalf("resource version %q in %s", got, b)
		}
		if !v.EqualStored(v.Stored()) || !bytes.Equal(v.At(1).At(4711).wire, b) {
			t.Fatalf("does not equal itself: %s", b)
		}
	})
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
