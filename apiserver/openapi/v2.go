package openapi

import (
	"bytes"
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

	"vigil/kinds"
)

// swaggerProtobuf is the media type of the document as protobuf.
const swaggerProtobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

// swagger serves /openapi/v2. Few clients ask for it, so both forms are made on demand and kept.
type swagger struct {
	build func() *spec.Swagger

	once           sync.Once
	json, protobuf []byte
	etag           string
	made           time.Time
	err            error
}

func (s *swagger) encode() {
	if s.json, s.err = json.Marshal(s.build()); s.err != nil {
		return
	}
	doc, err := openapi_v2.ParseDocument(s.json)
	if err != nil {
		s.err = err
		return
	}
	s.protobuf, s.err = proto.Marshal(doc)
	s.etag = fmt.Sprintf("\"%X\"", sha512.Sum512(s.json))
	s.made = time.Now()
}

// ServeHTTP serves the document as JSON, or as protobuf to those who ask for that (in either of its two spellings).
func (s *swagger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.encode)
	if s.err != nil {
		http.Error(w, fmt.Sprintf("make OpenAPI document: %v", s.err), http.StatusInternalServerError)
		return
	}
	body, contentType := s.json, "application/json"
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "proto-openapi.spec.v2") {
		body, contentType = s.protobuf, swaggerProtobuf
	}
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("ETag", s.etag)
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
