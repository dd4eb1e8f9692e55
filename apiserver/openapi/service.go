package openapi

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"vigil/kinds"
)

// Service serves /openapi/v3, everything below it, and /openapi/v2.
type Service struct {
	v3 *handler3.OpenAPIService
	v2 *swagger
}

// New makes the service for the given rows. version is the server's, as in /version.
func New(rows []*kinds.Kind, version string) *Service {
	s := &Service{v3: handler3.NewOpenAPIService()}
	byGV := map[schema.GroupVersion][]*kinds.Kind{}
	groups := map[string]bool{}
	for _, k := range rows {
		byGV[k.GVK.GroupVersion()] = append(byGV[k.GVK.GroupVersion()], k)
		groups[k.GVK.Group] = true
	}
	for gv, in := range byGV {
		name := "apis/" + gv.String()
		if gv.Group == "" {
			name = "api/" + gv.Version
		}
		s.lazy(name, func() *spec3.OpenAPI { return build(gv, in, version) })
	}
	s.lazy("api", func() *spec3.OpenAPI { return rootDocument(version, "/api/", &metav1.APIVersions{}) })
	s.lazy("apis", func() *spec3.OpenAPI { return rootDocument(version, "/apis/", &metav1.APIGroupList{}) })
	s.lazy("version", func() *spec3.OpenAPI { return rootDocument(version, "/version/", nil) })
	for g := range groups {
		if g != "" {
			s.lazy("apis/"+g, func() *spec3.OpenAPI { return rootDocument(version, "/apis/"+g+"/", &metav1.APIGroup{}) })
		}
	}
	s.v2 = &swagger{build: func() *spec.Swagger { return merged(rows, version) }}
	return s
}

// lazy registers a document that is made when first asked for.
func (s *Service) lazy(name string, build func() *spec3.OpenAPI) {
	s.v3.UpdateGroupVersionLazy(name, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
		return build(), "static", nil
	})))
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
		s.v3.HandleDiscovery(w, r)
	case strings.HasPrefix(path, "/openapi/v3/"):
		s.v3.HandleGroupVersion(w, r)
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
