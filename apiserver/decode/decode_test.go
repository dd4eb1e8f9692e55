package decode

import (
	"errors"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// protobufBody is a body as client-go sends it.
func protobufBody(t testing.TB, gvk schema.GroupVersionKind, obj runtime.Object) []byte {
	t.Helper()
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	var b strings.Builder
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func TestInto(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "node"}}
	for _, c := range []struct {
		name   string
		format Format
		body   string
	}{
		{"json", JSON, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"nodeName":"node"}}`},
		{"json without kind", JSON, `{"metadata":{"name":"p"},"spec":{"nodeName":"node"}}`},
		{"json without version", JSON, `{"kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"node"}}`},
		{"yaml", YAML, "kind: Pod\napiVersion: v1\nmetadata:\n  name: p\nspec: {nodeName: node}\n"},
		{"json as yaml", YAML, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"nodeName":"node"}}`},
		{"protobuf", Protobuf, string(protobufBody(t, podKind, pod))},
		{"protobuf without kind", Protobuf, string(protobufBody(t, schema.GroupVersionKind{}, pod))},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range []Validation{Warn, Ignore, Strict} {
				got := &corev1.Pod{}
				warnings, err := Into([]byte(c.body), c.format, v, podKind, got)
				if err != nil || len(warnings) > 0 {
					t.Fatalf("%v, %q", err, warnings)
				}
				if got.Name != "p" || got.Spec.NodeName != "node" || got.GroupVersionKind() != podKind {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}

func TestInto_Refused(t *testing.T) {
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for _, c := range []struct {
		name   string
		format Format
		body   string
		gvk    schema.GroupVersionKind
		want   string
	}{
		{"no json", JSON, `{`, podKind,
			`the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({)`},
		{"empty", JSON, ``, podKind,
			`the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)`},
		{"long", JSON, `{"metadata":{"name":"a long name that goes on"}`, podKind,
			`the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({"metadata":{"name":"a long na ...)`},
		{"no object", JSON, `xyz`, podKind,
			`the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of value (78797a)`},
		{"bad version", JSON, `{"apiVersion":"a/b/c"}`, podKind,
			`the object provided is unrecognized (must be of type Pod): unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})`},
		{"wrong type", JSON, `{"metadata":{"name":1}}`, podKind,
			`Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string`},
		{"unknown kind", JSON, `{"kind":"Foo","apiVersion":"v1"}`, podKind,
			`Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1" in scheme "` + scheme.Scheme.Name() + `"`},
		{"unknown kind with foreign fields", JSON, `{"kind":"Foo","apiVersion":"v1","spec":[]}`, podKind,
			`Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1" in scheme "` + scheme.Scheme.Name() + `"`},
		{"other kind", JSON, `{"kind":"ConfigMap","apiVersion":"v1"}`, podKind,
			`ConfigMap in version "v1" cannot be handled as a Pod: converting (v1.ConfigMap) to (v1.Pod): unknown conversion`},
		{"other version", JSON, `{"kind":"Deployment","apiVersion":"apps/v1beta1"}`, deployment,
			`the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)`},
		{"strict", JSON, `{"spec":{"zzz":1,"nodeName":"a","nodeName":"b"}}`, podKind,
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.zzz", duplicate field "spec.nodeName"`},
		{"yaml", YAML, "a: b: c", podKind,
			`the object provided is unrecognized (must be of type Pod): yaml: mapping values are not allowed in this context (613a20623a2063)`},
		{"no protobuf", Protobuf, `{}`, podKind,
			`the object provided is unrecognized (must be of type Pod): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})`},
		{"empty protobuf", Protobuf, ``, podKind,
			`the object provided is unrecognized (must be of type Pod): empty data (<empty>)`},
		{"protobuf prefix only", Protobuf, "k8s\x00", podKind,
			`the object provided is unrecognized (must be of type Pod): empty body (6b387300)`},
		{"other kind in protobuf", Protobuf, string(protobufBody(t, autoscalingv1.SchemeGroupVersion.WithKind("Scale"), &autoscalingv1.Scale{})), podKind,
			`Scale in version "v1" cannot be handled as a Pod: converting (v1.Scale) to (v1.Pod): unknown conversion`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var obj runtime.Object = &corev1.Pod{}
			if c.gvk != podKind {
				obj, _ = scheme.Scheme.New(c.gvk)
			}
			_, err := Into([]byte(c.body), c.format, Strict, c.gvk, obj)
			if !apierrors.IsBadRequest(err) {
				t.Fatalf("got %v, want a BadRequest", err)
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}

func TestInto_Warnings(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		body   string
		want   []string
	}{
		{"json", JSON, `{"spec":{"zzz":1,"nodeName":"a","nodeName":"b"},"metadata":{"foo":1}}`,
			[]string{`unknown field "spec.zzz"`, `duplicate field "spec.nodeName"`, `unknown field "metadata.foo"`}},
		{"yaml", YAML, "spec:\n  nodeName: a\n  nodeName: b\n  zzz: 1\n",
			[]string{`line 3: key "nodeName" already set in map`, `unknown field "spec.zzz"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			got, err := Into([]byte(c.body), c.format, Warn, podKind, pod)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, got %q", err, got)
			}
			if pod.Spec.NodeName != "b" {
				t.Errorf("node %s", pod.Spec.NodeName)
			}
			if got, err = Into([]byte(c.body), c.format, Ignore, podKind, &corev1.Pod{}); err != nil || got != nil {
				t.Errorf("ignoring: %v, %q", err, got)
			}
		})
	}
}

func TestFormatOf(t *testing.T) {
	for contentType, want := range map[string]Format{
		"": JSON, "application/json": JSON, "application/json; charset=utf-8": JSON, "Application/JSON": JSON,
		"application/yaml": YAML, "application/vnd.kubernetes.protobuf": Protobuf,
	} {
		if got, err := FormatOf(contentType); err != nil || got != want {
			t.Errorf("%q: %v, %v", contentType, got, err)
		}
	}
	_, err := FormatOf("text/plain")
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 415 || status.Status().Message !=
		"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf" {
		t.Errorf("got %v", err)
	}
}

func TestDeleteOptions(t *testing.T) {
	grace := int64(5)
	want := &metav1.DeleteOptions{GracePeriodSeconds: &grace}
	for _, c := range []struct {
		name   string
		format Format
		body   string
	}{
		{"json", JSON, `{"gracePeriodSeconds":5}`},
		{"json of the meta group", JSON, `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":5}`},
		{"json of a group", JSON, `{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":5}`},
		{"yaml", YAML, "gracePeriodSeconds: 5"},
		{"protobuf", Protobuf, string(protobufBody(t, corev1.SchemeGroupVersion.WithKind("DeleteOptions"), want))},
	} {
		got, err := DeleteOptions([]byte(c.body), c.format)
		if err != nil || got.GracePeriodSeconds == nil || *got.GracePeriodSeconds != 5 {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	for _, body := range []string{`{`, `{"kind":"Pod"}`, `{"gracePeriodSeconds":"x"}`, `x`} {
		if _, err := DeleteOptions([]byte(body), JSON); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// FuzzInto checks that no body makes decoding panic, that an error is always a Status, and that what decodes as
// protobuf is what upstream's serializer makes of it.
func FuzzInto(f *testing.F) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","zzz":1},"spec":{"nodeName":"n","nodeName":"m"}}`), uint8(0), uint8(0))
	f.Add([]byte("kind: Pod\nspec:\n  containers: [{name: a}]\n  nodeName: a\n  nodeName: b\n"), uint8(1), uint8(2))
	f.Add(protobufBody(f, podKind, pod), uint8(2), uint8(1))
	f.Add([]byte(`{"kind":"Deployment","apiVersion":"apps/v1beta1"}`), uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, format, validation uint8) {
		got := &corev1.Pod{}
		how := Format(format % 3)
		_, err := Into(body, how, Validation(validation%3), podKind, got)
		var status apierrors.APIStatus
		if err != nil && !errors.As(err, &status) {
			t.Fatalf("%v is no Status", err)
		}
		if err == nil && got.GroupVersionKind() != podKind {
			t.Fatalf("kind %v", got.GroupVersionKind())
		}
		if how == Protobuf {
			want := &corev1.Pod{}
			_, gvk, wantErr := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(body, &podKind, want)
			if err == nil && (wantErr != nil || *gvk != podKind || got.Name != want.Name || len(got.Spec.Containers) != len(want.Spec.Containers)) {
				t.Fatalf("got %v, upstream %v (%v)", got, want, wantErr)
			}
		}
		if _, err := DeleteOptions(body, how); err != nil && !apierrors.IsBadRequest(err) {
			t.Fatalf("delete options: %v", err)
		}
	})
}
