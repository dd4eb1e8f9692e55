package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"vigil/apiserver/respond"
	"vigil/kinds"
)

// swaggerProtobuf is the media type of the document as protobuf.
const swaggerProtobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

// swagger serves /openapi/v2. Few clients ask for it, so all forms are made on demand and kept.
type swagger struct {
	build func() *spec.Swagger

	once           sync.Once
	json, protobuf form
	etag           string
	made           time.Time
	err            error
}

// form is the document in one encoding: megabytes, and a tenth of that compressed.
type form struct {
	contentType  string
	plain        []byte
	compress     sync.Once
	zipped       []byte
	zippedFailed error
}

// gzip returns the compressed form.
func (f *form) gzip() ([]byte, error) {
	f.compress.Do(func() {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, f.zippedFailed = w.Write(f.plain)
		if err := w.Close(); f.zippedFailed == nil {
			f.zippedFailed = err
		}
		f.zipped = bytes.Clone(out.Bytes())
	})
	return f.zipped, f.zippedFailed
}

func (s *swagger) encode() {
	s.json.contentType, s.protobuf.contentType = "application/json", swaggerProtobuf
	if s.json.plain, s.err = json.Marshal(s.build()); s.err != nil {
		return
	}
	doc, err := openapi_v2.ParseDocument(s.json.plain)
	if err != nil {
		s.err = err
		return
	}
	s.protobuf.plain, s.err = proto.Marshal(doc)
	s.etag = fmt.Sprintf("\"%X\"", sha512.Sum512(s.json.plain))
	s.made = time.Now()
}

// ServeHTTP serves the document as JSON, or as protobuf to those who ask for that (in either of its two spellings), compressed for clients that
// accept gzip.
func (s *swagger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.encode)
	if s.err != nil {
		http.Error(w, fmt.Sprintf("make OpenAPI document: %v", s.err), http.StatusInternalServerError)
		return
	}
	wanted := &s.json
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "proto-openapi.spec.v2") {
		wanted = &s.protobuf
	}
	h := w.Header()
	h.Add("Vary", "Accept")
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Type", wanted.contentType)
	h.Set("ETag", s.etag)
	body := wanted.plain
	if respond.AcceptsEncoding(r) == "gzip" {
		zipped, err := wanted.gzip()
		if err != nil {
			http.Error(w, fmt.Sprintf("compress OpenAPI document: %v", err), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Encoding", "gzip")
		body = zipped
	}
	http.ServeContent(w, r, "", s.made, bytes.NewReader(body))
}

// merged is the Swagger 2.0 document: the models and paths of all groups and versions.
func merged(rows []*kinds.Kind, version string) *spec.Swagger {
	types := newSchemas(false)
	paths := map[string]spec.PathItem{}
	byGV := map[schema.GroupVersion][]*kinds.Kind{}
	for _, k := range rows {
		byGV[k.GVK.GroupVersion()] = append(byGV[k.GVK.GroupVersion()], k)
	}
	order := slices.SortedFunc(maps.Keys(byGV), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	for _, gv := range order { // always the same one: the ETag depends on it
		d := newGroup(gv, version, types)
		for _, k := range byGV[gv] {
			d.add(k)
		}
		swaggerPaths(d.doc.Paths.Paths, paths)
	}
	definitions := spec.Definitions{}
	for name, m := range types.models {
		definitions[name] = *m
	}
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: version}},
		Paths:       &spec.Paths{Paths: paths},
		Definitions: definitions,
	}}
}
