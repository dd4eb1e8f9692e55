package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func widgetType() *Type {
	return &Type{
		APIVersion: "example.com/v1", Kind: "Widget", Namespaced: true,
		Fields: []Field{{Label: "spec.color"}, {Label: "spec.size", Default: "0"}, {Label: "spec.on", Default: "false"}},
	}
}

const widgetKey = "/registry/example.com/widgets/ns/w"

// reference is what upstream serves: the stored object decoded, with the resource version, sorted.
func referenceJSON(t *testing.T, stored, resourceVersion string) []byte {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(stored)); err != nil {
		t.Fatal(err)
	}
	u.SetResourceVersion(resourceVersion)
	return marshalJSON(t, u)
}

func TestNewVersion_CustomResource(t *testing.T) {
	const head = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":`
	for name, stored := range map[string]string{
		"usual":        head + `{"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"labels":{"a":"b"},"name":"w","namespace":"ns","uid":"u-1"},"spec":{"color":"red"}}`,
		"first":        head + `{"uid":"u-1"}}`,
		"last":         head + `{"name":"w"},"spec":{}}`,
		"empty":        head + `{}}`,
		"replaced":     head + `{"name":"w","resourceVersion":"77","uid":"u-1"},"status":null}`,
		"only version": head + `{"resourceVersion":"77"}}`,
		"unsorted":     `{"kind":"Widget","spec":{"b":1,"a":2},"metadata":{"uid":"u-1","name":"w"},"apiVersion":"example.com/v1"}`,
		"spaced":       "{\"apiVersion\": \"example.com/v1\",\n\t\"kind\": \"Widget\", \"metadata\": {\"name\": \"w\"} }\n",
		"escaped":      head + `{"labels":{"k":"\u0041"},"n\u0061me":"w"}}`,
		"late members": head + `{"name":"w"},"zzz":[1,2,{"metadata":{}}]}`,
		"no metadata":  `{"apiVersion":"example.com/v1","kind":"Widget"}`,
	} {
		t.Run(name, func(t *testing.T) {
			v, err := NewVersion(widgetType(), widgetKey, 4711, []byte(stored))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "JSON", v.JSON, referenceJSON(t, stored, "4711"))
			equal(t, "JSONItem", v.JSONItem, referenceJSON(t, stored, "4711"))
			equal(t, "JSON later", v.At(123456).JSON, referenceJSON(t, stored, "123456"))
			if got, want := v.Stored(), referenceJSON(t, stored, ""); !bytes.Equal(got, want) && name != "no metadata" {
				t.Errorf("stored %s, want %s", got, want)
			}
			if !v.EqualStored(v.Stored()) {
				t.Error("does not equal itself")
			}
			obj, err := v.Decode()
			if err != nil {
				t.Fatal(err)
			}
			if got := obj.(*unstructured.Unstructured).GetResourceVersion(); got != "4711" {
				t.Errorf("decoded resource version %q", got)
			}
			equal(t, "MetadataJSON", v.MetadataJSON, marshalJSON(t, partialOf(t, obj)))
			equal(t, "MetadataProtobuf", v.MetadataProtobuf, serialize(t, partialOf(t, obj)))
			if _, err := v.Protobuf(); !errors.Is(err, ErrNoProtobuf) {
				t.Errorf("protobuf: %v", err)
			}
		})
	}
}

func TestNewVersion_CustomResourceRefuses(t *testing.T) {
	for _, stored := range []string{
		"", "null", "[]", "1", `"x"`, `{}`, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}`,
		`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{}}`,
		`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{}}`,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":[]}`,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}}`,
		envelopeMagic + "\x0a\x00",
	} {
		if v, err := NewVersion(widgetType(), widgetKey, 1, []byte(stored)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", stored, v, err)
		}
	}
}

func TestCustomResource_Select(t *testing.T) {
	v, err := NewVersion(widgetType(), widgetKey, 5, []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":`+
		`{"labels":{"a":"b","e\"s":"\u0041","number":7},"name":"w","uid":"u-1"},"spec":{"color":"r\ned","on":true,"size":12}}`))
	if err != nil {
		t.Fatal(err)
	}
	l := v.Labels()
	if l.Get("a") != "b" || l.Get(`e"s`) != "A" || l.Has("x") || l.Get("number") != "" || v.UID() != "u-1" {
		t.Errorf("labels %q %q %q, uid %q", l.Get("a"), l.Get(`e"s`), l.Get("number"), v.UID())
	}
	for label, want := range map[string]string{"spec.color": "r\ned", "spec.on": "true", "spec.size": "12", "metadata.name": "w"} {
		if got, ok := v.Field(label); !ok || got != want {
			t.Errorf("%s: %q", label, got)
		}
	}
	bare, err := NewVersion(widgetType(), widgetKey, 5, []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{"spec.color": "", "spec.on": "false", "spec.size": "0"} {
		if got, ok := bare.Field(label); !ok || got != want {
			t.Errorf("%s of nothing: %q", label, got)
		}
	}
}

func TestEncodeStored_CustomResource(t *testing.T) {
	u := &unstructured.Unstructured{}
	in := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"9","selfLink":"/x"},"spec":{"text":"<a>"}}`
	if err := json.Unmarshal([]byte(in), u); err != nil {
		t.Fatal(err)
	}
	got, err := EncodeStored(widgetType(), u)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"text":"\u003ca\u003e"}}`
	if string(got) != want || u.GetResourceVersion() != "9" {
		t.Errorf("got %s, want %s", got, want)
	}
	v, err := FromObject(widgetType(), widgetKey, 10, u)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "JSON", v.JSON, []byte(strings.Replace(want, `"name":"w"`, `"name":"w","resourceVersion":"10"`, 1)))
	if !v.EqualStored(got) {
		t.Error("does not equal what was stored")
	}
}
