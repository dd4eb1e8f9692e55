package object

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Type is what the byte level must know of one API kind in one version. Types are made once, at
// start-up, and never change.
type Type struct {
	APIVersion string // as on the wire: "v1", "apps/v1"
	Kind       string // "Pod"
	Namespaced bool

	// New returns an empty Go object that can decode the kind's protobuf and JSON. It is nil for kinds
	// without a Go type (custom resources), which are stored and served as JSON only.
	New func() runtime.Object

	// View is set for types that are stored as another. Their Fields are the stored type's, by other labels, and so are
	// not here.
	View *View

	// Complete fills in what the kind's protobuf has no place for and its JSON shows all the same (the kinds of a stateful
	// set's claim templates). It is called on every object that is decoded from protobuf. Nil: there is nothing.
	Complete func(obj runtime.Object)

	// Form is set for types that have protobuf and are stored otherwise.
	Form *Form

	// Fields are the selectable fields beyond metadata.name and metadata.namespace, in the order in which
	// they are documented.
	Fields []Field

	once sync.Once // guards made
	made layout    // by layout, on first use
}

// Field is one selectable field: its label as clients write it and the places of the value in the encodings.
type Field struct {
	// Label is what a field selector names: "spec.nodeName".
	Label string
	// Proto is the path of protobuf field numbers from the kind's own message to a leaf (string, bool or integer).
	// A repeated leaf (status.podIPs) matches when one of its elements does. An absent leaf reads as Default.
	// In objects without a Go type the label itself is the path: "spec.nodeName" is nodeName in spec.
	Proto []int32
	// Default is the value of an absent leaf: "" for strings, "false" for booleans, "0" for integers. It also tells
	// booleans from integers.
	Default string
	// Get computes the value where a path cannot (an alias, a map lookup, two places). Nil when Proto serves.
	Get func(*Version) string
}

// Group returns the API group: "" for core.
func (t *Type) Group() string {
	if g, _, ok := strings.Cut(t.APIVersion, "/"); ok {
		return g
	}
	return ""
}
