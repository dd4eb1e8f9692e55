package object

import (
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
)

// layout is what is computed once for each Type.
type layout struct {
	protobuf bool   // the Go type has protobuf methods, so objects are held as protobuf
	head     []byte // envelope before the length of the message
	jsonHead string // {"kind":"Pod","apiVersion":"v1",
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
	t.made = layout{
		head:     envelopeHead(t.APIVersion, t.Kind),
		jsonHead: `{"kind":` + strconv.Quote(t.Kind) + `,"apiVersion":` + strconv.Quote(t.APIVersion) + `,`,
	}
	if t.New == nil {
		return
	}
	_, t.made.protobuf = t.New().(protoMessage)
}
