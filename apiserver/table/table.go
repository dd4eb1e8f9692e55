// Package table prints objects as server-side tables (meta.k8s.io Table), the form in which kubectl get asks for
// everything. Columns and cells come from the kind's row in the table of kinds; a kind without columns gets Name and
// Created At. A row decodes its object: tables are for people, one page at a time.
//
// Everything is appended to the caller's buffer, so that a list of any length streams: [Printer.AppendHeader], rows
// separated by commas, [AppendFooter].
package table

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/object"
)

// Include says what a row carries beside its cells.
type Include string

// The values of the includeObject parameter; empty means Metadata.
const (
	IncludeNone     Include = "None"
	IncludeMetadata Include = "Metadata"
	IncludeObject   Include = "Object"
)

// ParseInclude reads the includeObject parameter. The error's text is what follows "Unable to convert to Table as
// requested: ".
func ParseInclude(s string) (Include, error) {
	switch Include(s) {
	case "":
		return IncludeMetadata, nil
	case IncludeNone, IncludeMetadata, IncludeObject:
		return Include(s), nil
	}
	return "", fmt.Errorf("includeObject: Invalid value: %q: must be 'Metadata', 'Object', 'None', or empty", s)
}

// Printer makes tables of one kind for one request.
type Printer struct {
	kind       *kinds.Kind
	apiVersion string // of the Table: meta.k8s.io/v1 or meta.k8s.io/v1beta1
	include    Include
	now        time.Time // ages are as of now
	columns    []metav1.TableColumnDefinition
}

// NewPrinter returns a printer; beta asks for meta.k8s.io/v1beta1.
func NewPrinter(kind *kinds.Kind, beta bool, include Include, now time.Time) *Printer {
	p := &Printer{kind: kind, apiVersion: "meta.k8s.io/v1", include: include, now: now, columns: kind.Columns}
	if beta {
		p.apiVersion = "meta.k8s.io/v1beta1"
	}
	if kind.Row == nil {
		p.columns = genericColumns()
	}
	return p
}

// SetNow moves the time that ages are measured from: a watch prints rows for as long as it lasts.
func (p *Printer) SetNow(now time.Time) { p.now = now }

func genericColumns() []metav1.TableColumnDefinition {
	doc := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: doc["name"]},
		{Name: "Created At", Type: "date", Description: doc["creationTimestamp"]},
	}
}

// AppendHeader appends a Table up to the opening bracket of its rows. Without columns the definitions are null: all
// events of a watch but the first.
func (p *Printer) AppendHeader(dst []byte, list object.ListMeta, columns bool) ([]byte, error) {
	dst = append(dst, `{"kind":"Table","apiVersion":"`...)
	dst = append(dst, p.apiVersion...)
	dst = append(dst, `","metadata":{`...)
	if list.ResourceVersion > 0 {
		dst = append(dst, `"resourceVersion":"`...)
		dst = strconv.AppendInt(dst, list.ResourceVersion, 10)
		dst = append(dst, '"')
	}
	if list.Continue != "" {
		dst = append(dst, `,"continue":"`...)
		dst = append(dst, list.Continue...) // URL-safe base64: nothing to escape
		dst = append(dst, '"')
	}
	if list.Remaining != nil {
		dst = append(dst, `,"remainingItemCount":`...)
		dst = strconv.AppendInt(dst, *list.Remaining, 10)
	}
	dst = append(dst, `},"columnDefinitions":`...)
	if columns {
		defs, err := json.Marshal(p.columns)
		if err != nil {
			return nil, fmt.Errorf("encode columns of %s: %w", p.kind.GVK, err)
		}
		dst = append(dst, defs...)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, `,"rows":[`...), nil
}

// AppendFooter closes what AppendHeader opened.
func AppendFooter(dst []byte) []byte { return append(dst, "]}"...) }

// AppendRow appends the row of one object.
func (p *Printer) AppendRow(dst []byte, v *object.Version) ([]byte, error) {
	decoded, err := v.Decode()
	if err != nil {
		return nil, err
	}
	cells, conditions, err := p.cells(decoded)
	if err != nil {
		return nil, err
	}
	dst, err = appendCells(dst, cells, conditions)
	if err != nil {
		return nil, fmt.Errorf("encode row of %s: %w", v.Key(), err)
	}
	switch p.include {
	case IncludeNone:
		dst = append(dst, "null"...)
	case IncludeObject:
		body, err := v.JSON()
		if err != nil {
			return nil, err
		}
		dst = append(dst, body...)
	default:
		body, err := v.MetadataJSON()
		if err != nil {
			return nil, err
		}
		dst = p.appendMetadata(dst, body)
	}
	return append(dst, '}'), nil
}

const metadataPrefix = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`

// appendMetadata appends a PartialObjectMetadata in the version of the table.
func (p *Printer) appendMetadata(dst, body []byte) []byte {
	if p.apiVersion == "meta.k8s.io/v1" || len(body) < len(metadataPrefix) {
		return append(dst, body...)
	}
	dst = append(dst, `{"kind":"PartialObjectMetadata","apiVersion":"`...)
	dst = append(dst, p.apiVersion...)
	dst = append(dst, '"')
	return append(dst, body[len(metadataPrefix):]...)
}

// AppendBookmarkRow appends the row of a bookmark: an empty name, null for every other cell, and metadata, the
// PartialObjectMetadata that carries the bookmark's version.
func (p *Printer) AppendBookmarkRow(dst, metadata []byte) []byte {
	dst = append(dst, `{"cells":[""`...)
	for range len(p.columns) - 1 {
		dst = append(dst, ",null"...)
	}
	dst = append(dst, `],"object":`...)
	dst = p.appendMetadata(dst, metadata)
	return append(dst, '}')
}

func (p *Printer) cells(obj runtime.Object) ([]any, []metav1.TableRowCondition, error) {
	if p.kind.Row == nil {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, fmt.Errorf("print %T: %w", obj, err)
		}
		return []any{m.GetName(), m.GetCreationTimestamp().UTC().Format(time.RFC3339)}, nil, nil
	}
	o, ok := obj.(kinds.Object)
	if !ok {
		return nil, nil, fmt.Errorf("print %s: got %T", p.kind.GVK, obj)
	}
	var conditions []metav1.TableRowCondition
	if p.kind.RowConditions != nil {
		conditions = p.kind.RowConditions(o)
	}
	return p.kind.Row(o, p.now), conditions, nil
}

// appendCells appends a row up to its object, which the caller appends with the closing brace.
func appendCells(dst []byte, cells []any, conditions []metav1.TableRowCondition) ([]byte, error) {
	b, err := json.Marshal(cells)
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"cells":`...)
	dst = append(dst, b...)
	if len(conditions) > 0 {
		if b, err = json.Marshal(conditions); err != nil {
			return nil, err
		}
		dst = append(dst, `,"conditions":`...)
		dst = append(dst, b...)
	}
	return append(dst, `,"object":`...), nil
}
