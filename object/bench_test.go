package object

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// BenchmarkNewVersion reads a pod as it comes from etcd: 2.8 KB of protobuf.
func BenchmarkNewVersion(b *testing.B) {
	typ := podType()
	stored, err := EncodeStored(typ, testPod("a"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(stored)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewVersion(typ, "/registry/pods/ns/a", 123456, stored); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewVersion_CustomResource(b *testing.B) {
	typ := widgetType()
	stored := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"labels":{"a":"b"},"name":"w","uid":"u-1"},"spec":{"color":"red"}}`)
	b.SetBytes(int64(len(stored)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewVersion(typ, widgetKey, 123456, stored); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJSON makes a pod's JSON from its protobuf, directly and through the Go struct.
func BenchmarkJSON(b *testing.B) {
	v := podVersion(b, "a", 123456)
	full, err := v.JSON()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("transcode", func(b *testing.B) {
		b.SetBytes(int64(len(full)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.makeJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode and marshal", func(b *testing.B) {
		b.SetBytes(int64(len(full)))
		b.ReportAllocs()
		for b.Loop() {
			var pod corev1.Pod
			if err := pod.Unmarshal(v.message()); err != nil {
				b.Fatal(err)
			}
			if _, err := json.Marshal(&pod); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("metadata", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := v.makeMetadataJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncodeStored(b *testing.B) {
	typ, pod := podType(), testPod("a")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeStored(typ, pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSelect(b *testing.B) {
	v := podVersion(b, "a", 1)
	label, err := labels.Parse("app=web")
	if err != nil {
		b.Fatal(err)
	}
	field, err := fields.ParseSelector("spec.nodeName=node-17")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("label", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !label.Matches(v.Labels()) {
				b.Fatal("no match")
			}
		}
	})
	b.Run("field", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !v.MatchFields(field) {
				b.Fatal("no match")
			}
		}
	})
}

// BenchmarkListWriter assembles the response of a list of 10,000 pods whose encodings exist.
func BenchmarkListWriter(b *testing.B) {
	items := make([]*Version, 10000)
	for i := range items {
		items[i] = podVersion(b, fmt.Sprintf("web-7d9c8b6f5-%05d", i), int64(i+1000000))
	}
	for name, l := range map[string]ListWriter{
		"json":              {},
		"protobuf":          {Encoding: Protobuf},
		"metadata json":     {MetadataOnly: true},
		"metadata protobuf": {Encoding: Protobuf, MetadataOnly: true},
	} {
		b.Run(name, func(b *testing.B) {
			l.Type = podType()
			size, err := l.Size(items)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Write(io.Discard, items); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWatchEvent(b *testing.B) {
	v := podVersion(b, "a", 1)
	asJSON, err := v.JSON()
	if err != nil {
		b.Fatal(err)
	}
	asProto, err := v.Protobuf()
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 16<<10)
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendWatchEventJSON(buf[:0], "MODIFIED", asJSON)
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendWatchEventProtobuf(buf[:0], "MODIFIED", asProto)
		}
	})
}
