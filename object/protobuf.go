package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Protobuf returns the complete k8s envelope with the resource version set. ErrNoProtobuf for JSON-only types.
func (v *Version) Protobuf() ([]byte, error) {
	if !v.isProto() {
		return nil, v.noProtobuf()
	}
	return v.wire, nil
}

// ProtobufMessage returns the kind's own message with the resource version set, as it stands in a protobuf list.
func (v *Version) ProtobufMessage() ([]byte, error) {
	if !v.isProto() {
		return nil, v.noProtobuf()
	}
	return v.message(), nil
}

func (v *Version) noProtobuf() error {
	return fmt.Errorf("%s %s: %w", v.typ.APIVersion, v.typ.Kind, ErrNoProtobuf)
}

// Decode returns a fresh typed object that the caller owns, with resource version, kind and API version set: what the
// type's New makes, or *unstructured.Unstructured for types without a Go type.
func (v *Version) Decode() (runtime.Object, error) {
	obj, err := v.decode()
	if err != nil {
		return nil, fmt.Errorf("decode %s at revision %d: %w", v.key, v.rev, err)
	}
	return obj, nil
}

func (v *Version) decode() (runtime.Object, error) {
	switch {
	case v.isProto():
		obj := v.typ.New()
		if err := obj.(protoMessage).Unmarshal(v.message()); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if v.typ.Complete != nil {
			v.typ.Complete(obj)
		}
		obj.GetObjectKind().SetGroupVersionKind(v.typ.groupVersionKind())
		return obj, nil
	case v.typ.New != nil:
		return decodeTypedJSON(v.typ, v.wire)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(v.wire); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return obj, nil
}

func (t *Type) groupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
}
