package transcode

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object/internal/golden"
)

// message is what every generated type has.
type protoObject interface {
	runtime.Object
	Unmarshal([]byte) error
}

// reference is the slow way: decode and marshal. Kind and apiVersion are unset, so JSON has neither.
func reference(tb testing.TB, obj runtime.Object, msg []byte) ([]byte, error) {
	typed, ok := obj.(protoObject)
	if !ok {
		tb.Fatalf("%T has no Unmarshal", obj)
	}
	if err := typed.Unmarshal(msg); err != nil {
		return nil, err
	}
	return json.Marshal(typed)
}

func newObject(tb testing.TB, s *runtime.Scheme, c golden.Case) runtime.Object {
	obj, err := s.New(c.Kind)
	if err != nil {
		tb.Fatal(err)
	}
	return obj
}

func planFor(tb testing.TB, obj runtime.Object) *Plan {
	p, err := Compile(reflect.TypeOf(obj).Elem())
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestAppend_Golden compares every example of every release with decode and marshal, and those of HEAD with the
// JSON that k8s.io/api ships. Every kind must have a plan, and no example may be unusual.
func TestAppend_Golden(t *testing.T) {
	s := golden.Scheme(t)
	kinds := 0
	for _, c := range golden.Load(t) {
		t.Run(c.Name(), func(t *testing.T) {
			msg := c.Message(t)
			want, err := reference(t, newObject(t, s, c), msg)
			if err != nil {
				t.Fatal(err)
			}
			got, err := planFor(t, newObject(t, s, c)).Append([]byte("{"), msg)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			if c.Release == "HEAD" {
				kinds++
				compareWithShipped(t, c, got)
			}
		})
	}
	if kinds < 150 {
		t.Fatalf("only %d kinds", kinds)
	}
}

// compareWithShipped compares members with the example's JSON file, which begins with kind and apiVersion.
func compareWithShipped(t *testing.T, c golden.Case, members []byte) {
	var shipped bytes.Buffer
	if err := json.Compact(&shipped, c.JSON); err != nil {
		t.Fatal(err)
	}
	apiVersion, kind := c.Kind.ToAPIVersionAndKind()
	full := `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `",` + string(members[1:])
	if kind == "WatchEvent" { // the one without a TypeMeta
		full = string(members)
	}
	if full != shipped.String() {
		t.Fatalf("got  %s\nfile %s", full, &shipped)
	}
}

// TestAppend_Empty compares the empty object of every kind: all defaults, nulls and omissions.
func TestAppend_Empty(t *testing.T) {
	s := golden.Scheme(t)
	for _, c := range golden.Load(t) {
		want, err := reference(t, newObject(t, s, c), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := planFor(t, newObject(t, s, c)).Append([]byte("{"), nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.Name(), err, got, want)
		}
	}
}

func TestCompile_Refuses(t *testing.T) {
	type keys struct {
		M map[int32]string `json:"m" protobuf:"bytes,1,rep,name=m"`
	}
	type quoted struct {
		N int32 `json:"n,string" protobuf:"varint,1,opt,name=n"`
	}
	type number struct {
		A string `json:"a" protobuf:"bytes,1,opt,name=a"`
		B string `json:"b" protobuf:"bytes,1,opt,name=b"`
	}
	type raw struct {
		R json.RawMessage `json:"r" protobuf:"bytes,1,opt,name=r"`
	}
	type float struct {
		F float64 `json:"f" protobuf:"fixed64,1,opt,name=f"`
	}
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"a" protobuf:"bytes,1,opt,name=a"`},
		{Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"a" protobuf:"bytes,2,opt,name=b"`},
	})
	for _, typ := range []reflect.Type{
		reflect.TypeFor[keys](), reflect.TypeFor[quoted](), reflect.TypeFor[number](), reflect.TypeFor[raw](),
		reflect.TypeFor[float](), twice,
	} {
		if _, err := Compile(typ); err == nil {
			t.Errorf("%s compiled", typ)
		}
	}
}

func TestAppendString(t *testing.T) {
	long := strings.Repeat("x", 70)
	for _, s := range []string{
		"", "a", "plain text", long, `q"q\q`, "<>&", "\x00\b\f\n\r\t\x1f\x7f", "é", "日本語", "\u2028\u2029", "\xff", "a\xc3", "\xe2\x80",
		long + "<", "<" + long, long[:7] + "\n" + long, "\U0001F600", "\xed\xa0\x80", "12345678\xe2\x80\xa8", "\ufffd",
	} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendString(nil, []byte(s)); string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

// FuzzAppend compares with decode and marshal for whatever decodes, as whatever kind.
func FuzzAppend(f *testing.F) {
	s := golden.Scheme(f)
	cases := golden.Load(f)
	for i, c := range cases {
		if c.Release == "HEAD" {
			f.Add(uint16(i), c.Message(f))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint16, msg []byte) {
		obj := newObject(t, s, cases[int(kind)%len(cases)])
		got, err := planFor(t, obj).Append([]byte("{"), bytes.Clone(msg))
		if err != nil {
			if len(got) != 1 {
				t.Fatalf("failed but left %q", got)
			}
			return // the caller decodes
		}
		want, err := reference(t, obj, msg)
		if err != nil {
			t.Fatalf("transcoded what cannot be decoded (%v): %s", err, got)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%T\ngot  %s\nwant %s", obj, got, want)
		}
	})
}

// FuzzAppendString compares with encoding/json.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain text", `"\<>&`, "\u2028", "\xff\xe2\x80"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		want, err := json.Marshal(string(s))
		if err != nil {
			t.Fatal(err)
		}
		if got := appendString(nil, s); !bytes.Equal(got, want) {
			t.Fatalf("%q: got %s, want %s", s, got, want)
		}
	})
}
