package write

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const podBody = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"%s},"spec":{"containers":[{"name":"c","image":"%s"}]}}`

func TestUpdate(t *testing.T) {
	h := newWorld(t)
	created := h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	before := fieldsOf(t, created)

	result := h.must(h.update("pods", "p", "", "", fmt.Sprintf(podBody, `,"labels":{"x":"y"},"generation":9,"creationTimestamp":"2001-01-01T00:00:00Z"`, "b")))
	if result.Code != http.StatusOK {
		t.Errorf("code %d", result.Code)
	}
	got, rev := h.stored("pods", "p")
	if rev != result.Version.Revision() || rev <= created.Revision() {
		t.Errorf("revision %d, answered %d, before %d", rev, result.Version.Revision(), created.Revision())
	}
	for _, path := range []string{"uid", "creationTimestamp"} {
		if at(got, "metadata", path) != at(before, "metadata", path) {
			t.Errorf("%s changed", path)
		}
	}
	if g := at(got, "metadata", "generation"); g != 2.0 {
		t.Errorf("generation %v after a change of the spec", g)
	}
	if phase := at(got, "status", "phase"); phase != "Pending" {
		t.Errorf("phase %v", phase)
	}
	// Labels do not count as a generation.
	h.must(h.update("pods", "p", "", "", fmt.Sprintf(podBody, `,"labels":{"x":"z"}`, "b")))
	got, rev = h.stored("pods", "p")
	if g := at(got, "metadata", "generation"); g != 2.0 {
		t.Errorf("generation %v after a change of labels", g)
	}
	// The same again changes nothing.
	same := h.must(h.update("pods", "p", "", "", fmt.Sprintf(podBody, `,"labels":{"x":"z"}`, "b")))
	if _, after := h.stored("pods", "p"); after != rev || same.Version.Revision() != rev {
		t.Errorf("revision %d, answered %d, before %d", after, same.Version.Revision(), rev)
	}
	// Not even when it says what it means.
	same = h.must(h.update("pods", "p", "", "", fmt.Sprintf(podBody, fmt.Sprintf(`,"labels":{"x":"z"},"resourceVersion":"%d"`, rev), "b")))
	if same.Version.Revision() != rev {
		t.Errorf("revision %d, before %d", same.Version.Revision(), rev)
	}
}

func TestUpdate_Refused(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	h.mustCreate("leases", `{"metadata":{"name":"l"}}`)
	h.mustCreate("configmaps", `{"metadata":{"name":"going","finalizers":["example.com/x"]}}`)
	h.must(h.delete("configmaps", "going", "", ""))
	const modifiedText = "the object has been modified; please apply your changes to the latest version and try again"

	for _, c := range []struct {
		name, resource, object, query, body string

		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{name: "missing", object: "none", body: `{"metadata":{"name":"none"}}`,
			code: 404, reason: metav1.StatusReasonNotFound, message: `configmaps "none" not found`},
		{name: "other name", object: "c", body: `{"metadata":{"name":"zzz"}}`,
			code: 400, reason: metav1.StatusReasonBadRequest, message: "the name of the object (zzz) does not match the name on the URL (c)"},
		{name: "no name", object: "c", body: `{}`,
			code: 400, reason: metav1.StatusReasonBadRequest, message: "the name of the object (c based on URL) was undeterminable: name must be provided"},
		{name: "other namespace", object: "c", body: `{"metadata":{"name":"c","namespace":"n"}}`,
			code: 400, reason: metav1.StatusReasonBadRequest, message: "the namespace of the provided object does not match the namespace sent on the request"},
		{name: "old version", object: "c", body: `{"metadata":{"name":"c","resourceVersion":"1"}}`,
			code: 409, reason: metav1.StatusReasonConflict, message: `Operation cannot be fulfilled on configmaps "c": ` + modifiedText},
		{name: "future version", object: "c", body: `{"metadata":{"name":"c","resourceVersion":"99999999"}}`,
			code: 409, reason: metav1.StatusReasonConflict, message: `Operation cannot be fulfilled on configmaps "c": ` + modifiedText},
		{name: "no version where one is needed", resource: "leases", object: "l", body: `{"metadata":{"name":"l"}}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
		{name: "other uid", object: "c", body: `{"metadata":{"name":"c","uid":"zz"}}`,
			code: 409, reason: metav1.StatusReasonConflict},
		{name: "deletion timestamp", object: "c", body: `{"metadata":{"name":"c","deletionTimestamp":"2001-01-01T00:00:00Z"}}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "c" is invalid: metadata.deletionTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable`},
		{name: "new finalizer while deleting", object: "going", body: `{"metadata":{"name":"going","finalizers":["example.com/x","example.com/y"]}}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "going" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/y"}`},
		{name: "kind's validation", object: "c", body: `{"metadata":{"name":"c"},"data":{"bad":""}}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "c" is invalid: data[bad]: Invalid value: "bad": is a bad key`},
		{name: "options", object: "c", query: "dryRun=all", body: `{}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `UpdateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["all"]: supported values: "All"`},
		{name: "create with uid", resource: "leases", object: "new", body: `{"metadata":{"name":"new","uid":"1"}}`,
			code: 409, reason: metav1.StatusReasonConflict, message: `Operation cannot be fulfilled on leases.coordination.k8s.io "new": Precondition failed: UID in precondition: 1, UID in object meta: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			resource := c.resource
			if resource == "" {
				resource = "configmaps"
			}
			_, err := h.update(resource, c.object, "", c.query, c.body)
			wantStatus(t, err, c.code, c.reason, c.message)
		})
	}
}

func TestUpdate_Creates(t *testing.T) {
	h := newWorld(t)
	result := h.must(h.update("leases", "l", "", "", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}`))
	if result.Code != http.StatusCreated || at(fieldsOf(t, result.Version), "metadata", "uid") == nil {
		t.Errorf("code %d, %v", result.Code, fieldsOf(t, result.Version))
	}
	h.denied = Access{Verb: "create"}
	h.denied.Resource.Resource = "leases"
	_, err := h.update("leases", "other", "", "", `{"metadata":{"name":"other"}}`)
	wantStatus(t, err, 403, metav1.StatusReasonForbidden, `leases.coordination.k8s.io "other" is forbidden: no`)
	_, err = h.Update(context.Background(), &Request{
		Kind: h.kind("leases"), Namespace: "nowhere", Name: "x", ContentType: "application/json", Body: []byte(`{"metadata":{"name":"x"}}`),
	})
	wantStatus(t, err, 403, metav1.StatusReasonForbidden, "")
	h.denied = Access{}
	_, err = h.Update(context.Background(), &Request{
		Kind: h.kind("leases"), Namespace: "nowhere", Name: "x", ContentType: "application/json", Body: []byte(`{"metadata":{"name":"x"}}`),
	})
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `namespaces "nowhere" not found`)
}

func TestUpdate_DryRun(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	result := h.must(h.update("configmaps", "c", "", "dryRun=All", `{"metadata":{"name":"c"},"data":{"a":"b"}}`))
	if result.Version.Revision() != v.Revision() || at(fieldsOf(t, result.Version), "data", "a") != "b" {
		t.Errorf("revision %d, %v", result.Version.Revision(), fieldsOf(t, result.Version))
	}
	if got, rev := h.stored("configmaps", "c"); rev != v.Revision() || at(got, "data") != nil {
		t.Errorf("stored at %d: %v", rev, got)
	}
}

func TestUpdate_Status(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	h.must(h.update("pods", "p", "status", "", `{"metadata":{"name":"p","labels":{"x":"y"}},"spec":{"containers":[]},"status":{"phase":"Running"}}`))
	got, _ := h.stored("pods", "p")
	if at(got, "status", "phase") != "Running" || at(got, "metadata", "labels") != nil || at(got, "metadata", "generation") != 1.0 {
		t.Errorf("got %v", got)
	}
	if image := at(got, "spec", "containers").([]any)[0].(map[string]any)["image"]; image != "a" {
		t.Errorf("image %v", image)
	}
	_, err := h.update("pods", "p", "status", "", `{"metadata":{"name":"p"},"status":{"phase":"Bad"}}`)
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, `Pod "p" is invalid: status.phase: Unsupported value: "Bad": supported values: "Running"`)
	_, err = h.update("configmaps", "p", "status", "", `{"metadata":{"name":"p"}}`)
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `configmaps "p" not found`)
	_, err = h.update("pods", "p", "binding", "", `{"metadata":{"name":"p"}}`)
	wantStatus(t, err, 405, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
}

func TestUpdate_LastFinalizerDeletes(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("configmaps", `{"metadata":{"name":"c","finalizers":["example.com/x"]}}`)
	h.must(h.delete("configmaps", "c", "", ""))
	if got, _ := h.stored("configmaps", "c"); at(got, "metadata", "deletionTimestamp") == nil {
		t.Fatalf("not being deleted: %v", got)
	}
	result := h.must(h.update("configmaps", "c", "", "", `{"metadata":{"name":"c"},"data":{"last":"words"}}`))
	if result.Code != http.StatusOK || at(fieldsOf(t, result.Version), "data", "last") != "words" {
		t.Errorf("code %d, %v", result.Code, fieldsOf(t, result.Version))
	}
	if got, _ := h.stored("configmaps", "c"); got != nil {
		t.Errorf("still there: %v", got)
	}
}

// A cached object that is behind must not decide anything.
func TestUpdate_StaleCache(t *testing.T) {
	h := newWorld(t)
	old := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	newer := h.must(h.update("configmaps", "c", "", "", `{"metadata":{"name":"c"},"data":{"a":"1"}}`)).Version
	h.lag(old)

	t.Run("the version that the cache has", func(t *testing.T) {
		_, err := h.update("configmaps", "c", "", "", fmt.Sprintf(`{"metadata":{"name":"c","resourceVersion":"%d"},"data":{"a":"2"}}`, old.Revision()))
		wantStatus(t, err, 409, metav1.StatusReasonConflict, "")
	})
	t.Run("what the cache has already", func(t *testing.T) {
		result := h.must(h.update("configmaps", "c", "", "", `{"metadata":{"name":"c"}}`))
		if got, rev := h.stored("configmaps", "c"); at(got, "data") != nil || rev != result.Version.Revision() {
			t.Errorf("stored at %d: %v", rev, got)
		}
	})
	_ = newer
	t.Run("the newest version", func(t *testing.T) {
		_, rev := h.stored("configmaps", "c")
		result := h.must(h.update("configmaps", "c", "", "", fmt.Sprintf(`{"metadata":{"name":"c","resourceVersion":"%d"},"data":{"a":"3"}}`, rev)))
		if got, _ := h.stored("configmaps", "c"); at(got, "data", "a") != "3" || result.Version.Revision() <= rev {
			t.Errorf("got %v", got)
		}
	})
	t.Run("gone", func(t *testing.T) {
		h.must(h.delete("configmaps", "c", "", ""))
		_, err := h.update("configmaps", "c", "", "", `{"metadata":{"name":"c"},"data":{"a":"4"}}`)
		wantStatus(t, err, 404, metav1.StatusReasonNotFound, `configmaps "c" not found`)
		_, err = h.delete("configmaps", "c", "", "")
		wantStatus(t, err, 404, metav1.StatusReasonNotFound, `configmaps "c" not found`)
	})
	t.Run("made anew", func(t *testing.T) {
		v := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
		_, err := h.delete("configmaps", "c", "", fmt.Sprintf(`{"preconditions":{"uid":"%s"}}`, old.UID()))
		wantStatus(t, err, 409, metav1.StatusReasonConflict, "")
		h.must(h.delete("configmaps", "c", "", fmt.Sprintf(`{"preconditions":{"uid":"%s"}}`, v.UID())))
	})
}
