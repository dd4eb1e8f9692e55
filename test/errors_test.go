package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// answer is what a plain HTTP client sees.
type answer struct {
	code   int
	header http.Header
	body   string
	status metav1.Status // when the body is one
}

// requester returns what sends a request as the administrator, with the body's content type first among the header's lines.
func (p *cluster) requester() func(method, path, contentType, body string) answer {
	config := p.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		p.T.Fatal(err)
	}
	return func(method, path, contentType, body string) answer {
		p.T.Helper()
		r, err := http.NewRequestWithContext(context.Background(), method, config.Host+path, strings.NewReader(body))
		if err != nil {
			p.T.Fatal(err)
		}
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		got, err := client.Do(r)
		if err != nil {
			p.T.Fatalf("%s %s: %v", method, path, err)
		}
		defer got.Body.Close()
		data, err := io.ReadAll(got.Body)
		if err != nil {
			p.T.Fatal(err)
		}
		a := answer{code: got.StatusCode, header: got.Header, body: string(data)}
		if json.Unmarshal(data, &a.status) != nil || a.status.Kind != "Status" {
			a.status = metav1.Status{}
		}
		return a
	}
}

const (
	asJSON     = "application/json"
	asYAML     = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	strategic  = "application/strategic-merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// Whatever is wrong with a request, code, reason and text are what clients know from kube-apiserver.
func TestErrors(t *testing.T) {
	p := startCluster(t)
	send := p.requester()
	const (
		maps    = "/api/v1/namespaces/default/configmaps"
		pods    = "/api/v1/namespaces/default/pods"
		leases  = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
		deploys = "/apis/apps/v1/namespaces/default/deployments"
	)
	for _, body := range []string{`{"metadata":{"name":"c"},"data":{"a":"b"}}`, `{"metadata":{"name":"d"}}`} {
		if a := send("POST", maps, asJSON, body); a.code != 201 {
			t.Fatal(a.body)
		}
	}
	if a := send("POST", leases, asJSON, `{"metadata":{"name":"l"}}`); a.code != 201 {
		t.Fatal(a.body)
	}
	big := strings.Repeat("a", 3<<20+1)
	deep := `{"metadata":{"name":"deep"},"data":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}"
	operations := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10001), ",") + "]"

	for _, c := range []struct {
		method, path, contentType, body string
		code                            int
		reason                          metav1.StatusReason
		message                         string // a part of it; "=" before it: all of it
	}{
		// Bodies.
		{"POST", maps, asJSON, `{"a":`, 400, "BadRequest", `=the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({"a":)`},
		{"POST", maps, asJSON, `hello, this is more than 30 bytes`, 400, "BadRequest", `looking for beginning of value (68656c6c6f2c2074686973206973206d6f7265207468616e203330206279 ...)`},
		{"POST", maps, asJSON, ``, 400, "BadRequest", `unexpected end of JSON input (<empty>)`},
		{"POST", maps, asYAML, "a: b: c", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap): yaml:"},
		{"POST", maps, asProtobuf, "{}", 400, "BadRequest", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"},
		{"POST", maps, asProtobuf, "k8s\x00\xff\xff", 400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap)"},
		{"POST", pods, asJSON, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":7}}`, 400, "BadRequest", `=Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string`},
		{"POST", pods, asJSON, `{"kind":"Foo","apiVersion":"v1"}`, 400, "BadRequest", `Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for version "v1" in scheme`},
		{"POST", pods, asJSON, `{"kind":"ConfigMap","apiVersion":"v1"}`, 400, "BadRequest", `ConfigMap in version "v1" cannot be handled as a Pod`},
		{"POST", deploys, asJSON, `{"kind":"Deployment","apiVersion":"apps/v1beta1"}`, 400, "BadRequest", "=the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)"},
		{"POST", maps, "text/plain", `{}`, 415, "UnsupportedMediaType", "=the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"POST", maps, asJSON, big, 413, "RequestEntityTooLarge", "=Request entity too large: limit is 3145728"},
		{"PATCH", maps + "/c", mergePatch, big, 413, "RequestEntityTooLarge", "=Request entity too large: limit is 3145728"},
		{"DELETE", maps + "/c", asJSON, big, 413, "RequestEntityTooLarge", "=Request entity too large: limit is 3145728"},
		{"POST", maps, asJSON, deep, 400, "BadRequest", "exceeded max depth"},
		{"POST", maps, asYAML, deep, 400, "BadRequest", "exceeded max depth"},
		{"PATCH", maps + "/c", mergePatch, deep, 400, "BadRequest", ""},
		{"PATCH", maps + "/c?fieldManager=x", applyPatch, deep, 400, "BadRequest", "exceeded max depth"},
		{"POST", maps + "?fieldValidation=Strict", asJSON, `{"metadata":{"name":"x","zz":1},"data":{"a":"b","a":"c"},"xx":1}`, 400, "BadRequest",
			`=ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "metadata.zz", duplicate field "data.a", unknown field "xx"`},

		// Options.
		{"POST", maps + "?fieldValidation=Foo", asJSON, `{"metadata":{"name":"x"}}`, 422, "Invalid", `=CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"`},
		{"POST", maps + "?dryRun=Foo", asJSON, `{"metadata":{"name":"x"}}`, 422, "Invalid", `=CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Foo"]: supported values: "All"`},
		{"PUT", maps + "/c?fieldManager=" + strings.Repeat("a", 129), asJSON, `{"metadata":{"name":"c"}}`, 422, "Invalid", "fieldManager: Too long: may not be more than 128 bytes"},
		{"PATCH", maps + "/c?force=true", mergePatch, `{}`, 422, "Invalid", "force: Forbidden: may not be specified for non-apply patch"},
		{"PATCH", maps + "/c", applyPatch, `{}`, 422, "Invalid", "fieldManager: Required value: is required for apply patch"},
		{"GET", maps + "?timeout=abc", "", "", 400, "BadRequest", `invalid timeout specified in the request URL - time: invalid duration "abc"`},
		{"GET", maps + "?limit=abc", "", "", 400, "BadRequest", "invalid syntax"},
		{"GET", maps + "?resourceVersion=abc", "", "", 400, "BadRequest", `Invalid value: "abc"`},
		{"GET", maps + "?continue=abc", "", "", 400, "BadRequest", "continue key is not valid"},

		// Names, labels and metadata.
		{"POST", maps, asJSON, `{"metadata":{}}`, 422, "Invalid", `=ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"POST", maps, asJSON, `{"metadata":{"name":"A_b"}}`, 422, "Invalid", `ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of`},
		{"POST", maps, asJSON, `{"metadata":{"name":"x","labels":{"a/b/c":"d","e":"-"}}}`, 422, "Invalid", `metadata.labels: Invalid value: "a/b/c": a valid label key must consist of`},
		{"POST", maps, asJSON, `{"metadata":{"name":"x","ownerReferences":[{"kind":"a"}]}}`, 422, "Invalid", "metadata.ownerReferences[0].uid: Required value"},
		{"POST", maps, asJSON, `{"metadata":{"name":"x","namespace":"y"}}`, 400, "BadRequest", "=the namespace of the provided object does not match the namespace sent on the request"},
		{"POST", maps, asJSON, `{"metadata":{"name":"c"}}`, 409, "AlreadyExists", `=configmaps "c" already exists`},
		{"POST", "/api/v1/namespaces/nowhere/configmaps", asJSON, `{"metadata":{"name":"x"}}`, 404, "NotFound", `=namespaces "nowhere" not found`},
		{"PUT", maps + "/c", asJSON, `{"metadata":{"name":"z"}}`, 400, "BadRequest", "=the name of the object (z) does not match the name on the URL (c)"},
		{"PUT", maps + "/c", asJSON, `{"metadata":{"name":"c","resourceVersion":"1"}}`, 409, "Conflict", `=Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`},
		{"PUT", maps + "/c", asJSON, `{"metadata":{"name":"c","uid":"1"}}`, 409, "Conflict", `Operation cannot be fulfilled on configmaps "c": Precondition failed: UID in precondition: 1, UID in object meta: `},
		{"PUT", maps + "/nope", asJSON, `{"metadata":{"name":"nope"}}`, 404, "NotFound", `=configmaps "nope" not found`},
		{"PUT", leases + "/l", asJSON, `{"metadata":{"name":"l"}}`, 422, "Invalid", "metadata.resourceVersion: Invalid value: 0: must be specified for an update"},

		// Patches.
		{"PATCH", maps + "/c", jsonPatch, `{"a":1}`, 400, "BadRequest", "error decoding patch: json: cannot unmarshal object into Go value of type"},
		{"PATCH", maps + "/c", jsonPatch, `[{]`, 400, "BadRequest", "=invalid JSON patch"},
		{"PATCH", maps + "/c", jsonPatch, `[{"op":"test","path":"/data/a","value":"z"}]`, 422, "Invalid", "=the server rejected our request due to an error in our request"},
		{"PATCH", maps + "/c", jsonPatch, `[{"op":"remove","path":"/data/z"}]`, 422, "Invalid", "=the server rejected our request due to an error in our request"},
		{"PATCH", maps + "/c", jsonPatch, `[{"op":"foo","path":"/data/z"}]`, 422, "Invalid", "=the server rejected our request due to an error in our request"},
		{"PATCH", maps + "/c", jsonPatch, operations, 413, "RequestEntityTooLarge", "=Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"PATCH", maps + "/c", jsonPatch, `[{"op":"replace","path":"/metadata/name","value":"z"}]`, 400, "BadRequest", "=the name of the object (z) does not match the name on the URL (c)"},
		{"PATCH", maps + "/c", mergePatch, `[1]`, 400, "BadRequest", "=error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"PATCH", maps + "/c", mergePatch, `{"metadata":{"resourceVersion":"1"}}`, 409, "Conflict", "the object has been modified"},
		{"PATCH", maps + "/c", mergePatch, `{"metadata":{"uid":"1"}}`, 422, "Invalid", `=ConfigMap "c" is invalid: metadata.uid: Invalid value: "1": field is immutable`},
		{"PATCH", maps + "/c", strategic, `{"data":{"a":7}}`, 422, "Invalid", `= "" is invalid: patch: Invalid value: "map[data:map[a:7]]": cannot convert int64 to string`},
		{"PATCH", maps + "/c", strategic, `{"$patch":"foo"}`, 400, "BadRequest", "=unknown patch type: foo in map: map[$patch:foo]"},
		{"PATCH", maps + "/c", asJSON, `{}`, 415, "UnsupportedMediaType",
			"=the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"},
		{"PATCH", maps + "/nope", mergePatch, `{}`, 404, "NotFound", `=configmaps "nope" not found`},
		{"PATCH", maps + "/c?fieldManager=m", applyPatch, "a: b: c", 400, "BadRequest", "error decoding YAML: yaml:"},
		{"PATCH", maps + "/c?fieldManager=m", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z"}}`, 400, "BadRequest", "=the name of the object (z) does not match the name on the URL (c)"},
		{"PATCH", maps + "/new?fieldManager=m", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","uid":"1"}}`, 409, "Conflict", "uid mismatch: the provided object specified uid 1, and no existing object was found"},
		{"PATCH", maps + "/c?fieldManager=m", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"x":true}}}`, 500, "", ".metadata.labels.x: expected string, got &value.valueUnstructured{Value:true}"},
		{"PATCH", maps + "/c?fieldManager=m&fieldValidation=Strict", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b","a":"c"}}`, 400, "BadRequest", `key "a" already set in map`},

		// Deletes.
		{"DELETE", maps + "/c", asJSON, `{"orphanDependents":true,"propagationPolicy":"Orphan"}`, 422, "Invalid", "orphanDependents and deletionPropagation cannot be both set"},
		{"DELETE", maps + "/c?propagationPolicy=Foo", "", "", 422, "Invalid", `propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil"`},
		{"DELETE", maps + "/c", asJSON, `{"preconditions":{"uid":"zz"}}`, 409, "Conflict", `Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition (zz) does not match the UID in record (`},
		{"DELETE", maps + "/c", asJSON, `{"preconditions":{"resourceVersion":"1"}}`, 409, "Conflict", "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ("},
		{"DELETE", maps + "/c", asJSON, `{`, 400, "BadRequest", ""},
		{"DELETE", maps + "/c?gracePeriodSeconds=x", "", "", 400, "BadRequest", "invalid syntax"},
		{"DELETE", maps + "?labelSelector=(", "", "", 400, "BadRequest", "found '('"},
		{"DELETE", "/api/v1/configmaps", "", "", 405, "MethodNotAllowed", "=the server does not allow this method on the requested resource"},
		{"DELETE", "/api/v1/namespaces", "", "", 405, "MethodNotAllowed", "=the server does not allow this method on the requested resource"},

		// Selectors, paths and methods.
		{"GET", pods + "?labelSelector=a%20in%20(", "", "", 400, "BadRequest", "=unable to parse requirement: found '', expected: ',', ')' or identifier"},
		{"GET", pods + "?labelSelector=a%2Fb%2Fc%3Dd", "", "", 400, "BadRequest", `Invalid value: "a/b/c": a valid label key must consist of`},
		{"GET", pods + "?fieldSelector=spec.color%3Dx", "", "", 400, "BadRequest", "field label not supported: spec.color"},
		{"GET", pods + "?fieldSelector=abc", "", "", 400, "BadRequest", "=invalid selector: 'abc'; can't understand 'abc'"},
		{"GET", "/api/v1/namespaces/default/bindings", "", "", 405, "MethodNotAllowed", "=the server does not allow this method on the requested resource"},
		{"GET", maps + "/nope", "", "", 404, "NotFound", `=configmaps "nope" not found`},
		{"GET", "/apis/apps/v1/namespaces/default/deployments/nope", "", "", 404, "NotFound", `=deployments.apps "nope" not found`},
		{"GET", "/api/v1/namespaces/default/foos", "", "", 404, "NotFound", "=the server could not find the requested resource"},
		{"GET", "/apis/example.com/v1/foos", "", "", 404, "", ""},
		{"GET", maps + "/c/status", "", "", 404, "NotFound", "=the server could not find the requested resource"},
	} {
		a := send(c.method, c.path, c.contentType, c.body)
		body := c.body
		if len(body) > 60 {
			body = body[:60] + " ..."
		}
		name := fmt.Sprintf("%s %s %s", c.method, c.path, body)
		if a.code != c.code || a.status.Reason != c.reason || (a.status.Code != 0 && int(a.status.Code) != a.code) {
			t.Errorf("%s: got %d %q, want %d %q: %.300s", name, a.code, a.status.Reason, c.code, c.reason, a.body)
			continue
		}
		if whole, ok := strings.CutPrefix(c.message, "="); ok && a.status.Message != whole {
			t.Errorf("%s:\ngot  %.500s\nwant %s", name, a.status.Message, whole)
		} else if !ok && !strings.Contains(a.status.Message, c.message) {
			t.Errorf("%s:\ngot  %.500s\nwant %s", name, a.status.Message, c.message)
		}
	}
	if a := send("GET", maps+"/c", "", ""); a.code != 200 || !strings.Contains(a.body, `"a":"b"`) {
		t.Errorf("something of all that changed the object: %s", a.body)
	}
}

// Unknown and duplicate fields are warned of, once each, and dropped in silence when that is asked for.
func TestFieldValidation(t *testing.T) {
	p := startCluster(t)
	send := p.requester()
	const maps = "/api/v1/namespaces/default/configmaps"
	const body = `{"metadata":{"name":"%s","zz":1},"data":{"a":"b","a":"c"},"xx":1}`
	want := []string{`299 - "unknown field \"metadata.zz\""`, `299 - "duplicate field \"data.a\""`, `299 - "unknown field \"xx\""`}
	for query, warnings := range map[string][]string{"": want, "?fieldValidation=Warn": want, "?fieldValidation=Ignore": nil} {
		name := strings.ToLower("a" + strings.TrimPrefix(query, "?fieldValidation="))
		a := send("POST", maps+query, asJSON, fmt.Sprintf(body, name))
		if got := a.header.Values("Warning"); a.code != 201 || fmt.Sprint(got) != fmt.Sprint(warnings) {
			t.Errorf("%s: %d, warnings %q", query, a.code, got)
		}
	}
	a := send("POST", maps, asYAML, "metadata: {name: dup}\ndata:\n  a: b\n  a: c\nxx: 1\n")
	if got := strings.Join(a.header.Values("Warning"), "\n"); a.code != 201 || !strings.Contains(got, `key \"a\" already set in map`) || !strings.Contains(got, `unknown field \"xx\"`) {
		t.Errorf("YAML: %d, warnings %q", a.code, got)
	}
	// A budget of 4096 characters holds for all warnings together.
	var fields strings.Builder
	for i := range 200 {
		fmt.Fprintf(&fields, `"%s%03d":1,`, strings.Repeat("x", 300), i)
	}
	a = send("POST", maps, asJSON, `{`+fields.String()+`"metadata":{"name":"many"}}`)
	total := 0
	for _, w := range a.header.Values("Warning") {
		total += len(w)
	}
	if a.code != 201 || total == 0 || total > 4096+20*len(`299 - ""\"\"`) {
		t.Errorf("%d: %d warnings of %d characters", a.code, len(a.header.Values("Warning")), total)
	}
}
