package read

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/respond"
	"vigil/object"
)

// packing returns the content coding for a watch, 0 if it is not compressed. As upstream (KEP-3157, gate WatchListCompression), a watch that
// takes the place of a list is compressed for a client that accepts it; others are with Config.Compress only.
func (r *Reader) packing(req *http.Request, replacesList bool) object.Coding {
	if !replacesList && !r.compress || isWebSocket(req) { // which frames every event
		return 0
	}
	return object.ParseCoding(respond.AcceptsEncoding(req))
}

// announce sets the header of a compressed watch.
func announce(h http.Header, coding object.Coding) {
	h["Content-Encoding"] = []string{coding.String()}
	h.Add("Vary", "Accept-Encoding")
}

// pack returns an encoder whose frames are those of enc as the parts of a compressed stream. Events that are the same for all are compressed
// once, for all streams: a stream holds a checksum, and no compressor.
func pack(enc encoder, coding object.Coding) encoder {
	p := packedEncoder{encoder: enc, stream: object.NewPackedStream(coding)}
	if plain, ok := enc.(packable); ok {
		return &sharedPackedEncoder{packedEncoder: p, plain: plain}
	}
	return &p
}

// finisher is an encoder of streams that need an end.
type finisher interface {
	// finish appends what comes behind the last frame of a stream that ends in good order.
	finish(dst []byte) []byte
}

// packedEncoder compresses every frame for itself.
type packedEncoder struct {
	encoder
	stream  object.PackedStream
	scratch []byte
}

func (e *packedEncoder) frame(dst []byte, plain func(dst []byte) ([]byte, error)) ([]byte, error) {
	var err error
	if e.scratch, err = plain(e.scratch[:0]); err != nil {
		return dst, err
	}
	return e.stream.AppendText(dst, e.scratch), nil
}

func (e *packedEncoder) event(dst []byte, typ string, v *object.Version) ([]byte, error) {
	return e.frame(dst, func(b []byte) ([]byte, error) { return e.encoder.event(b, typ, v) })
}

func (e *packedEncoder) bookmark(dst []byte, rev int64, initialEnd bool) ([]byte, error) {
	return e.frame(dst, func(b []byte) ([]byte, error) { return e.encoder.bookmark(b, rev, initialEnd) })
}

func (e *packedEncoder) status(dst []byte, s *metav1.Status) ([]byte, error) {
	return e.frame(dst, func(b []byte) ([]byte, error) { return e.encoder.status(b, s) })
}

func (e *packedEncoder) finish(dst []byte) []byte { return e.stream.AppendEnd(dst) }

// packable is a sharedEncoder whose frames can be put together from packed objects.
type packable interface {
	// pack appends the head of a frame to head and returns the rest of the frame.
	pack(head []byte, typ string, v *object.Version) (newHead []byte, rest *object.Packed, err error)
}

func (e jsonEncoder) pack(head []byte, typ string, v *object.Version) ([]byte, *object.Packed, error) {
	p, err := v.PackedEvent(object.JSON, e.metadata)
	return object.AppendWatchEventJSONHead(head, typ), p, err
}

func (e protobufEncoder) pack(head []byte, typ string, v *object.Version) ([]byte, *object.Packed, error) {
	body, err := e.object(v)
	if err != nil {
		return head, nil, err
	}
	p, err := v.PackedEvent(object.Protobuf, e.metadata)
	return object.AppendWatchEventProtobufHead(head, typ, len(body)), p, err
}

// sharedPackedEncoder puts frames together from a head that is stored as it is and an object that is packed for everybody.
type sharedPackedEncoder struct {
	packedEncoder
	plain packable
}

func (e *sharedPackedEncoder) split(head []byte, typ string, v *object.Version) (newHead, body, tail []byte, err error) {
	text, rest, err := e.plain.pack(e.scratch[:0], typ, v)
	if err != nil {
		return head, nil, nil, err
	}
	e.scratch = text
	newHead = e.stream.AppendHead(head, text)
	e.stream.Add(rest)
	return newHead, rest.Bytes(), nil, nil
}

func (e *sharedPackedEncoder) event(dst []byte, typ string, v *object.Version) ([]byte, error) {
	dst, body, _, err := e.split(dst, typ, v)
	return append(dst, body...), err
}
