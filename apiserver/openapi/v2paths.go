package openapi

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// swaggerPaths says in Swagger 2.0 what the paths of a version 3 document say: bodies are parameters, media types belong to the
// operation, types to the parameter itself.
func swaggerPaths(paths map[string]*spec3.Path, into map[string]spec.PathItem) {
	for path, item := range paths {
		out := spec.PathItem{}
		out.Parameters = swaggerParameters(item.Parameters)
		out.Get, out.Put, out.Post = swaggerOperation(item.Get), swaggerOperation(item.Put), swaggerOperation(item.Post)
		out.Delete, out.Patch = swaggerOperation(item.Delete), swaggerOperation(item.Patch)
		out.Options, out.Head = swaggerOperation(item.Options), swaggerOperation(item.Head)
		into[path] = out
	}
}

func swaggerOperation(o *spec3.Operation) *spec.Operation {
	if o == nil {
		return nil
	}
	out := &spec.Operation{VendorExtensible: o.VendorExtensible}
	out.ID, out.Tags, out.Description, out.Schemes = o.OperationId, o.Tags, o.Description, []string{"https"}
	out.Consumes = []string{"*/*"}
	if o.RequestBody != nil {
		out.Consumes = slices.Sorted(maps.Keys(o.RequestBody.Content))
		out.Parameters = append(out.Parameters, spec.Parameter{ParamProps: spec.ParamProps{
			Name: "body", In: "body", Required: o.RequestBody.Required, Schema: anySchema(o.RequestBody.Content)}})
	}
	out.Parameters = append(out.Parameters, swaggerParameters(o.Parameters)...)
	out.Responses = &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: map[int]spec.Response{}}}
	for code, r := range o.Responses.StatusCodeResponses {
		out.Responses.StatusCodeResponses[code] = spec.Response{ResponseProps: spec.ResponseProps{Description: r.Description, Schema: anySchema(r.Content)}}
		if len(r.Content) > len(out.Produces) {
			out.Produces = slices.Sorted(maps.Keys(r.Content))
		}
	}
	return out
}

// anySchema is the schema that all media types of a body have, with its reference as version 2 writes it.
func anySchema(content map[string]*spec3.MediaType) *spec.Schema {
	for _, media := range content {
		if media.Schema.Ref.String() == "" {
			return media.Schema
		}
		name := strings.TrimPrefix(media.Schema.Ref.String(), "#/components/schemas/")
		return spec.RefSchema("#/definitions/" + name)
	}
	return nil
}

func swaggerParameters(params []*spec3.Parameter) []spec.Parameter {
	var out []spec.Parameter
	for _, p := range params {
		v2 := spec.Parameter{ParamProps: spec.ParamProps{Name: p.Name, In: p.In, Description: p.Description, Required: p.Required}}
		v2.Type = p.Schema.Type[0]
		v2.UniqueItems = p.Schema.UniqueItems
		out = append(out, v2)
	}
	return out
}
