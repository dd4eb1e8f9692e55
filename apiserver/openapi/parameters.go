package openapi

import (
	"slices"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func parameter(in, name, typ, description string) *spec3.Parameter {
	return &spec3.Parameter{ParameterProps: spec3.ParameterProps{
		Name: name, In: in, Description: description, Required: in == "path",
		Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{typ}, UniqueItems: typ == "string" || in == "query"}},
	}}
}

func query(name, typ, description string) *spec3.Parameter {
	return parameter("query", name, typ, description)
}

var (
	pretty = query("pretty", "string", "Indent the output, when it is 'true'.")

	dryRun = query("dryRun", "string", "When it is 'All', everything is done except the change itself.")

	fieldManager = query("fieldManager", "string", "Who changes the fields: a name of at most 128 printable characters.")

	fieldValidation = query("fieldValidation", "string",
		"What becomes of unknown and duplicate fields: 'Ignore' drops them, 'Warn' drops them with a warning, 'Strict' fails the request.")

	// listParameters are the options of lists, watches and deletions of a collection.
	listParameters = []*spec3.Parameter{
		query("allowWatchBookmarks", "boolean", "Send events of type BOOKMARK now and then, which carry only a resource version."),
		query("continue", "string", "Where the next page of a list begins, as the page before said in its metadata."),
		query("fieldSelector", "string", "Selects objects by their fields."),
		query("labelSelector", "string", "Selects objects by their labels."),
		query("limit", "integer", "The most objects in one page of a list."),
		query("resourceVersion", "string", "Which state of the objects the request is about."),
		query("resourceVersionMatch", "string", "How resourceVersion applies to a list: NotOlderThan or Exact."),
		query("sendInitialEvents", "boolean", "Begin a watch with an ADDED event for each object that there is."),
		query("timeoutSeconds", "integer", "How long a list or a watch may take."),
		query("watch", "boolean", "Send changes as they happen instead of a list."),
	}

	// writeParameters are the options of creates, updates and patches.
	writeParameters  = []*spec3.Parameter{dryRun, fieldManager, fieldValidation}
	patchParameters  = append(slices.Clone(writeParameters), query("force", "boolean", "Take the fields that others own. Only for apply patches."))
	deleteParameters = []*spec3.Parameter{
		dryRun,
		query("gracePeriodSeconds", "integer", "How long the object may take to end by itself."),
		query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", "Delete an object that cannot be read from the store, too."),
		query("orphanDependents", "boolean", "Deprecated, use propagationPolicy."),
		query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
	}

	namespaceParameter = parameter("path", "namespace", "string", "The namespace of the objects.")
)
