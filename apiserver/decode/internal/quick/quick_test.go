package quick

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"
)

var seed = flag.Int64("seed", time.Now().UnixNano(), "of the random objects")

// check decodes data both ways into empty objects. What Unmarshal does not give up on must be the library's.
func check(t *testing.T, data []byte, empty func() any) (quick bool) {
	t.Helper()
	got, want := empty(), empty()
	sent := string(data)
	quick = Unmarshal(data, got)
	if string(data) != sent {
		t.Errorf("the body was changed to %s", data)
	}
	if !quick {
		if !reflect.DeepEqual(got, empty()) {
			t.Errorf("gave up on %s and left %+v", sent, got)
		}
		return false
	}
	problems, err := kjson.UnmarshalStrict(data, want)
	if err != nil || len(problems) > 0 {
		t.Errorf("did not give up on %s, about which the library says %v, %v", sent, err, problems)
	} else if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nbecame  %+v\nwant    %+v", sent, got, want)
	}
	return true
}

type record struct {
	S       string            `json:"s"`
	B       bool              `json:"b"`
	N       int8              `json:"n"`
	U       uint16            `json:"u"`
	P       *string           `json:"p"`
	L       []record          `json:"l"`
	LP      []*string         `json:"lp"`
	M       map[string]string `json:"m"`
	D       map[named]record  `json:"d"`
	Raw     []byte            `json:"raw"`
	Any     any               `json:"any"`
	F       float64           `json:"f"`
	Q       resource.Quantity `json:"q"`
	QP      *resource.Quantity
	T       metav1.Time         `json:"t"`
	TP      *metav1.Time        `json:"tp"`
	I       intstr.IntOrString  `json:"ios"`
	IP      *intstr.IntOrString `json:"iosp"`
	Skip    string              `json:"-"`
	Inlined `json:",inline"`
}

type (
	named string

	Inlined struct {
		I string `json:"i"`
	}
)

func TestUnmarshal(t *testing.T) {
	for _, c := range []struct {
		data  string
		quick bool
	}{
		{`{}`, true}, {" {\n\t} \r\n", true}, {`{} {}`, false}, {``, false}, {`null`, false}, {`[]`, false}, {`{`, false}, {`{,}`, false}, {`{"s":"a",}`, false},
		{`{"s":"a"}`, true}, {`{"s" : "a" , "i" : "b"}`, true}, {`{"i":"b","s":"a"}`, true}, {`{"S":"a"}`, false}, {`{"s":1}`, false}, {`{"s":null,"b":null,"n":null,"q":null}`, true},
		{`{"s":"a","s":"a"}`, false}, {`{"zz":1}`, false}, {`{"Skip":"a"}`, false}, {`{"-":"a"}`, false}, {`{"s":"a" "b":true}`, false}, {`{s:1}`, false},
		{`{"s":"` + strings.Repeat("long ", 20) + `"}`, true}, {`{"s":"ä€😀"}`, true}, {"{\"s\":\"\xff\"}", false}, {"{\"s\":\"a\nb\"}", false}, {"{\"s\":\"\x00\"}", false}, {`{"s":"a`, false}, {`{"s":"a\`, false},
		{`{"s":"\"\\\/\b\f\n\r\t\u0041\u00fc\u20ac tail ü"}`, true}, {`{"s":"\ud83d\ude00"}`, false}, {`{"s":"\ud83d"}`, false}, {`{"s":"\x"}`, false}, {`{"s":"\u12"}`, false}, {`{"\u0073":"a"}`, true},
		{`{"b":true}`, true}, {`{"b":false}`, true}, {`{"b":tru}`, false}, {`{"b":"true"}`, false}, {`{"b":nul}`, false},
		{`{"n":-128,"u":65535}`, true}, {`{"n":-0}`, true}, {`{"n":128}`, false}, {`{"u":-1}`, false}, {`{"n":01}`, false}, {`{"n":-}`, false}, {`{"n":1.0}`, false}, {`{"n":1e1}`, false}, {`{"u":99999999999999999999}`, false},
		{`{"p":"a","QP":"1"}`, true}, {`{"p":null,"QP":null}`, true},
		{`{"l":[]}`, true}, {`{"l":null}`, true}, {`{"l":[{"s":"a"},null,{"l":[{}]},{},{},{"n":1}]}`, true}, {`{"l":[{}`, false}, {`{"l":[{},]}`, false}, {`{"lp":["a",null,"b"]}`, true},
		{`{"m":{}}`, true}, {`{"m":{"a":"b","c":null}}`, true}, {`{"m":{"a":"b","a":"c"}}`, false}, {`{"m":{"a":1}}`, false}, {`{"m":null}`, true},
		{`{"d":{"a":{"s":"b"},"c":null,"e":{}}}`, true}, {`{"d":{"a":{},"a":{}}}`, false},
		{`{"raw":"aGk="}`, true}, {`{"raw":""}`, true}, {`{"raw":null}`, true}, {`{"raw":"?"}`, false}, {`{"any":1}`, false}, {`{"any":null}`, false}, {`{"f":1}`, false},
		{`{"t":"2020-01-02T03:04:05Z","tp":"2020-01-02T03:04:05.678+02:00"}`, true}, {`{"t":null,"tp":null}`, true}, {`{"t":""}`, false}, {`{"t":1}`, false}, {`{"t":"2020"}`, false},
		{`{"ios":"80%","iosp":-80}`, true}, {`{"ios":null,"iosp":null}`, true}, {`{"ios":""}`, true}, {`{"ios":2147483648}`, false}, {`{"ios":1.5}`, false}, {`{"ios":true}`, false},
		{`{"q":"100m"}`, true}, {`{"q":1.5e1}`, true}, {`{"q":"x"}`, false}, {`{"q":{}}`, false}, {`{"q":01}`, false},
	} {
		if quick := check(t, []byte(c.data), func() any { return &record{} }); quick != c.quick {
			t.Errorf("%s: quick is %v", c.data, quick)
		}
	}
	deep := strings.Repeat(`{"l":[`, maxDepth) + strings.Repeat(`]}`, maxDepth)
	if check(t, []byte(deep), func() any { return &record{} }) {
		t.Error("any depth is taken")
	}
}

// Types that decode themselves get well-formed bytes only, and all of a value.
func TestUnmarshal_Custom(t *testing.T) {
	for _, value := range []string{`{}`, `{"a":[1,-2.5e+3,0,true,false,null,"\"\u00e4x\\"],"b":{"c":{}}}`, ` [ ] `, `"a"`, `null`, `1`, `-0.1E-2`,
		`{"a"}`, `{"a":}`, `[1 2]`, `[1,]`, `{"a":1,}`, `tru`, `.5`, `1.`, `-`, `1e`, `"\q"`, `"\u00"`, `"a`, `{a:1}`, `[`, "\"\n\""} {
		data := fmt.Sprintf(`{"apiVersion":"v1","metadata":{"managedFields":[{"fieldsV1":%s,"time":"2020-01-02T03:04:05Z"}]}}`, value)
		if quick := check(t, []byte(data), func() any { return &corev1.Pod{} }); quick != json.Valid([]byte(data)) {
			t.Errorf("%s: quick is %v", data, quick)
		}
	}
}

// filler fills objects with values of all kinds that JSON has.
func filler(r *rand.Rand) *randfill.Filler {
	texts := []string{"", "a", "TCP", "x y z and so on", "<&>", "ü€", `q"\`, "n/a.b", "tab\tnewline\n", "\u2028"}
	return randfill.New().RandSource(r).NilChance(.5).NumElements(0, 3).MaxDepth(10).Funcs(
		func(s *string, c randfill.Continue) { *s = texts[c.Intn(len(texts))] },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Intn(3)), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.Unix(int64(c.Intn(3)), 0))
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(9999), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.Parse(texts[c.Intn(len(texts))]) },
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = []byte(`{"a":[{}]}`) },
		func(e *metav1.FieldsV1, c randfill.Continue) { e.Raw = []byte(`{"f:a":{".":{}}}`) },
		func(e *apiextensionsv1.JSON, c randfill.Continue) { e.Raw = []byte(`"x"`) },
		func(e *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			e.Type, e.Required = texts[c.Intn(len(texts))], texts[:c.Intn(3)]
		},
	)
}

// Random objects of all kinds, and what is left of them after some bytes have changed.
func TestUnmarshal_Random(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	r := rand.New(rand.NewSource(*seed))
	fill := filler(r)
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		empty := func() any { return reflect.New(typ).Interface() }
		for range 3 {
			obj := empty()
			fill.Fill(obj)
			data, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if !check(t, data, empty) && planOf(typ).kind == structure && !floats(planOf(typ), map[*plan]bool{}) {
				t.Errorf("gave up on %s", data)
			}
			for range 5 {
				broken := append([]byte(nil), data...)
				for range 1 + r.Intn(3) {
					switch i := r.Intn(len(broken)); r.Intn(3) {
					case 0:
						broken[i] = `{}[]",:\ntx0-e. `[r.Intn(16)]
					case 1:
						broken = append(broken[:i], broken[i+1:]...)
					case 2:
						j := r.Intn(len(broken))
						broken = append(broken[:max(i, j)], append([]byte(string(broken[min(i, j):max(i, j)])), broken[max(i, j):]...)...)
					}
					if len(broken) == 0 {
						break
					}
				}
				check(t, broken, empty)
			}
		}
	}
}

// floats reports whether there is something in a type that is left to the library.
func floats(p *plan, seen map[*plan]bool) bool {
	if p == nil || seen[p] {
		return false
	}
	seen[p] = true
	if p.kind == unsupported || floats(p.elem, seen) {
		return true
	}
	for _, f := range p.fields {
		if floats(f.plan, seen) {
			return true
		}
	}
	return false
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"b"},"creationTimestamp":null},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}},"args":["\"x\""]}]},"status":{}}`))
	f.Add([]byte(`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		check(t, data, func() any { return &corev1.Pod{} })
		check(t, data, func() any { return &record{} })
	})
}

// BenchmarkUnmarshal decodes a pod as a controller or kubelet sends it.
func BenchmarkUnmarshal(b *testing.B) {
	data, err := os.ReadFile("../../testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, unmarshal := range map[string]func([]byte, any) bool{
		"quick":   Unmarshal,
		"library": func(data []byte, obj any) bool { _, err := kjson.UnmarshalStrict(data, obj); return err == nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !unmarshal(data, &corev1.Pod{}) {
					b.Fatal("gave up")
				}
			}
		})
	}
}
