package write

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/object"
)

// encode brings a changed object into its storage form and counts its generation: one more than old's when anything but
// metadata and status is different, or what the kind counts besides. Both are compared as encoded, since that is cheaper than to compare them field by
// field and the encoding is needed anyway; equal means semantically equal, because the encoding is canonical.
func (o *op) encode(obj, old kinds.Object, cur *object.Version) ([]byte, error) {
	obj.SetGeneration(old.GetGeneration())
	stored, err := object.EncodeStored(o.k.Type, obj)
	if err != nil || !o.k.HasGeneration {
		return stored, err
	}
	if o.k.SameMetadata == nil || o.part() || o.k.SameMetadata(obj, old) {
		same, err := o.sameSpec(stored, cur, obj, old)
		if err != nil || same {
			return stored, err
		}
	}
	obj.SetGeneration(old.GetGeneration() + 1)
	return object.EncodeStored(o.k.Type, obj)
}

// sameSpec says whether obj (encoded as stored) and old (encoded as cur, but for defaults that were added to it) differ
// in metadata and status only.
func (o *op) sameSpec(stored []byte, cur *object.Version, obj, old kinds.Object) (bool, error) {
	message, err := cur.ProtobufMessage()
	if err != nil {
		return sameSpecUnstructured(obj, old)
	}
	status := o.res.status
	if sameFields(storedMessage(stored), message, status) {
		return true, nil
	}
	completed, err := object.EncodeStored(o.k.Type, old)
	if err != nil {
		return false, err
	}
	return sameFields(storedMessage(stored), storedMessage(completed), status), nil
}

// sameFields compares two messages field by field, leaving out metadata (always field 1) and status.
func sameFields(a, b []byte, status int32) bool {
	for {
		var fa, fb []byte
		fa, a = nextField(a, status)
		fb, b = nextField(b, status)
		if !bytes.Equal(fa, fb) {
			return false
		}
		if fa == nil {
			return true
		}
	}
}

// sameWithoutManaged compares two messages of objects without their managed fields.
func sameWithoutManaged(a, b []byte) bool {
	for len(a) > 0 && len(b) > 0 {
		na, _, la := protowire.ConsumeField(a)
		nb, _, lb := protowire.ConsumeField(b)
		if la < 0 || lb < 0 || na != nb {
			return false
		}
		if na == 1 {
			_, _, ta := protowire.ConsumeTag(a)
			_, _, tb := protowire.ConsumeTag(b)
			ma, _ := protowire.ConsumeBytes(a[ta:])
			mb, _ := protowire.ConsumeBytes(b[tb:])
			if !sameMetadata(ma, mb) {
				return false
			}
		} else if !bytes.Equal(a[:la], b[:lb]) {
			return false
		}
		a, b = a[la:], b[lb:]
	}
	return len(a) == len(b)
}

// sameMetadata compares metadata without managed fields (17) and resource version (6).
func sameMetadata(a, b []byte) bool {
	next := func(m []byte) (field, rest []byte) {
		for len(m) > 0 {
			num, _, n := protowire.ConsumeField(m)
			if n < 0 {
				return nil, nil
			}
			if num != 6 && num != 17 {
				return m[:n], m[n:]
			}
			m = m[n:]
		}
		return nil, nil
	}
	for {
		var fa, fb []byte
		fa, a = next(a)
		fb, b = next(b)
		if !bytes.Equal(fa, fb) {
			return false
		}
		if fa == nil {
			return true
		}
	}
}

// nextField returns the first field of a message that is neither metadata nor status, nil at the end (and where the
// message is damaged, which our own encoding never is).
func nextField(message []byte, status int32) (field, rest []byte) {
	for len(message) > 0 {
		num, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return nil, nil
		}
		if num != 1 && int32(num) != status {
			return message[:n], message[n:]
		}
		message = message[n:]
	}
	return nil, nil
}

// storedMessage is the kind's own message in an envelope as object.EncodeStored makes it: behind the prefix comes the
// field with kind and version, then the message.
func storedMessage(stored []byte) []byte {
	const prefix = 4
	if len(stored) < prefix {
		return nil
	}
	rest := stored[prefix:]
	for len(rest) > 0 {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 || typ != protowire.BytesType {
			return nil
		}
		value, m := protowire.ConsumeBytes(rest[n:])
		if m < 0 {
			return nil
		}
		if num == 2 {
			return value
		}
		rest = rest[n+m:]
	}
	return nil
}

func sameSpecUnstructured(obj, old kinds.Object) (bool, error) {
	var forms [2]map[string]any
	for i, in := range []kinds.Object{obj, old} {
		form, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
		if err != nil {
			return false, err
		}
		for _, name := range []string{"kind", "apiVersion", "metadata", "status"} {
			delete(form, name)
		}
		forms[i] = form
	}
	return equality.Semantic.DeepEqual(forms[0], forms[1]), nil
}

// statusField finds the protobuf field number of a kind's status in the tags of its Go type; 0 means it has none.
func statusField(k *kinds.Kind) int32 {
	k = k.Stored()
	if k.New == nil {
		return 0
	}
	typ := reflect.TypeOf(k.New())
	if typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		return 0
	}
	for f := range typ.Elem().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "status" {
			continue
		}
		if tag := strings.Split(f.Tag.Get("protobuf"), ","); len(tag) > 1 {
			if n, err := strconv.ParseInt(tag[1], 10, 32); err == nil {
				return int32(n)
			}
		}
	}
	return 0
}
