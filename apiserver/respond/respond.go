// Package respond writes answers: objects and Status errors in the form the client asked for, with Content-Length where
// the length is known, and large bodies compressed when the client accepts it.
//
// Bodies that consist of shared bytes (object.Version) are written as they are; only what no cache holds (errors,
// results of actions, discovery documents) is encoded here.
package respond

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"vigil/apiserver/negotiate"
	"vigil/apiserver/request"
)

// Pretty says whether JSON is to be indented: the pretty parameter decides, else the user agent (people's tools want
// it, programs do not).
func Pretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v, ok := request.Param(r.URL.RawQuery, "pretty"); ok && v != "" {
			b, _ := strconv.ParseBool(v)
			return b
		}
	}
	ua := r.UserAgent()
	return strings.HasPrefix(ua, "curl") || strings.HasPrefix(ua, "Wget") || strings.HasPrefix(ua, "Mozilla/5.0")
}

// buffers holds scratch buffers of up to 64 KiB; larger ones are left to the collector.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}

// Buffer returns an empty scratch buffer for [Release].
func Buffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// Release gives a buffer back. Nothing may refer to its bytes any more.
func Release(b *[]byte) {
	if cap(*b) <= 64<<10 {
		buffers.Put(b)
	}
}

// JSON writes body, a JSON document without trailing newline, as form asks: as it is, indented or as YAML.
func JSON(w http.ResponseWriter, r *http.Request, code int, form negotiate.Result, body []byte) error {
	buf := Buffer()
	defer Release(buf)
	switch {
	case form.Format == negotiate.YAML:
		y, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("convert response to YAML: %w", err)
		}
		return Bytes(w, r, code, form.ContentType(), y)
	case form.Pretty || Pretty(r):
		out := bytes.NewBuffer(*buf)
		if err := json.Indent(out, body, "", "  "); err != nil {
			return fmt.Errorf("indent response: %w", err)
		}
		out.WriteByte('\n')
		*buf = out.Bytes()
	default:
		*buf = append(append(*buf, body...), '\n')
	}
	return Bytes(w, r, code, form.ContentType(), *buf)
}

// Values of Content-Type, made once.
var (
	contentTypeJSON     = []string{negotiate.JSON.MediaType()}
	contentTypeYAML     = []string{negotiate.YAML.MediaType()}
	contentTypeProtobuf = []string{negotiate.Protobuf.MediaType()}
)

// SetContentType sets the Content-Type header.
func SetContentType(h http.Header, contentType string) {
	switch contentType {
	case contentTypeJSON[0]:
		h["Content-Type"] = contentTypeJSON
	case contentTypeYAML[0]:
		h["Content-Type"] = contentTypeYAML
	case contentTypeProtobuf[0]:
		h["Content-Type"] = contentTypeProtobuf
	default:
		h["Content-Type"] = []string{contentType}
	}
}

// Bytes writes a complete body, compressed when it is large and the client accepts that.
func Bytes(w http.ResponseWriter, r *http.Request, code int, contentType string, body []byte) error {
	h := w.Header()
	SetContentType(h, contentType)
	if len(body) > CompressAbove {
		b := NewBody(w, r, code)
		if b.coding == "" {
			h["Content-Length"] = []string{strconv.Itoa(len(body))}
		}
		if _, err := b.Write(body); err != nil {
			return err
		}
		return b.Close()
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(code)
	_, err := w.Write(body)
	return err
}

// Object encodes obj, which carries its kind and apiVersion, and writes it. It is for objects that are not cached as
// bytes.
func Object(w http.ResponseWriter, r *http.Request, code int, form negotiate.Result, obj runtime.Object) error {
	if form.Format == negotiate.Protobuf {
		body, err := EncodeProtobuf(obj)
		if err == nil {
			return Bytes(w, r, code, form.ContentType(), body)
		}
		form = negotiate.Result{} // no protobuf form: JSON, as upstream falls back
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode %T: %w", obj, err)
	}
	return JSON(w, r, code, form, body)
}

// EncodeProtobuf returns obj in the envelope of application/vnd.kubernetes.protobuf. It fails for types without
// protobuf form.
func EncodeProtobuf(obj runtime.Object) ([]byte, error) {
	m, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("encode %T: no protobuf form", obj)
	}
	raw, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	apiVersion, kind := obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	body, err := u.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return append([]byte("k8s\x00"), body...), nil
}

// Status returns the Status of any error: its own if it has one, InternalError else.
func Status(err error) metav1.Status {
	var s metav1.Status
	if own, ok := asStatus(err); ok {
		s = own
	} else {
		s = apierrors.NewInternalError(err).ErrStatus
	}
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if s.Status == "" {
		s.Status = metav1.StatusFailure
	}
	if s.Code == 0 {
		s.Code = http.StatusInternalServerError
	}
	return s
}

func asStatus(err error) (metav1.Status, bool) {
	for err != nil {
		if s, ok := err.(apierrors.APIStatus); ok {
			return s.Status(), true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
	return metav1.Status{}, false
}

// How much of what a client has sent an error repeats, in bytes. Paths and queries may have a megabyte, and JSON makes up to six bytes of each.
const (
	maxMessage = 8 << 10 // but for errors about an object's fields (422), which name each
	maxName    = 1 << 10
)

// Error writes the Status of err in a form the client understands, never as a table. What the client has sent is repeated in part if it is long.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	s := Status(err)
	if s.Code != http.StatusUnprocessableEntity {
		s.Message = Cut(s.Message, maxMessage)
	}
	if s.Details != nil {
		d := *s.Details // the error's own stays as it is
		d.Name, d.Group, d.Kind = Cut(d.Name, maxName), Cut(d.Group, maxName), Cut(d.Kind, maxName)
		s.Details = &d
	}
	form, ok := negotiate.Accept(r.Header.Get("Accept"), negotiate.Endpoint{})
	if !ok {
		form = negotiate.Result{}
		// The clause that asks for a view may still name a format that errors can have.
		form.Format = formatOf(r.Header.Get("Accept"))
	}
	if d := s.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	// A failed write means that the client is gone: nobody is left to be told.
	_ = Object(w, r, int(s.Code), form, &s)
}

// Cut returns text if it has no more than limit bytes, else what fits of it with an ellipsis behind.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("...")], "") + "..."
}

// formatOf returns the format of the first clause of an Accept header in which only the view is not understood.
func formatOf(accept string) negotiate.Format {
	switch {
	case strings.HasPrefix(accept, negotiate.Protobuf.MediaType()):
		return negotiate.Protobuf
	case strings.HasPrefix(accept, negotiate.YAML.MediaType()):
		return negotiate.YAML
	default:
		return negotiate.JSON
	}
}

// NotAcceptable is the 406 for an endpoint.
func NotAcceptable(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotAcceptable,
		Reason:  metav1.StatusReasonNotAcceptable,
		Message: text,
	}}
}

// Warning adds warnings in the form of RFC 7234 Warning headers.
func Warning(w http.ResponseWriter, texts []string) {
	budget := 4096 // runes in all the warnings of a response, as upstream allows
	cutAt := 0
	total := 0
	for _, t := range texts {
		total += len([]rune(t))
	}
	if total > budget {
		cutAt = 256
	}
	seen := map[string]bool{}
	for _, t := range texts {
		if seen[t] {
			continue
		}
		seen[t] = true
		if runes := []rune(t); cutAt > 0 && len(runes) > cutAt {
			t = string(runes[:cutAt])
		}
		n := len([]rune(t))
		if n > budget {
			return
		}
		budget -= n
		w.Header().Add("Warning", "299 - "+quote(t))
	}
}

// quote makes a quoted-string of RFC 7230: control characters become spaces, quotes and backslashes are escaped.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
