package openapi

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"vigil/kinds"
)

// Service serves /openapi/v3, everything below it, and /openapi/v2, for one state of the server.
type Service struct {
	documents map[string]document3
	v3        func() *handler3.OpenAPIService // the first call makes it
	v2        *swagger
}

// document3 is a document of version 3, which is made when it is first asked for.
type document3 struct {
	rows []*kinds.Kind // that it is about; none for those of discovery paths
	spec cached.Value[*spec3.OpenAPI]
}

// New makes the service for the given rows. version is the server's, as in /version. It shares the documents with previous, which may be nil, that
// are about the same rows.
func New(rows []*kinds.Kind, version string, previous *Service) *Service {
	s := &Service{documents: map[string]document3{}}
	byGV := map[schema.GroupVersion][]*kinds.Kind{}
	groups := map[string]bool{}
	for _, k := range rows {
		byGV[k.GVK.GroupVersion()] = append(byGV[k.GVK.GroupVersion()], k)
		groups[k.GVK.Group] = true
	}
	add := func(name string, rows []*kinds.Kind, build func() *spec3.OpenAPI) {
		if previous != nil {
			if d, ok := previous.documents[name]; ok && slices.Equal(d.rows, rows) {
				s.documents[name] = d
				return
			}
		}
		s.documents[name] = document3{rows, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) { return build(), "static", nil }))}
	}
	for gv, in := range byGV {
		name := "apis/" + gv.String()
		if gv.Group == "" {
			name = "api/" + gv.Version
		}
		add(name, in, func() *spec3.OpenAPI { return build(gv, in, version) })
	}
	add("api", nil, func() *spec3.OpenAPI { return rootDocument(version, "/api/", &metav1.APIVersions{}) })
	add("apis", nil, func() *spec3.OpenAPI { return rootDocument(version, "/apis/", &metav1.APIGroupList{}) })
	add("version", nil, func() *spec3.OpenAPI { return rootDocument(version, "/version/", nil) })
	for g := range groups {
		if g != "" {
			add("apis/"+g, nil, func() *spec3.OpenAPI { return rootDocument(version, "/apis/"+g+"/", &metav1.APIGroup{}) })
		}
	}
	s.v3 = sync.OnceValue(s.handler)
	s.v2 = &swagger{build: func() *spec.Swagger { return merged(rows, version) }}
	return s
}

// handler makes what serves the documents of version 3.
func (s *Service) handler() *handler3.OpenAPIService {
	h := handler3.NewOpenAPIService()
	for name, d := range s.documents {
		h.UpdateGroupVersionLazy(name, d.spec)
	}
	return h
}

// Has says that a path is a Service's.
func Has(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return path == "/openapi/v2" || path == "/openapi/v3" || strings.HasPrefix(path, "/openapi/v3/")
}

// ServeHTTP serves all of it.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/openapi/v2":
		s.v2.ServeHTTP(w, r)
	case path == "/openapi/v3" || path == "/openapi/v3/":
		s.v3().HandleDiscovery(w, r)
	case strings.HasPrefix(path, "/openapi/v3/"):
		s.v3().HandleGroupVersion(w, r)
	default:
		http.NotFound(w, r)
	}
}

// rootDocument describes a discovery path.
func rootDocument(version, path string, answer any) *spec3.OpenAPI {
	doc := newDocument(version)
	d := &document{tag: strings.Trim(strings.ReplaceAll(path, "/", "_"), "_"), types: newSchemas(true)}
	o := &spec3.Operation{OperationProps: spec3.OperationProps{Tags: []string{d.tag}, OperationId: "get" + title(d.tag)}}
	model := ""
	if answer != nil {
		gvk := schema.GroupVersionKind{Version: "v1"}
		model = d.types.kind(answer, gvk)
		delete(d.types.models[model].Extensions, "x-kubernetes-group-version-kind")
		respondWith(o, model, objectTypes, "200")
	} else {
		o.Responses = &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: map[int]*spec3.Response{
			200: {ResponseProps: spec3.ResponseProps{Description: "OK"}},
		}}}
	}
	doc.Paths.Paths[path] = &spec3.Path{PathProps: spec3.PathProps{Get: o}}
	doc.Components = &spec3.Components{Schemas: d.types.models}
	return doc
}
