package object

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/protobuf"
	"vigil/object/internal/transcode"
)

// The kind in which objects are served to clients that want metadata only.
const (
	metadataAPIVersion = "meta.k8s.io/v1"
	metadataKind       = "PartialObjectMetadata"
	metadataJSONHead   = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`
)

var metadataHead = envelopeHead(metadataAPIVersion, metadataKind)

// MetadataProtobufMessage returns the object as a PartialObjectMetadata message, as it stands in a protobuf
// PartialObjectMetadataList. It is part of Protobuf where that exists, and made once where it does not.
func (v *Version) MetadataProtobufMessage() ([]byte, error) {
	if v.isProto() {
		return v.wire[v.msg:v.metaEnd:v.metaEnd], nil
	}
	sealed, err := v.MetadataProtobuf()
	if err != nil {
		return nil, err
	}
	_, start, _ := protobuf.Uvarint(sealed, len(metadataHead))
	end := len(sealed) - len(envelopeTail)
	return sealed[start:end:end], nil
}

// MetadataProtobuf returns the object as PartialObjectMetadata in a complete envelope. Custom resources have this
// form, too.
func (v *Version) MetadataProtobuf() ([]byte, error) {
	e := v.encodings()
	return e.get(&e.metaWire, v, (*Version).makeMetadataProtobuf)
}

// MetadataJSON returns the object as PartialObjectMetadata in JSON, without a newline at the end. Items of a
// PartialObjectMetadataList have the same form.
func (v *Version) MetadataJSON() ([]byte, error) {
	e := v.encodings()
	return e.get(&e.metaJSON, v, (*Version).makeMetadataJSON)
}

func (v *Version) makeMetadataProtobuf() ([]byte, error) {
	if v.isProto() {
		return sealMessage(metadataHead, v.wire[v.msg:v.metaEnd]), nil
	}
	partial, err := v.partial()
	if err != nil {
		return nil, err
	}
	msg, err := partial.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode metadata of %s at revision %d: %w", v.key, v.rev, err)
	}
	return sealMessage(metadataHead, msg), nil
}

// metadataPlan is how metadata becomes JSON.
var metadataPlan = sync.OnceValue(func() *transcode.Plan {
	p, err := transcode.Compile(reflect.TypeFor[metav1.PartialObjectMetadata]())
	if err != nil {
		panic(err) // a fixed type: a broken build
	}
	return p
})

func (v *Version) makeMetadataJSON() ([]byte, error) {
	if v.isProto() {
		if b := transcodeJSON(metadataPlan(), metadataJSONHead, v.wire[v.msg:v.metaEnd]); b != nil {
			return b, nil
		}
	}
	partial, err := v.partial()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(partial)
	if err != nil {
		return nil, fmt.Errorf("encode metadata of %s at revision %d: %w", v.key, v.rev, err)
	}
	return b, nil
}

// partial decodes the metadata.
func (v *Version) partial() (*metav1.PartialObjectMetadata, error) {
	partial := &metav1.PartialObjectMetadata{}
	var err error
	if v.isProto() {
		err = partial.Unmarshal(v.wire[v.msg:v.metaEnd])
	} else {
		err = json.Unmarshal(v.wire[v.meta:v.metaEnd], &partial.ObjectMeta)
	}
	if err != nil {
		return nil, fmt.Errorf("decode metadata of %s at revision %d: %w: %w", v.key, v.rev, ErrMalformed, err)
	}
	partial.APIVersion, partial.Kind = metadataAPIVersion, metadataKind
	return partial, nil
}

// sealMessage puts a message into an envelope that begins with head.
func sealMessage(head, msg []byte) []byte {
	size := len(head) + protobuf.SizeUvarint(uint64(len(msg))) + len(msg) + len(envelopeTail)
	dst := append(make([]byte, 0, size), head...)
	dst = protobuf.AppendUvarint(dst, uint64(len(msg)))
	dst = append(dst, msg...)
	return append(dst, envelopeTail...)
}

// NewBookmark makes the object of a BOOKMARK event of type t: nothing but its kind and the resource version; with
// initialEventsEnd also the annotation that ends a streaming list (KEP-3157).
func NewBookmark(t *Type, rev int64, initialEventsEnd bool) (*Version, error) {
	annotations := map[string]string{}
	if initialEventsEnd {
		annotations[metav1.InitialEventsAnnotationKey] = "true"
	}
	if t.New != nil {
		obj := t.New()
		if meta, ok := obj.(metav1.Object); ok && initialEventsEnd {
			meta.SetAnnotations(annotations)
		}
		return FromObject(t, "", rev, obj)
	}
	stored, err := json.Marshal(map[string]any{
		"apiVersion": t.APIVersion,
		"kind":       t.Kind,
		"metadata":   map[string]any{"annotations": annotations},
	})
	if err != nil {
		return nil, fmt.Errorf("make a bookmark of %s: %w", t.Kind, err)
	}
	if !initialEventsEnd {
		stored = bytes.Replace(stored, []byte(`"annotations":{}`), nil, 1)
	}
	return NewVersion(t, "", rev, stored)
}
