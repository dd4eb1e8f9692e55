package informer

import (
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/informer/internal/wire"
)

// byNamespace is the function of NamespaceIndex.
func byNamespace(dst []string, o *Object) []string {
	if ns := o.Namespace(); ns != "" {
		dst = append(dst, ns)
	}
	return dst
}

// ByControllerUID indexes objects by the uid of their controlling owner.
func ByControllerUID(dst []string, o *Object) []string {
	if uid := o.ControllerUID(); uid != "" {
		dst = append(dst, uid)
	}
	return dst
}

// ByOwnerUID indexes objects by the uids of all their owners.
func ByOwnerUID(dst []string, o *Object) []string {
	wire.OwnerUIDs(o.encoding, o.bytes(), func(uid []byte, _ bool) bool {
		dst = append(dst, part(uid))
		return true
	})
	return dst
}

// ByUID indexes objects by their own uid.
func ByUID(dst []string, o *Object) []string { return append(dst, o.uid()) }

// ByLabel indexes objects that have a label by its value.
func ByLabel(label string) IndexFunc {
	return func(dst []string, o *Object) []string {
		wire.Labels(o.encoding, o.bytes(), func(k, v []byte) bool {
			if string(k) == label {
				dst = append(dst, part(v))
				return false
			}
			return true
		})
		return dst
	}
}

// ByField indexes protobuf objects by the strings at a path of field numbers from the kind's message down
// (spec.nodeName of pods: 2, 10). Empty and absent strings are not indexed. JSON objects have no field numbers and
// are decoded to T, of which value is asked.
func ByField[T runtime.Object](value func(T) []string, path ...int32) IndexFunc {
	slow := ByDecoded(value)
	return func(dst []string, o *Object) []string {
		if o.encoding != wire.Proto {
			return slow(dst, o)
		}
		wire.Strings(o.bytes(), path, func(b []byte) bool {
			if len(b) > 0 {
				dst = append(dst, part(b))
			}
			return true
		})
		return dst
	}
}

// ByDecoded indexes objects by what value says of the decoded object. This decodes each version twice (when it comes
// and when it goes), so prefer one of the others where something changes often. Undecodable objects are not indexed.
func ByDecoded[T runtime.Object](value func(T) []string) IndexFunc {
	return func(dst []string, o *Object) []string {
		obj, err := As[T](o)
		if err != nil {
			return dst
		}
		return append(dst, value(obj)...)
	}
}
