package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"vigil/apiserver/listmemory"
	"vigil/apiserver/negotiate"
	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/apiserver/table"
	"vigil/kinds"
	"vigil/object"
)

// Endpoint says what forms objects of a kind can be asked for in.
func Endpoint(k *kinds.Kind) negotiate.Endpoint {
	return negotiate.Endpoint{Views: true, NoProtobuf: k.Type != nil && k.Type.New == nil}
}

// Accept negotiates the form of an answer about objects of a kind; the error is a 406.
func Accept(r *http.Request, e negotiate.Endpoint) (negotiate.Result, error) {
	form, ok := negotiate.Accept(r.Header.Get("Accept"), e)
	if !ok {
		return form, respond.NotAcceptable(negotiate.NotAcceptable(e))
	}
	return form, nil
}

// WriteObject answers with one object in the negotiated form.
func WriteObject(w http.ResponseWriter, r *http.Request, code int, form negotiate.Result, k *kinds.Kind, v *object.Version) error {
	v, err := v.As(k.Type)
	if err != nil {
		return err
	}
	var body []byte
	switch {
	case form.View == negotiate.MetadataList:
		return respond.NotAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)", k.GVK.Version, k.GVK.Kind))
	case form.View == negotiate.Table:
		p, err := printer(r, form, k)
		if err != nil {
			return err
		}
		buf := respond.Buffer()
		defer respond.Release(buf)
		if *buf, err = p.AppendHeader(*buf, object.ListMeta{ResourceVersion: v.Revision()}, true); err != nil {
			return err
		}
		if *buf, err = p.AppendRow(*buf, v); err != nil {
			return err
		}
		*buf = table.AppendFooter(*buf)
		return respond.JSON(w, r, code, form, *buf)
	case form.View == negotiate.Metadata && form.Format == negotiate.Protobuf:
		body, err = v.MetadataProtobuf()
	case form.View == negotiate.Metadata:
		body, err = v.MetadataJSON()
	case form.Format == negotiate.Protobuf:
		body, err = v.Protobuf()
	default:
		body, err = v.JSON()
	}
	if err != nil {
		return err
	}
	if form.Format == negotiate.Protobuf {
		return respond.Bytes(w, r, code, form.ContentType(), body)
	}
	return respond.JSON(w, r, code, form, body)
}

// printer makes the printer that a request for a table asks for; the error is a 400.
func printer(r *http.Request, form negotiate.Result, k *kinds.Kind) (*table.Printer, error) {
	include, _ := request.Param(r.URL.RawQuery, "includeObject")
	policy, err := table.ParseInclude(include)
	if err != nil {
		return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " + err.Error())
	}
	return table.NewPrinter(k, form.Beta, policy, time.Now()), nil
}

// WriteList answers with a list in the negotiated form. Except as YAML and indented it streams: memory does not grow with
// the list.
func WriteList(w http.ResponseWriter, r *http.Request, code int, form negotiate.Result, res *Resource, items []*object.Version, listMeta object.ListMeta) error {
	return writeList(w, r, code, form, res, items, listMeta, nil)
}

// writeList is WriteList for a list that holds a grant, which may be nil.
func writeList(w http.ResponseWriter, r *http.Request, code int, form negotiate.Result, res *Resource, items []*object.Version, listMeta object.ListMeta, grant *listmemory.Grant) error {
	k := res.Kind
	if form.View == negotiate.Metadata {
		return respond.NotAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (*%s.%sList)", k.GVK.Version, k.GVK.Kind))
	}
	var body body
	if form.View == negotiate.Table {
		p, err := printer(r, form, k)
		if err != nil {
			return err
		}
		body = &tableBody{printer: p, meta: listMeta}
	} else {
		l := &object.ListWriter{Type: k.Type, MetadataOnly: form.View == negotiate.MetadataList, Meta: listMeta}
		if form.Format == negotiate.Protobuf {
			l.Encoding = object.Protobuf
		}
		body = l
	}
	var document []byte
	if reformatted(form, r) {
		var err error
		if document, err = reformat(form, body, items); err != nil {
			return err
		}
	}
	respond.SetContentType(w.Header(), form.ContentType())
	b := respond.NewBody(w, r, code)
	b.Count(grant)
	var err error
	if document != nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{b}, struct{ io.Reader }{bytes.NewReader(document)}, make([]byte, 64<<10))
	} else if l, ok := body.(*object.ListWriter); ok && b.Coding() != "" && res.Compressor != nil && l.Compressible() {
		err = writeCompressed(b, res.Compressor, l, items)
	} else {
		err = body.Write(b, items)
	}
	if err != nil && !b.Started() {
		b.Abandon()
		return err
	}
	if err != nil {
		// The status is on the wire already. Ending the response now would make a broken list look whole.
		panic(http.ErrAbortHandler)
	}
	if err := b.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// writeCompressed writes a list to a client that accepts a coding: from forms that are compressed already if it is large.
func writeCompressed(b *respond.Body, c *object.Compressor, l *object.ListWriter, items []*object.Version) error {
	large, err := l.Exceeds(respond.CompressAbove, items)
	if err != nil {
		return err
	}
	if !large {
		return l.Write(b, items)
	}
	coding := object.ParseCoding(b.Coding())
	b.Compressed()
	return c.WriteList(b, coding, l, items)
}

// body writes a list of objects.
type body interface {
	Write(w io.Writer, items []*object.Version) error
}

// reformatted reports whether a list is for people: indented JSON or YAML, which needs the whole document.
func reformatted(form negotiate.Result, r *http.Request) bool {
	return form.Format == negotiate.YAML || (form.Format == negotiate.JSON && (form.Pretty || respond.Pretty(r)))
}

// reformat returns a list for people.
func reformat(form negotiate.Result, body body, items []*object.Version) ([]byte, error) {
	var doc bytes.Buffer
	if err := body.Write(&doc, items); err != nil {
		return nil, err
	}
	if form.Format == negotiate.YAML {
		y, err := yaml.JSONToYAML(doc.Bytes())
		if err != nil {
			return nil, fmt.Errorf("convert list to YAML: %w", err)
		}
		return y, nil
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSuffix(doc.Bytes(), []byte("\n")), "", "  "); err != nil {
		return nil, fmt.Errorf("indent list: %w", err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// WriteView answers with an object that is not stored as such: a Scale, a Status, the outcome of a dry run.
func WriteView(w http.ResponseWriter, r *http.Request, code int, form negotiate.Result, obj runtime.Object) error {
	m, ok := obj.(metav1.Object)
	switch {
	case !ok || form.View == negotiate.AsIs: // a Status has one form only
		return respond.Object(w, r, code, form, obj)
	case form.View == negotiate.MetadataList:
		return respond.NotAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%T)", obj))
	case form.View == negotiate.Metadata:
		partial := meta.AsPartialObjectMetadata(m)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		return respond.Object(w, r, code, form, partial)
	}
	return respond.Object(w, r, code, form, table.OfView(m, form.Beta, time.Now()))
}
