// Package negotiate decides in which form a response is written: it reads the Accept header (RFC 9110: quality first,
// then the more specific, then the order of the clauses) with the parameters Kubernetes knows (as, g, v, stream,
// pretty) against what the endpoint can produce, and the Content-Type of request bodies.
//
// Parsing allocates nothing, so it is done for every request and nothing is cached.
package negotiate

import (
	"strconv"
	"strings"
)

// Format is an encoding of objects.
type Format uint8

// The encodings of the API.
const (
	JSON Format = iota
	YAML
	Protobuf
)

// MediaType is the name of the format in Content-Type headers.
func (f Format) MediaType() string {
	switch f {
	case YAML:
		return "application/yaml"
	case Protobuf:
		return "application/vnd.kubernetes.protobuf"
	default:
		return "application/json"
	}
}

// View is a transformation of the object before it is written.
type View uint8

// The views a client may ask for with the as parameter.
const (
	AsIs         View = iota
	Table             // as=Table, g=meta.k8s.io, v=v1 or v1beta1
	Metadata          // as=PartialObjectMetadata
	MetadataList      // as=PartialObjectMetadataList
	Discovery         // as=APIGroupDiscoveryList, g=apidiscovery.k8s.io, v=v2
)

// Endpoint is what a resource can be asked for.
type Endpoint struct {
	NoProtobuf bool // custom resources: protobuf only for metadata views
	Views      bool // tables and metadata views can be made
	Watch      bool // frames instead of a body: no YAML
	Discovery  bool // the aggregated discovery document
}

// Result is the clause that was chosen.
type Result struct {
	Format Format
	View   View
	Beta   bool // of a view: asked for as v1beta1
	Pretty bool // the clause says pretty=1
}

// ContentType is the value of the response header for everything but watches.
func (r Result) ContentType() string { return r.Format.MediaType() }

// Accept returns the best clause of header that e can produce; ok is false when there is none (406). An empty header
// asks for JSON.
func Accept(header string, e Endpoint) (res Result, ok bool) {
	if header == "" {
		return Result{}, true
	}
	bestQ, bestSpecific := -1.0, -1
	for clause := range splitQuoted(header, ',') {
		mediaType, params, _ := strings.Cut(clause, ";")
		format, specific, known := match(strings.TrimSpace(mediaType), e)
		if !known {
			continue
		}
		r, q, acceptable := parameters(format, params, e)
		if !acceptable || q <= 0 {
			continue
		}
		if q > bestQ || (q == bestQ && specific > bestSpecific) {
			res, bestQ, bestSpecific, ok = r, q, specific, true
		}
	}
	return res, ok
}

// match returns the format of a media range and how specific it is: 2 for a type, 1 for application/*, 0 for */*.
func match(mediaType string, e Endpoint) (f Format, specific int, ok bool) {
	switch {
	case strings.EqualFold(mediaType, "application/json"):
		return JSON, 2, true
	case strings.EqualFold(mediaType, "application/vnd.kubernetes.protobuf"):
		return Protobuf, 2, true
	case strings.EqualFold(mediaType, "application/yaml"):
		return YAML, 2, !e.Watch
	case mediaType == "*/*":
		return JSON, 0, true
	case strings.EqualFold(mediaType, "application/*"):
		return JSON, 1, true
	}
	return 0, 0, false
}

// parameters reads the parameters of one clause and says whether e can serve it.
func parameters(f Format, params string, e Endpoint) (r Result, q float64, ok bool) {
	r.Format, q = f, 1
	var as, group, version string
	for p := range splitQuoted(params, ';') {
		name, value, _ := strings.Cut(p, "=")
		name, value = strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), `"`)
		switch {
		case name == "q":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				n = 1
			}
			q = n
		case name == "as":
			as = value
		case name == "g":
			group = value
		case name == "v":
			version = value
		case name == "stream":
			if value != "" && (value != "watch" || !e.Watch) {
				return r, 0, false
			}
		case name == "pretty":
			r.Pretty = value == "1"
		case name == "sv":
			if value != "" {
				return r, 0, false
			}
		}
	}
	if as == "" && group == "" && version == "" {
		return r, q, f != Protobuf || !e.NoProtobuf
	}
	switch {
	case e.Discovery && as == "APIGroupDiscoveryList" && group == "apidiscovery.k8s.io" && version == "v2":
		r.View = Discovery
	case !e.Views || group != "meta.k8s.io" || (version != "v1" && version != "v1beta1"):
		return r, 0, false
	case as == "Table" && f != Protobuf:
		r.View = Table
	case as == "PartialObjectMetadata":
		r.View = Metadata
	case as == "PartialObjectMetadataList":
		r.View = MetadataList
	default:
		return r, 0, false
	}
	r.Beta = version == "v1beta1"
	return r, q, true
}

// splitQuoted yields the parts of s between separators that stand outside quotation marks; empty parts are left out.
func splitQuoted(s string, sep byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		quoted, start := false, 0
		for i := 0; i <= len(s); i++ {
			switch {
			case i < len(s) && s[i] == '"':
				quoted = !quoted
			case i == len(s) || (s[i] == sep && !quoted):
				if part := strings.TrimSpace(s[start:i]); part != "" && !yield(part) {
					return
				}
				start = i + 1
			}
		}
	}
}

// NotAcceptable is the text of a 406 for e: the media types that it has.
func NotAcceptable(e Endpoint) string {
	var types string
	switch {
	case e.Watch && e.NoProtobuf:
		types = "application/json;stream=watch"
	case e.Watch:
		types = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	case e.NoProtobuf:
		types = "application/json, application/yaml"
	default:
		types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	}
	return "only the following media types are accepted: " + types
}
