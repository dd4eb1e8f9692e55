package write

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPatch(t *testing.T) {
	for _, c := range []struct{ name, contentType, sub, body, path, want string }{
		{"json", jsonPatch, "", `[{"op":"test","path":"/spec/restartPolicy","value":"Always"},{"op":"replace","path":"/spec/containers/0/image","value":"b"}]`,
			"spec.containers", `[{"image":"b","name":"c","resources":{}}]`},
		{"json add", jsonPatch, "", `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"copy","from":"/metadata/labels/a","path":"/metadata/labels/c"}]`,
			"metadata.labels", `{"a":"b","c":"b"}`},
		{"merge", mergePatch, "", `{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":null}}`,
			"metadata.labels", `{"a":"b"}`},
		{"merge replaces lists", mergePatch, "", `{"spec":{"containers":[{"name":"d"}]}}`,
			"spec.containers", `[{"name":"d","resources":{}}]`},
		{"strategic merges lists", strategicPatch, "", `{"spec":{"containers":[{"name":"d"}]}}`,
			"spec.containers", `[{"name":"d","resources":{}},{"image":"a","name":"c","resources":{}}]`},
		{"strategic deletes", strategicPatch, "", `{"spec":{"containers":[{"name":"d"},{"name":"c","$patch":"delete"}]}}`,
			"spec.containers", `[{"name":"d","resources":{}}]`},
		{"strategic replaces", strategicPatch, "", `{"spec":{"$patch":"replace","containers":[{"name":"e"}]}}`,
			"spec.containers", `[{"name":"e","resources":{}}]`},
		{"status takes nothing else", strategicPatch, "status", `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"d"}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`,
			"spec.containers", `[{"image":"a","name":"c","resources":{}}]`},
		{"main takes no status", mergePatch, "", `{"status":{"phase":"Running"}}`,
			"status", `{"phase":"Pending"}`},
		{"charset", mergePatch + "; charset=utf-8", "", `{"metadata":{"labels":{"a":"b"}}}`,
			"metadata.labels", `{"a":"b"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newWorld(t)
			h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
			result := h.must(h.patch("pods", "p", c.sub, "", c.contentType, c.body))
			got, rev := h.stored("pods", "p")
			if rev != result.Version.Revision() || result.Code != 200 {
				t.Errorf("code %d, revision %d, answered %d", result.Code, rev, result.Version.Revision())
			}
			have, err := json.Marshal(at(got, strings.Split(c.path, ".")...))
			if err != nil {
				t.Fatal(err)
			}
			if string(have) != c.want {
				t.Errorf("%s is %s, want %s", c.path, have, c.want)
			}
		})
	}
}

func TestPatch_Refused(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, `,"labels":{"a":"b"}`, "a"))
	many := "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"Pod"},`, 10000) + `{"op":"test","path":"/kind","value":"Pod"}]`
	const notFit = "the server rejected our request due to an error in our request"

	for _, c := range []struct {
		name, contentType, query, body string

		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{"no json", mergePatch, "", `{`, 400, metav1.StatusReasonBadRequest, "invalid JSON patch"},
		{"empty", strategicPatch, "", ``, 400, metav1.StatusReasonBadRequest, "invalid JSON patch"},
		{"media type", "application/json", "", `{}`, 415, metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"},
		{"no media type", "", "", `{}`, 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"merge patch no object", mergePatch, "", `[]`, 400, metav1.StatusReasonBadRequest,
			"error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"json patch no list", jsonPatch, "", `{}`, 400, metav1.StatusReasonBadRequest, ""},
		{"failed test", jsonPatch, "", `[{"op":"test","path":"/kind","value":"Foo"}]`, 422, metav1.StatusReasonInvalid, notFit},
		{"missing path", jsonPatch, "", `[{"op":"remove","path":"/spec/foo"}]`, 422, metav1.StatusReasonInvalid, notFit},
		{"bad operation", jsonPatch, "", `[{"op":"frob","path":"/spec"}]`, 422, metav1.StatusReasonInvalid, notFit},
		{"too many operations", jsonPatch, "", many, 413, metav1.StatusReasonRequestEntityTooLarge,
			"Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"wrong type", strategicPatch, "", `{"metadata":{"labels":{"a":1}}}`, 422, metav1.StatusReasonInvalid,
			` "" is invalid: patch: Invalid value: "map[metadata:map[labels:map[a:1]]]": cannot convert int64 to string`},
		{"wrong type in merge patch", mergePatch, "", `{"spec":{"containers":"x"}}`, 422, metav1.StatusReasonInvalid, ""},
		{"old version", mergePatch, "", `{"metadata":{"resourceVersion":"1"}}`, 409, metav1.StatusReasonConflict,
			`Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the latest version and try again`},
		{"other name", mergePatch, "", `{"metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest,
			"the name of the object (x) does not match the name on the URL (p)"},
		{"other namespace", mergePatch, "", `{"metadata":{"namespace":"x"}}`, 400, metav1.StatusReasonBadRequest,
			"the namespace of the provided object does not match the namespace sent on the request"},
		{"other kind", strategicPatch, "", `{"kind":"Foo"}`, 422, metav1.StatusReasonInvalid, ""},
		{"other version", mergePatch, "", `{"apiVersion":"v2"}`, 400, metav1.StatusReasonBadRequest,
			"the API version in the data (v2) does not match the expected API version (v1)"},
		{"uid", strategicPatch, "", `{"metadata":{"uid":"zz"}}`, 422, metav1.StatusReasonInvalid,
			`Pod "p" is invalid: metadata.uid: Invalid value: "zz": field is immutable`},
		{"force", mergePatch, "force=true", `{}`, 422, metav1.StatusReasonInvalid,
			`PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`},
		{"strict merge", mergePatch, "fieldValidation=Strict", `{"spec":{"foo":1}}`, 422, metav1.StatusReasonInvalid, ""},
		{"strict strategic", strategicPatch, "fieldValidation=Strict", `{"spec":{"foo":1}}`, 422, metav1.StatusReasonInvalid,
			` "" is invalid: patch: Invalid value: "map[spec:map[foo:1]]": strict decoding error: unknown field "spec.foo"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.patch("pods", "p", "", c.query, c.contentType, c.body)
			wantStatus(t, err, c.code, c.reason, c.message)
		})
	}
	_, err := h.patch("pods", "none", "", "", mergePatch, `{}`)
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `pods "none" not found`)
	if _, rev := h.stored("pods", "p"); rev == 0 {
		t.Error("the pod is gone")
	}
}

func TestPatch_Warnings(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	for contentType, body := range map[string]string{
		mergePatch:     `{"spec":{"foo":1}}`,
		strategicPatch: `{"spec":{"foo":1}}`,
		jsonPatch:      `[{"op":"add","path":"/spec/foo","value":1}]`,
	} {
		result := h.must(h.patch("pods", "p", "", "", contentType, body))
		if len(result.Warnings) != 1 || result.Warnings[0] != `unknown field "spec.foo"` {
			t.Errorf("%s: %q", contentType, result.Warnings)
		}
	}
	result := h.must(h.patch("pods", "p", "", "", jsonPatch, `[{"op":"test","path":"/kind","value":"Pod","x":1}]`))
	if len(result.Warnings) != 1 || result.Warnings[0] != `json patch unknown field "[0].x"` {
		t.Errorf("%q", result.Warnings)
	}
}

func TestPatch_NothingChanges(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	result := h.must(h.patch("pods", "p", "", "", mergePatch, `{"spec":{"restartPolicy":"Always"}}`))
	if result.Version.Revision() != v.Revision() {
		t.Errorf("revision %d, before %d", result.Version.Revision(), v.Revision())
	}
}

func TestPatch_StaleCache(t *testing.T) {
	h := newWorld(t)
	old := h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	h.must(h.patch("pods", "p", "", "", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`))
	h.lag(old)
	// A test of the patch fails in the cached state, but holds in the current one.
	h.must(h.patch("pods", "p", "", "", jsonPatch, `[{"op":"test","path":"/metadata/labels/a","value":"b"},{"op":"add","path":"/metadata/labels/c","value":"d"}]`))
	got, _ := h.stored("pods", "p")
	if at(got, "metadata", "labels", "a") != "b" || at(got, "metadata", "labels", "c") != "d" {
		t.Errorf("got %v", got)
	}
}

func TestPatch_Binds(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	h.denied = Access{Verb: "create", Subresource: "binding"}
	h.denied.Resource.Resource = "pods"
	_, err := h.patch("pods", "p", "", "", mergePatch, `{"spec":{"nodeName":"n"}}`)
	wantStatus(t, err, 403, metav1.StatusReasonForbidden, "")

	h.denied = Access{}
	result := h.must(h.patch("pods", "p", "", "", strategicPatch, `{"metadata":{"labels":{"x":"y"}},"spec":{"nodeName":"n"}}`))
	got := fieldsOf(t, result.Version)
	if at(got, "spec", "nodeName") != "n" || at(got, "metadata", "labels", "x") != "y" || at(got, "metadata", "generation") != 1.0 {
		t.Errorf("got %v", got)
	}
	_, err = h.patch("pods", "p", "", "", mergePatch, `{"spec":{"nodeName":"other"}}`)
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, `Pod "p" is invalid: spec.nodeName: Forbidden: cannot change`)
}
