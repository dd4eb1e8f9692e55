package bounds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/internal/protobuf"
	"vigil/kinds/all"
)

// filler fills objects with one element in each list and map, and numbers their quantities.
type filler struct {
	quantities int
	inside     map[reflect.Type]bool
}

// text is the n-th quantity, and absurd another of the same length.
func text(n int) string { return fmt.Sprint(7_100_000_001 + 2*n) }

const absurd = "1e99999999"

func (f *filler) fill(v reflect.Value) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse(text(f.quantities))))
		f.quantities++
		return
	case leaves[t] == raw, t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[metav1.MicroTime]():
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		if !f.inside[t.Elem()] {
			v.Set(reflect.New(t.Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		if !f.inside[t.Elem()] {
			v.Set(reflect.MakeSlice(t, 1, 1))
			f.fill(v.Index(0))
		}
	case reflect.Map:
		if !f.inside[t.Elem()] {
			e := reflect.New(t.Elem()).Elem()
			f.fill(e)
			v.Set(reflect.MakeMap(t))
			v.SetMapIndex(reflect.ValueOf("k").Convert(t.Key()), e)
		}
	case reflect.Struct:
		f.inside[t] = true
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
		delete(f.inside, t)
	}
}

// Every quantity that an object of any kind can have is found in every form.
func TestPlan_Quantities(t *testing.T) {
	found := 0
	for _, row := range all.Table().All() {
		obj := row.New()
		f := &filler{inside: map[reflect.Type]bool{}}
		f.fill(reflect.ValueOf(obj).Elem())
		plan := Of(row.New())
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		message, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		check := func(n int) (inJSON, inProtobuf, inFields error) {
			data, message := bytes.Clone(data), bytes.Clone(message)
			if n >= 0 {
				from, to := []byte(text(n)), []byte(absurd)
				if !bytes.Contains(data, from) || !bytes.Contains(message, from) {
					t.Fatalf("%s: no quantity %d", row.Resource, n)
				}
				data, message = bytes.ReplaceAll(data, from, to), bytes.ReplaceAll(message, from, to)
			}
			content := map[string]any{}
			if err := json.Unmarshal(data, &content); err != nil {
				t.Fatal(err)
			}
			return plan.JSON(data), plan.Protobuf(message), plan.Fields(content)
		}
		if a, b, c := check(-1); a != nil || b != nil || c != nil {
			t.Errorf("%s: %v, %v, %v", row.Resource, a, b, c)
		}
		for n := range f.quantities {
			found++
			if a, b, c := check(n); a == nil || b == nil || c == nil {
				t.Errorf("%s: quantity %d is not looked at: %v in JSON, %v in protobuf, %v in fields", row.Resource, n, a, b, c)
			}
		}
		if _, isSchema := obj.(*apiextensionsv1.CustomResourceDefinition); plan.Cyclic() != isSchema {
			t.Errorf("%s: a type inside itself: %v", row.Resource, plan.Cyclic())
		}
	}
	if found < 100 {
		t.Errorf("only %d quantities", found)
	}
	t.Logf("%d quantities", found)
}

// JSON that is not well-formed is the decoder's business, and nothing makes the scanner fail or stay.
func TestPlan_Malformed(t *testing.T) {
	pod := `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e999"}}}]}}`
	plan := Of(&corev1.Pod{})
	if err := plan.JSON([]byte(pod)); err == nil {
		t.Error("the whole is not refused")
	}
	for i := range pod {
		_ = plan.JSON([]byte(pod[:i]))
		_ = plan.JSON([]byte(pod[i:]))
		for _, c := range `"\{}[]:,` {
			_ = plan.JSON([]byte(pod[:i] + string(c) + pod[i+1:]))
		}
	}
	message := protobuf.AppendBytes(nil, 2, protobuf.AppendBytes(nil, 2, []byte{0xff}))
	if err := plan.Protobuf(message); err != errMalformed {
		t.Errorf("got %v", err)
	}
}

func TestDepth(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`[{"[":"\"["},`, n) + strings.Repeat("]", n) }
	if err := Depth([]byte(nested(9)), 10); err != nil {
		t.Error(err)
	}
	if err := Depth([]byte(nested(10)), 10); err == nil {
		t.Error("11 levels of 10")
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"limits":{"cpu":"1e999"}}}]}}`))
	f.Add([]byte(`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":[{"not":{}}]}}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, obj := range []runtime.Object{&corev1.Pod{}, &apiextensionsv1.CustomResourceDefinition{}} {
			_ = Of(obj).JSON(data)
			_ = Of(obj).Protobuf(data)
		}
	})
}

// BenchmarkPlan looks at a pod as a kubelet or controller sends it.
func BenchmarkPlan(b *testing.B) {
	obj := &corev1.Pod{}
	(&filler{inside: map[reflect.Type]bool{}}).fill(reflect.ValueOf(obj).Elem())
	message, err := obj.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		b.Fatal(err)
	}
	plan := Of(obj)
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(message)))
		for b.Loop() {
			if err := plan.Protobuf(message); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := plan.JSON(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
