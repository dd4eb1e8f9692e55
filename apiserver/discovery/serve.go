package discovery

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/negotiate"
	"vigil/apiserver/respond"
	"vigil/kinds"
)

// Documents are all discovery documents of one state of the server. Each is made and encoded when it is first asked for.
type Documents struct {
	paths    map[string]*document
	previous *Documents // while they are built: of the state before; may be nil
}

type document struct {
	rows       []*kinds.Kind            // that it is about
	plain      func() (*encoded, error) // the first call makes it
	aggregated func() (*encoded, error) // /api and /apis only
}

// encoded is one document in the two forms that clients ask for; YAML is made on demand.
type encoded struct {
	json, protobuf []byte
	etag           string
}

// add adds the document at path. One that was there before and is about the same rows stays as it is, with its encoded forms.
func (d *Documents) add(path string, rows []*kinds.Kind, plain, aggregated func() runtime.Object) {
	if d.previous != nil {
		if doc := d.previous.paths[path]; doc != nil && slices.Equal(doc.rows, rows) {
			d.paths[path] = doc
			return
		}
	}
	doc := &document{rows: rows, plain: encodeOnce(plain)}
	if aggregated != nil {
		doc.aggregated = encodeOnce(aggregated)
	}
	d.paths[path] = doc
}

func encodeOnce(obj func() runtime.Object) func() (*encoded, error) {
	return sync.OnceValues(func() (*encoded, error) { return encode(obj()) })
}

func encode(obj runtime.Object) (*encoded, error) {
	e := &encoded{}
	var err error
	if e.json, err = json.Marshal(obj); err != nil {
		return nil, fmt.Errorf("encode discovery document: %w", err)
	}
	if e.protobuf, err = respond.EncodeProtobuf(obj); err != nil {
		return nil, fmt.Errorf("encode discovery document: %w", err)
	}
	e.etag = fmt.Sprintf("\"%X\"", sha512.Sum512(e.json))
	return e, nil
}

// Paths returns the paths of all documents, in no order.
func (d *Documents) Paths() []string {
	var out []string
	for p := range d.paths {
		out = append(out, p)
	}
	return out
}

// Has says that there is a document at path, with or without a slash at the end.
func (d *Documents) Has(path string) bool { return d.paths[strings.TrimSuffix(path, "/")] != nil }

// AggregatedType is the media type of the aggregated documents, as response header and as what clients ask for.
const AggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

const aggregatedProtobufType = "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// ServeHTTP serves the document at the request's path, which must exist ([Documents.Has]).
func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	doc := d.paths[strings.TrimSuffix(r.URL.Path, "/")]
	endpoint := negotiate.Endpoint{Discovery: doc.aggregated != nil}
	form, ok := negotiate.Accept(r.Header.Get("Accept"), endpoint)
	if doc.aggregated != nil {
		w.Header().Add("Vary", "Accept")
	}
	if !ok {
		respond.Error(w, r, respond.NotAcceptable(negotiate.NotAcceptable(endpoint)))
		return
	}
	if form.View != negotiate.Discovery {
		plain, err := doc.plain()
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		d.write(w, r, form, plain, "")
		return
	}
	aggregated, err := doc.aggregated()
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	w.Header().Set("ETag", aggregated.etag)
	w.Header().Set("Cache-Control", "public")
	if matches(r.Header.Get("If-None-Match"), aggregated.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	contentType := AggregatedType
	if form.Format == negotiate.Protobuf {
		contentType = aggregatedProtobufType
	}
	d.write(w, r, form, aggregated, contentType)
}

func (d *Documents) write(w http.ResponseWriter, r *http.Request, form negotiate.Result, e *encoded, contentType string) {
	if contentType == "" {
		contentType = form.ContentType()
	}
	// A failed write means that the client is gone.
	switch {
	case form.Format == negotiate.Protobuf:
		_ = respond.Bytes(w, r, http.StatusOK, contentType, e.protobuf)
	case form.Format == negotiate.JSON && !form.Pretty && !respond.Pretty(r):
		_ = respond.Bytes(w, r, http.StatusOK, contentType, append(e.json[:len(e.json):len(e.json)], '\n'))
	default:
		if err := respond.JSON(w, r, http.StatusOK, form, e.json); err != nil {
			respond.Error(w, r, err)
		}
	}
}

// matches says whether an If-None-Match header names the tag.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return header != ""
		}
	}
	return false
}
