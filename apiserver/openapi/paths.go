package openapi

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"vigil/apiserver/discovery"
	"vigil/kinds"
)

var (
	objectTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	listTypes   = append(slices.Clone(objectTypes), "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
	patchTypes  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
)

// document builds the document of one group and version.
type document struct {
	gv    schema.GroupVersion
	root  string // "/api/v1"
	tag   string // "core_v1"
	camel string // "CoreV1", in operation ids
	doc   *spec3.OpenAPI
	types *schemas

	status, deleteOptions, watchEvent, patch string // models that operations refer to
}

// build makes the document of the given rows, which are all of group and version gv.
func build(gv schema.GroupVersion, rows []*kinds.Kind, version string) *spec3.OpenAPI {
	d := newGroup(gv, version, newSchemas(true))
	for _, k := range rows {
		d.add(k)
	}
	d.doc.Components = &spec3.Components{Schemas: d.types.models}
	return d.doc
}

// newGroup begins a document of gv, whose models go into types.
func newGroup(gv schema.GroupVersion, version string, types *schemas) *document {
	group, root := gv.Group, "/apis/"+gv.String()
	if group == "" {
		group, root = "core", "/api/"+gv.Version
	}
	first, _, _ := strings.Cut(group, ".")
	d := &document{
		gv: gv, root: root, tag: first + "_" + gv.Version, camel: title(first) + title(gv.Version),
		doc:   newDocument(version),
		types: types,
	}
	meta := schema.GroupVersion{Version: "v1"}
	d.status = d.types.kind(&metav1.Status{}, meta.WithKind("Status"))
	d.deleteOptions = d.types.kind(&metav1.DeleteOptions{}, gv.WithKind("DeleteOptions"))
	d.watchEvent = d.types.kind(&metav1.WatchEvent{}, gv.WithKind("WatchEvent"))
	d.patch = d.types.kind(&metav1.Patch{}, schema.GroupVersionKind{})
	delete(d.types.models[d.patch].Extensions, "x-kubernetes-group-version-kind")
	return d
}

func newDocument(version string) *spec3.OpenAPI {
	return &spec3.OpenAPI{
		Version: "3.0.0",
		Info:    &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: version}},
		Paths:   &spec3.Paths{Paths: map[string]*spec3.Path{}},
	}
}

// title makes the first letter upper case.
func title(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

// add adds the paths of one kind.
func (d *document) add(k *kinds.Kind) {
	if k.New == nil {
		return
	}
	model := d.types.kind(k.New(), k.GVK)
	list := model
	if k.NewList != nil {
		list = d.types.kind(k.NewList(), k.GVK.GroupVersion().WithKind(k.GVK.Kind+"List"))
	}
	verbs := discovery.Verbs(k)
	has := func(verb string) bool { return slices.Contains(verbs, verb) }
	scope, base := "", d.root+"/"+k.Resource
	shared := []*spec3.Parameter{pretty}
	if k.Namespaced {
		scope, base = "Namespaced", d.root+"/namespaces/{namespace}/"+k.Resource
		shared = append(shared, namespaceParameter)
	}
	op := func(action, verb, gvkScope string, gvk schema.GroupVersionKind) *spec3.Operation {
		return d.operation(action, verb+d.camel+gvkScope+k.GVK.Kind, gvk)
	}

	collection := &spec3.Path{PathProps: spec3.PathProps{Parameters: shared}}
	if has("list") {
		collection.Get = respondWith(withQuery(op("list", "list", scope, k.GVK), listParameters), list, listTypes, "200")
	}
	if has("create") {
		collection.Post = withBody(respondWith(withQuery(op("post", "create", scope, k.GVK), writeParameters), model, objectTypes, "200", "201", "202"), model, []string{"*/*"}, true)
	}
	if has("deletecollection") {
		o := withQuery(withQuery(op("deletecollection", "deleteCollection", scope, k.GVK), deleteParameters), listParameters[1:9])
		collection.Delete = withBody(respondWith(o, d.status, objectTypes, "200"), d.deleteOptions, []string{"*/*"}, false)
	}
	d.doc.Paths.Paths[base] = collection
	if k.Namespaced && has("list") {
		o := respondWith(withQuery(d.operation("list", "list"+d.camel+k.GVK.Kind+"ForAllNamespaces", k.GVK), listParameters), list, listTypes, "200")
		d.doc.Paths.Paths[d.root+"/"+k.Resource] = &spec3.Path{PathProps: spec3.PathProps{Get: o, Parameters: []*spec3.Parameter{pretty}}}
	}

	name := parameter("path", "name", "string", "The name of the "+k.GVK.Kind+".")
	item := &spec3.Path{PathProps: spec3.PathProps{Parameters: append(slices.Clone(shared), name)}}
	if has("get") {
		item.Get = respondWith(op("get", "read", scope, k.GVK), model, objectTypes, "200")
	}
	if has("update") {
		item.Put = withBody(respondWith(withQuery(op("put", "replace", scope, k.GVK), writeParameters), model, objectTypes, "200", "201"), model, []string{"*/*"}, true)
	}
	if has("patch") {
		item.Patch = withBody(respondWith(withQuery(op("patch", "patch", scope, k.GVK), patchParameters), model, objectTypes, "200", "201"), d.patch, patchTypes, true)
	}
	if has("delete") {
		result := d.status
		if k.ReturnsDeleted {
			result = model
		}
		item.Delete = withBody(respondWith(withQuery(op("delete", "delete", scope, k.GVK), deleteParameters), result, objectTypes, "200", "202"), d.deleteOptions, []string{"*/*"}, false)
	}
	d.doc.Paths.Paths[base+"/{name}"] = item

	for i := range k.Subresources {
		d.addSubresource(k, &k.Subresources[i], base, model, scope, item.Parameters)
	}
	d.addConnections(k, base, scope, item.Parameters)
	if has("watch") {
		d.addLegacyWatch(k, base, scope, shared, item.Parameters)
	}
}

func (d *document) addSubresource(k *kinds.Kind, sub *kinds.Subresource, base, model, scope string, shared []*spec3.Parameter) {
	gvk := k.GVK
	if !sub.GVK.Empty() {
		gvk = sub.GVK
	}
	if sub.NewView != nil {
		model = d.types.kind(sub.NewView(), gvk)
	}
	path := &spec3.Path{PathProps: spec3.PathProps{Parameters: shared}}
	id := d.camel + scope + k.GVK.Kind + title(sub.Name)
	for _, verb := range sub.Verbs {
		switch verb {
		case "get":
			path.Get = respondWith(d.operation("get", "read"+id, gvk), model, objectTypes, "200")
		case "update":
			path.Put = withBody(respondWith(withQuery(d.operation("put", "replace"+id, gvk), writeParameters), model, objectTypes, "200", "201"), model, []string{"*/*"}, true)
		case "patch":
			path.Patch = withBody(respondWith(withQuery(d.operation("patch", "patch"+id, gvk), patchParameters), model, objectTypes, "200", "201"), d.patch, patchTypes, true)
		case "create":
			path.Post = withBody(respondWith(withQuery(d.operation("post", "create"+id, gvk), writeParameters), model, objectTypes, "200", "201", "202"), model, []string{"*/*"}, true)
		}
	}
	d.doc.Paths.Paths[base+"/{name}/"+sub.Name] = path
}

// addLegacyWatch adds the paths below /watch/.
func (d *document) addLegacyWatch(k *kinds.Kind, base, scope string, shared, named []*spec3.Parameter) {
	watch := func(path, action, id string, params []*spec3.Parameter) {
		o := respondWith(d.operation(action, id, k.GVK), d.watchEvent, listTypes, "200")
		d.doc.Paths.Paths[path] = &spec3.Path{PathProps: spec3.PathProps{Get: o, Parameters: append(slices.Clone(params), listParameters...)}}
	}
	below := d.root + "/watch" + strings.TrimPrefix(base, d.root)
	watch(below, "watchlist", "watch"+d.camel+scope+k.GVK.Kind+"List", shared)
	watch(below+"/{name}", "watch", "watch"+d.camel+scope+k.GVK.Kind, named)
	if k.Namespaced {
		watch(d.root+"/watch/"+k.Resource, "watchlist", "watch"+d.camel+k.GVK.Kind+"ListForAllNamespaces", []*spec3.Parameter{pretty})
	}
}

func (d *document) operation(action, id string, gvk schema.GroupVersionKind) *spec3.Operation {
	o := &spec3.Operation{OperationProps: spec3.OperationProps{Tags: []string{d.tag}, OperationId: id}}
	o.AddExtension("x-kubernetes-action", action)
	o.AddExtension("x-kubernetes-group-version-kind", gvkMap(gvk))
	return o
}

func withQuery(o *spec3.Operation, params []*spec3.Parameter) *spec3.Operation {
	o.Parameters = append(o.Parameters, params...)
	return o
}

func withBody(o *spec3.Operation, model string, types []string, required bool) *spec3.Operation {
	o.RequestBody = &spec3.RequestBody{RequestBodyProps: spec3.RequestBodyProps{Content: content(model, types), Required: required}}
	return o
}

func respondWith(o *spec3.Operation, model string, types []string, codes ...string) *spec3.Operation {
	responses := map[int]*spec3.Response{
		401: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}},
	}
	for _, code := range codes {
		r := &spec3.Response{ResponseProps: spec3.ResponseProps{Content: content(model, types)}}
		switch code {
		case "200":
			r.Description, responses[200] = "OK", r
		case "201":
			r.Description, responses[201] = "Created", r
		case "202":
			r.Description, responses[202] = "Accepted", r
		}
	}
	o.Responses = &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: responses}}
	return o
}

func content(model string, types []string) map[string]*spec3.MediaType {
	out := map[string]*spec3.MediaType{}
	for _, t := range types {
		out[t] = &spec3.MediaType{MediaTypeProps: spec3.MediaTypeProps{Schema: spec.RefSchema("#/components/schemas/" + model)}}
	}
	return out
}
