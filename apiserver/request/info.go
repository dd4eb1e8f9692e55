package request

import (
	"fmt"
	"net/http"
	"strings"
)

// Info is what a path and a method say. The zero value is the request of the non-resource path "".
type Info struct {
	// Path is the URL's path as it came.
	Path string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection for a resource (also in
	// authorization and metrics), and the lower-case method for any other path.
	Verb string
	// Resource is empty for non-resource paths (/healthz, /apis, /api/v1).
	Group, Version, Resource, Subresource string
	// Namespace is empty for cluster-scoped resources and for requests across all namespaces. For a namespace
	// itself it is the namespace's name, as upstream's authorizers expect.
	Namespace, Name string
	// InNamespace says that the path is below /namespaces/NAMESPACE/, other than the path of the namespace itself.
	InNamespace bool
	// Rest is the path behind the subresource, with its leading slash: what pods/x/proxy/... is asked for.
	Rest string
	// Legacy says that the path has the old form /api/v1/watch/...
	Legacy bool
}

// IsResource says that the request is for an API resource.
func (i *Info) IsResource() bool { return i.Resource != "" }

// Scope is the request's scope as metrics label it: resource (one object), namespace, cluster, or "" for
// non-resource paths.
func (i *Info) Scope() string {
	switch {
	case i.Resource == "":
		return ""
	case i.Name != "" || i.Verb == "create":
		return "resource"
	case i.Namespace != "":
		return "namespace"
	default:
		return "cluster"
	}
}

// ParsePath says what method on path asks for. A GET of a collection is verb list; that it is a watch, or one for a
// single name, only the query can say: see [Info.ApplyList]. The only error is a legacy watch path without a resource.
func ParsePath(method, path string) (Info, error) {
	info := Info{Path: path}
	rest := strings.TrimPrefix(path, "/")
	var prefix string
	prefix, rest = cut(rest)
	if prefix != "api" && prefix != "apis" {
		info.Verb = nonResourceVerb(method)
		return info, nil
	}
	if prefix == "apis" {
		info.Group, rest = cut(rest)
	}
	var version string
	version, rest = cut(rest)
	if version == "" || rest == "" {
		info.Group = ""
		info.Verb = nonResourceVerb(method)
		return info, nil
	}
	info.Version = version

	first, after := cut(rest)
	if first == "watch" {
		if after == "" {
			return info, fmt.Errorf("unable to determine kind and namespace from url, %s", path)
		}
		info.Legacy, rest = true, after
		first, after = cut(rest)
	} else if first == "proxy" && after != "" {
		// The ancient form /api/v1/proxy/...; the resource is named but nothing serves it.
		rest = after
		first, after = cut(rest)
	}

	if first == "namespaces" && after != "" {
		ns, below := cut(after)
		info.Namespace = ns
		if sub, _ := cut(below); sub != "" && sub != "status" && sub != "finalize" {
			rest, info.InNamespace = below, true
		}
	}

	info.Resource, rest = cut(rest)
	info.Name, rest = cut(rest)
	if !info.Legacy {
		info.Subresource, rest = cutKeep(rest)
		info.Rest = rest
	}
	info.Verb = resourceVerb(method, info.Name != "", info.Legacy)
	return info, nil
}

// ApplyList completes a request for a collection with its query: the verb becomes watch when the query says so, and a
// field selector that names one object sets the name, so that authorization sees it.
func (i *Info) ApplyList(o *ListOptions) {
	if i.Verb != "list" {
		return
	}
	if o.Watch {
		i.Verb = "watch"
	}
	if o.FieldSelector != nil {
		if name, ok := o.FieldSelector.RequiresExactMatch("metadata.name"); ok && validSegment(name) {
			i.Name = name
		}
	}
}

// cut splits s at its first slash and drops further slashes that follow directly.
func cut(s string) (head, tail string) {
	head, tail, _ = strings.Cut(s, "/")
	return head, strings.TrimLeft(tail, "/")
}

// cutKeep splits s before its first slash.
func cutKeep(s string) (head, tail string) {
	if n := strings.IndexByte(s, '/'); n >= 0 {
		return s[:n], s[n:]
	}
	return s, ""
}

func validSegment(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

func resourceVerb(method string, named, legacy bool) string {
	if legacy {
		return "watch"
	}
	switch method {
	case http.MethodGet, http.MethodHead:
		if named {
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	default:
		return ""
	}
}

func nonResourceVerb(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodHead:
		return "head"
	case http.MethodPost:
		return "post"
	default:
		return strings.ToLower(method)
	}
}
