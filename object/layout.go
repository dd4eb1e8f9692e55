package object

import (
	"reflect"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object/internal/transcode"
)

// layout is what is computed once for each Type.
type layout struct {
	protobuf bool   // the Go type has protobuf methods, so objects are held as protobuf
	head     []byte // envelope before the length of the message
	jsonHead string // {"kind":"Pod","apiVersion":"v1",

	// repeated are the fields with a repeated leaf: a selector that asks for one of its elements matches.
	repeated []*Field

	planOnce sync.Once       // guards plan
	plan     *transcode.Plan // of New's type; nil when it cannot be compiled and JSON is made by decoding
}

// protoMessage is what the generated types of k8s.io/api implement.
type protoMessage interface {
	runtime.Object
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

func (t *Type) layout() *layout {
	t.once.Do(t.makeLayout)
	return &t.made
}

func (t *Type) makeLayout() {
	l := &t.made
	l.head = envelopeHead(t.APIVersion, t.Kind)
	l.jsonHead = `{"kind":` + strconv.Quote(t.Kind) + `,"apiVersion":` + strconv.Quote(t.APIVersion) + `,`
	if t.New == nil {
		return
	}
	obj := t.New()
	if _, l.protobuf = obj.(protoMessage); !l.protobuf {
		return
	}
	for i := range t.Fields {
		if f := &t.Fields[i]; f.Get == nil && transcode.Repeated(reflect.TypeOf(obj).Elem(), f.Proto) {
			l.repeated = append(l.repeated, f)
		}
	}
}

// jsonPlan returns the plan for the type's JSON, nil when there is none. It is compiled on first demand, since a
// server holds many kinds that nobody reads as JSON.
func (t *Type) jsonPlan() *transcode.Plan {
	l := t.layout()
	l.planOnce.Do(func() {
		if t.Complete != nil {
			return // the bytes are not all there is
		}
		// A type that cannot be compiled is no error: its JSON is made by decoding.
		l.plan, _ = transcode.Compile(reflect.TypeOf(t.New()).Elem())
	})
	return l.plan
}
