package object

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// largeConfigMap has a config map with the given data, and its JSON as encoding/json makes it.
func largeConfigMap(t *testing.T, typ *Type, rev int64, data map[string]string) (v *Version, want []byte) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "a"}, Data: data}
	stored, err := EncodeStored(typ, cm)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = NewVersion(typ, "/registry/configmaps/a/c", rev, stored); err != nil {
		t.Fatal(err)
	}
	if want, err = v.makeJSON(); err != nil {
		t.Fatal(err)
	}
	return v, want
}

func TestLargeJSON(t *testing.T) {
	typ := &Type{APIVersion: "v1", Kind: "ConfigMap", Namespaced: true, New: func() runtime.Object { return &corev1.ConfigMap{} }}
	plain := strings.Repeat("0123456789abcdef", 10_000)
	for name, tt := range map[string]struct {
		data  map[string]string
		parts int
	}{
		"one":             {map[string]string{"a": plain}, 3},
		"several":         {map[string]string{"a": plain, "b": "short", "c": plain[3:], "d": plain}, 7},
		"escapes":         {map[string]string{"a": strings.Repeat("line\n", 30_000)}, 0},
		"mostly escapes":  {map[string]string{"a": plain[:20_000], "b": strings.Repeat("<>", 50_000)}, 0},
		"some escapes":    {map[string]string{"a": plain, "b": strings.Repeat("\"", 1000)}, 3},
		"not large":       {map[string]string{"a": plain[:30_000]}, 0},
		"not in one part": {map[string]string{"a": plain + "\"" + plain}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			v, want := largeConfigMap(t, typ, 7, tt.data)
			before := v.SizeBytes()
			if got := v.LargeJSON(); len(got) != tt.parts {
				t.Errorf("%d parts, want %d", len(got), tt.parts)
			}
			if grown := v.SizeBytes() - before; tt.parts > 0 && grown > 8<<10 {
				t.Errorf("holds %d bytes more", grown)
			}
			appended, err := v.AppendJSON([]byte("x"))
			if err != nil || !bytes.Equal(appended[1:], want) {
				t.Errorf("AppendJSON: %d bytes, want %d, %v", len(appended)-1, len(want), err)
			}
			if got, err := v.JSON(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("JSON: %d bytes, want %d, %v", len(got), len(want), err)
			}
			l := ListWriter{Type: typ}
			other, _ := largeConfigMap(t, typ, 8, map[string]string{"a": "b"})
			var list, sum bytes.Buffer
			if err := l.Write(&list, []*Version{other, v, v}); err != nil {
				t.Fatal(err)
			}
			head, tail, err := l.frame(nil)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := other.JSONItem()
			b, _ := v.JSONItem()
			fmt.Fprintf(&sum, "%s%s,%s,%s%s", head, a, b, b, tail)
			if !bytes.Equal(list.Bytes(), sum.Bytes()) {
				t.Error("the list differs")
			}
			if n, err := l.Size([]*Version{other, v, v}); err != nil || n != int64(list.Len()) {
				t.Errorf("Size is %d, want %d, %v", n, list.Len(), err)
			}
		})
	}
}
