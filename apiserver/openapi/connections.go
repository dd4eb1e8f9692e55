package openapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"vigil/kinds"
)

// streamParameters are what exec and attach may ask for.
var streamParameters = []*spec3.Parameter{
	query("container", "string", "Which container of the pod; it may be left out when there is one."),
	query("stderr", "boolean", "Whether there is a stream of the container's standard error."),
	query("stdin", "boolean", "Whether there is a stream to the container's standard input."),
	query("stdout", "boolean", "Whether there is a stream of the container's standard output."),
	query("tty", "boolean", "Whether the container's streams are a terminal."),
}

// connectionParameters are the options of connections, by their kind; those of a log go by the kind that a log is of.
var connectionParameters = map[string][]*spec3.Parameter{
	"PodAttachOptions":      streamParameters,
	"PodExecOptions":        append([]*spec3.Parameter{query("command", "string", "The command and, one by one, its arguments.")}, streamParameters...),
	"PodPortForwardOptions": {query("ports", "integer", "The ports to forward, which WebSockets have to name beforehand.")},
	"PodProxyOptions":       {proxyPath},
	"ServiceProxyOptions":   {proxyPath},
	"NodeProxyOptions":      {proxyPath},
	"Pod": {
		query("container", "string", "Which container of the pod; it may be left out when there is one."),
		query("follow", "boolean", "Go on with what is printed until the container ends."),
		query("insecureSkipTLSVerifyBackend", "boolean", "Do not check the kubelet's serving certificate."),
		query("limitBytes", "integer", "At most so many bytes."),
		query("previous", "boolean", "Of the container before the last restart."),
		query("sinceSeconds", "integer", "Nothing older than so many seconds."),
		query("stream", "string", "All, Stdout or Stderr."),
		query("tailLines", "integer", "The last so many lines."),
		query("timestamps", "boolean", "Put the time before each line."),
	},
}

var proxyPath = query("path", "string", "The path that is asked for.")

// addConnections adds the subresources through which bytes flow.
func (d *document) addConnections(k *kinds.Kind, base, scope string, shared []*spec3.Parameter) {
	for _, name := range slices.Sorted(maps.Keys(k.Connections)) {
		c := k.Connections[name]
		at, options := base+"/{name}/"+name, d.gv.WithKind(c.Kind)
		if c.Kind == k.GVK.Kind { // a log is read
			o := respondText(withQuery(d.operation("get", "read"+d.camel+scope+k.GVK.Kind+title(name), k.GVK), connectionParameters[c.Kind]), "text/plain")
			d.doc.Paths.Paths[at] = &spec3.Path{PathProps: spec3.PathProps{Get: o, Parameters: shared}}
			continue
		}
		id := scope + k.GVK.Kind + title(name)
		d.doc.Paths.Paths[at] = d.connection(c, id, options, shared)
		if slices.Contains(c.Verbs, "update") {
			rest := parameter("path", "path", "string", "The path that is asked for.")
			d.doc.Paths.Paths[at+"/{path}"] = d.connection(c, id+"WithPath", options, append(slices.Clone(shared), rest))
		}
	}
}

func (d *document) connection(c kinds.Connection, id string, options schema.GroupVersionKind, shared []*spec3.Parameter) *spec3.Path {
	op := func(method string) *spec3.Operation {
		return respondText(withQuery(d.operation("connect", "connect"+d.camel+method+id, options), connectionParameters[c.Kind]), "*/*")
	}
	path := &spec3.Path{PathProps: spec3.PathProps{Get: op("Get"), Post: op("Post"), Parameters: shared}}
	if slices.Contains(c.Verbs, "update") {
		path.Put, path.Patch, path.Delete, path.Options, path.Head = op("Put"), op("Patch"), op("Delete"), op("Options"), op("Head")
	}
	return path
}

// respondText is respondWith for an answer that is no object.
func respondText(o *spec3.Operation, mediaType string) *spec3.Operation {
	o.Responses = &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: map[int]*spec3.Response{
		200: {ResponseProps: spec3.ResponseProps{Description: "OK", Content: map[string]*spec3.MediaType{
			mediaType: {MediaTypeProps: spec3.MediaTypeProps{Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}}}}},
		}}},
		401: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}},
	}}}
	return o
}
