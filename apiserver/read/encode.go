package read

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/negotiate"
	"vigil/apiserver/respond"
	"vigil/apiserver/table"
	"vigil/object"
	"vigil/watchcache"
)

// Types of events that are made here; the others are the cache's.
const (
	bookmark = string(watchcache.Bookmark)
	failed   = "ERROR"
)

// encoder appends the events of one watch, each as a complete frame of its format, to a buffer.
type encoder interface {
	// event appends a change of an object.
	event(dst []byte, typ string, v *object.Version) ([]byte, error)
	// bookmark appends a bookmark; initialEnd marks the end of the initial events.
	bookmark(dst []byte, rev int64, initialEnd bool) ([]byte, error)
	// status appends an ERROR event.
	status(dst []byte, s *metav1.Status) ([]byte, error)
	// contentType is the value of the response header.
	contentType() string
}

// sharedEncoder is an encoder of events that are the same for all who watch: it puts a frame around the object's shared bytes.
type sharedEncoder interface {
	encoder
	// split returns the three parts of a frame: what it has appended to head, the object's bytes, and the end.
	split(head []byte, typ string, v *object.Version) (newHead, body, tail []byte, err error)
}

// newEncoder returns the encoder for a negotiated form.
func newEncoder(r *http.Request, form negotiate.Result, res *Resource) (encoder, error) {
	switch form.View {
	case negotiate.Table:
		p, err := printer(r, form, res.Kind)
		if err != nil {
			return nil, err
		}
		return &tableEncoder{printer: p, kind: res.Kind.Type, columns: true}, nil
	case negotiate.MetadataList:
		return nil, respond.NotAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (*" +
			res.Kind.GVK.Version + "." + res.Kind.GVK.Kind + ")")
	}
	e := plainEncoder{kind: res.Kind.Type, metadata: form.View == negotiate.Metadata}
	if form.Format == negotiate.Protobuf {
		return protobufEncoder(e), nil
	}
	return jsonEncoder(e), nil
}

// plainEncoder sends objects as they are, or their metadata.
type plainEncoder struct {
	kind     *object.Type
	metadata bool
}

type jsonEncoder plainEncoder

func (e jsonEncoder) object(v *object.Version) ([]byte, error) {
	if e.metadata {
		return v.MetadataJSON()
	}
	return v.JSON()
}

// large returns the parts of an object that is kept in parts, and the end of its frame.
func (e jsonEncoder) large(v *object.Version) (parts [][]byte, tail []byte) {
	if e.metadata {
		return nil, nil
	}
	return v.LargeJSON(), jsonTail
}

func (e jsonEncoder) event(dst []byte, typ string, v *object.Version) ([]byte, error) {
	if parts, tail := e.large(v); parts != nil {
		dst = object.AppendWatchEventJSONHead(dst, typ)
		for _, p := range parts {
			dst = append(dst, p...)
		}
		return append(dst, tail...), nil
	}
	body, err := e.object(v)
	if err != nil {
		return dst, err
	}
	return object.AppendWatchEventJSON(dst, typ, body), nil
}

var jsonTail = []byte(object.WatchEventJSONTail)

func (e jsonEncoder) split(head []byte, typ string, v *object.Version) (newHead, body, tail []byte, err error) {
	body, err = e.object(v)
	if err != nil {
		return head, nil, nil, err
	}
	return object.AppendWatchEventJSONHead(head, typ), body, jsonTail, nil
}

func (e jsonEncoder) bookmark(dst []byte, rev int64, initialEnd bool) ([]byte, error) {
	if e.metadata {
		return object.AppendWatchEventJSON(dst, bookmark, metadataBookmark(rev, initialEnd)), nil
	}
	v, err := object.NewBookmark(e.kind, rev, initialEnd)
	if err != nil {
		return dst, err
	}
	return e.event(dst, bookmark, v)
}

func (jsonEncoder) status(dst []byte, s *metav1.Status) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return dst, err
	}
	return object.AppendWatchEventJSON(dst, failed, body), nil
}

func (jsonEncoder) contentType() string { return "application/json" }

type protobufEncoder plainEncoder

func (e protobufEncoder) object(v *object.Version) ([]byte, error) {
	if e.metadata {
		return v.MetadataProtobuf()
	}
	return v.Protobuf()
}

func (e protobufEncoder) event(dst []byte, typ string, v *object.Version) ([]byte, error) {
	body, err := e.object(v)
	if err != nil {
		return dst, err
	}
	return object.AppendWatchEventProtobuf(dst, typ, body), nil
}

func (e protobufEncoder) split(head []byte, typ string, v *object.Version) (newHead, body, tail []byte, err error) {
	body, err = e.object(v)
	if err != nil {
		return head, nil, nil, err
	}
	return object.AppendWatchEventProtobufHead(head, typ, len(body)), body, nil, nil
}

func (e protobufEncoder) bookmark(dst []byte, rev int64, initialEnd bool) ([]byte, error) {
	v, err := object.NewBookmark(e.kind, rev, initialEnd)
	if err != nil {
		return dst, err
	}
	return e.event(dst, bookmark, v)
}

func (protobufEncoder) status(dst []byte, s *metav1.Status) ([]byte, error) {
	body, err := respond.EncodeProtobuf(s)
	if err != nil {
		return dst, err
	}
	return object.AppendWatchEventProtobuf(dst, failed, body), nil
}

func (protobufEncoder) contentType() string {
	return "application/vnd.kubernetes.protobuf;stream=watch"
}

// tableEncoder sends each object as a Table with one row. Only the first event has column definitions: kubectl keeps
// them.
type tableEncoder struct {
	printer *table.Printer
	kind    *object.Type
	columns bool // still to be sent
	scratch []byte
}

func (e *tableEncoder) event(dst []byte, typ string, v *object.Version) ([]byte, error) {
	e.printer.SetNow(time.Now())
	return e.frame(dst, typ, v.Revision(), func(b []byte) ([]byte, error) { return e.printer.AppendRow(b, v) })
}

func (e *tableEncoder) bookmark(dst []byte, rev int64, initialEnd bool) ([]byte, error) {
	return e.frame(dst, bookmark, rev, func(b []byte) ([]byte, error) {
		return e.printer.AppendBookmarkRow(b, metadataBookmark(rev, initialEnd)), nil
	})
}

func (e *tableEncoder) frame(dst []byte, typ string, rev int64, row func([]byte) ([]byte, error)) ([]byte, error) {
	b, err := e.printer.AppendHeader(e.scratch[:0], object.ListMeta{ResourceVersion: rev}, e.columns)
	if err != nil {
		return dst, err
	}
	if b, err = row(b); err != nil {
		return dst, err
	}
	e.columns = false
	e.scratch = table.AppendFooter(b)
	return object.AppendWatchEventJSON(dst, typ, e.scratch), nil
}

func (e *tableEncoder) status(dst []byte, s *metav1.Status) ([]byte, error) {
	return jsonEncoder{}.status(dst, s)
}

func (*tableEncoder) contentType() string { return "application/json" }

// metadataBookmark is the object of a bookmark in the form of PartialObjectMetadata.
func metadataBookmark(rev int64, initialEnd bool) []byte {
	b := append([]byte(nil), `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"`...)
	b = append(strconv.AppendInt(b, rev, 10), '"')
	if initialEnd {
		b = append(b, `,"annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"}`...)
	}
	return append(b, "}}"...)
}
