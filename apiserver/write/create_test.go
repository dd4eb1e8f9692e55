package write

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

func TestCreate(t *testing.T) {
	h := newWorld(t)
	result := h.must(h.create("pods", "", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"mine","generation":7,
		"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":3,"selfLink":"/x"},
		"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running"}}`))
	if result.Code != http.StatusCreated {
		t.Errorf("code %d", result.Code)
	}
	got := fieldsOf(t, result.Version)
	stored, rev := h.stored("pods", "p")
	if rev != result.Version.Revision() {
		t.Errorf("revision %d, etcd has %d", result.Version.Revision(), rev)
	}
	for _, c := range []struct {
		path string
		want any
	}{
		{"metadata.namespace", "default"},
		{"metadata.generation", 1.0},
		{"metadata.creationTimestamp", "2026-03-01T12:00:00Z"},
		{"metadata.deletionTimestamp", nil},
		{"metadata.deletionGracePeriodSeconds", nil},
		{"metadata.selfLink", nil},
		{"status.phase", "Pending"},
		{"spec.restartPolicy", "Always"},
		{"metadata.uid", at(stored, "metadata", "uid")},
	} {
		if have := at(got, strings.Split(c.path, ".")...); have != c.want {
			t.Errorf("%s is %v, want %v", c.path, have, c.want)
		}
	}
	if uid := at(got, "metadata", "uid"); uid == "mine" || len(uid.(string)) != 36 {
		t.Errorf("uid %v", uid)
	}
}

func TestCreate_Refused(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("configmaps", `{"metadata":{"name":"there"}}`)
	h.mustCreate("configmaps", `{"metadata":{"name":"going","finalizers":["example.com/x"]}}`)
	h.must(h.delete("configmaps", "going", "", ""))
	h.must(h.create("namespaces", "", `{"metadata":{"name":"ending"}}`))
	h.must(h.Delete(context.Background(), h.request("namespaces", "ending", "", "", "")))

	for _, c := range []struct {
		name, resource, namespace, query, body string

		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{name: "exists", body: `{"metadata":{"name":"there"}}`,
			code: 409, reason: metav1.StatusReasonAlreadyExists, message: `configmaps "there" already exists`},
		{name: "exists on its way out", body: `{"metadata":{"name":"going"}}`,
			code: 409, reason: metav1.StatusReasonAlreadyExists, message: `object is being deleted: configmaps "going" already exists`},
		{name: "no name", body: `{}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{name: "other namespace", body: `{"metadata":{"name":"x","namespace":"other"}}`,
			code: 400, reason: metav1.StatusReasonBadRequest, message: "the namespace of the provided object does not match the namespace sent on the request"},
		{name: "resource version", body: `{"metadata":{"name":"x","resourceVersion":"3"}}`,
			code: 500, message: "resourceVersion should not be set on objects to be created"},
		{name: "resource version of what is there", body: `{"metadata":{"name":"there","resourceVersion":"3"}}`,
			code: 500, message: "resourceVersion should not be set on objects to be created"},
		{name: "resource version and validation", body: `{"metadata":{"name":"x","resourceVersion":"3"},"data":{"bad":""}}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "x" is invalid: data[bad]: Invalid value: "bad": is a bad key`},
		{name: "resource version and admission", namespace: "nowhere", body: `{"metadata":{"name":"x","resourceVersion":"3"}}`,
			code: 404, reason: metav1.StatusReasonNotFound, message: `namespaces "nowhere" not found`},
		{name: "kind's validation", body: `{"metadata":{"name":"x"},"data":{"bad":""}}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `ConfigMap "x" is invalid: data[bad]: Invalid value: "bad": is a bad key`},
		{name: "several", body: `{"metadata":{"name":"X","labels":{"a":"/"}},"data":{"bad":""}}`,
			code: 422, reason: metav1.StatusReasonInvalid},
		{name: "no namespace", namespace: "nowhere", body: `{"metadata":{"name":"x"}}`,
			code: 404, reason: metav1.StatusReasonNotFound, message: `namespaces "nowhere" not found`},
		{name: "terminating namespace", namespace: "ending", body: `{"metadata":{"name":"x"}}`,
			code: 403, reason: metav1.StatusReasonForbidden, message: `configmaps "x" is forbidden: unable to create new content in namespace ending because it is being terminated`},
		{name: "bad dry run", query: "dryRun=Foo", body: `{}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Foo"]: supported values: "All"`},
		{name: "bad field validation", query: "fieldValidation=Foo", body: `{}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"`},
		{name: "long field manager", query: "fieldManager=" + strings.Repeat("x", 129), body: `{}`,
			code: 422, reason: metav1.StatusReasonInvalid, message: `CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes`},
		{name: "strict", query: "fieldValidation=Strict", body: `{"metadata":{"name":"x"},"dta":{},"data":{"w":"a","w":"b"}}`,
			code: 400, reason: metav1.StatusReasonBadRequest, message: `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta", duplicate field "data.w"`},
		{name: "not creatable", resource: "bindings", body: `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"x"},"target":{"name":"n"}}`,
			code: 404, reason: metav1.StatusReasonNotFound, message: `pods "x" not found`},
		{name: "too large", body: `{"metadata":{"name":"x"},"data":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`,
			code: 413, reason: metav1.StatusReasonRequestEntityTooLarge, message: "Request entity too large: etcd request is too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := h.request("configmaps", "", "", c.query, c.body)
			if c.resource != "" {
				r.Kind = h.kind(c.resource)
			}
			if c.namespace != "" {
				r.Namespace = c.namespace
			}
			_, err := h.Create(context.Background(), r)
			status := wantStatus(t, err, c.code, c.reason, c.message)
			switch c.name {
			case "terminating namespace":
				want := metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Message: "namespace ending is being terminated", Field: "metadata.namespace"}
				if causes := status.Details.Causes; len(causes) != 1 || causes[0] != want {
					t.Errorf("causes %v", causes)
				}
			case "several":
				if len(status.Details.Causes) != 3 {
					t.Errorf("causes %v", status.Details.Causes)
				}
			}
		})
	}
}

func TestCreate_Names(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("configmaps", `{"metadata":{"generateName":"`+strings.Repeat("a", 80)+`"}}`)
	if name := v.Name(); len(name) != 63 || !strings.HasPrefix(name, strings.Repeat("a", 58)) {
		t.Errorf("generated %s", name)
	}
	if v := h.mustCreate("namespaces", `{"metadata":{"name":"x","namespace":"y"}}`); v.Namespace() != "" {
		t.Errorf("namespace %q of a cluster-scoped object", v.Namespace())
	}
	r := h.request("configmaps", "by-path", "", "", `{}`)
	if v := h.must(h.Create(context.Background(), r)).Version; v.Name() != "by-path" {
		t.Errorf("name %s", v.Name())
	}
	r = h.request("configmaps", "by-path", "", "", `{"metadata":{"name":"other"}}`)
	_, err := h.Create(context.Background(), r)
	wantStatus(t, err, 400, metav1.StatusReasonBadRequest, "the name of the object (other) does not match the name on the URL (by-path)")
}

func TestCreate_DryRun(t *testing.T) {
	h := newWorld(t)
	result := h.must(h.create("configmaps", "dryRun=All", `{"metadata":{"generateName":"x-"}}`))
	obj := result.Object.(*corev1.ConfigMap)
	if obj.UID == "" || obj.CreationTimestamp.IsZero() || obj.Name == "" || obj.ResourceVersion != "" || obj.Kind != "ConfigMap" {
		t.Errorf("got %+v", obj)
	}
	if found, _ := h.stored("configmaps", obj.Name); found != nil {
		t.Error("a dry run was stored")
	}
	h.mustCreate("configmaps", `{"metadata":{"name":"there"}}`)
	_, err := h.create("configmaps", "dryRun=All", `{"metadata":{"name":"there"}}`)
	wantStatus(t, err, 409, metav1.StatusReasonAlreadyExists, `configmaps "there" already exists`)
}

func TestCreate_Warnings(t *testing.T) {
	h := newWorld(t)
	result := h.must(h.create("configmaps", "", `{"metadata":{"name":"x","foo":1,"ownerReferences":[
		{"apiVersion":"v1","kind":"Pod","name":"o","uid":"1"},{"apiVersion":"v1","kind":"Pod","name":"o","uid":"1"}]},"data":{"warn":"","warn":""},"zzz":1}`))
	want := []string{
		`unknown field "metadata.foo"`, `duplicate field "data.warn"`, `unknown field "zzz"`,
		".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 1",
		"data.warn: careful",
	}
	if strings.Join(result.Warnings, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", result.Warnings)
	}
	if owners := at(fieldsOf(t, result.Version), "metadata", "ownerReferences").([]any); len(owners) != 1 {
		t.Errorf("owners %v", owners)
	}
	quiet := h.must(h.create("configmaps", "fieldValidation=Ignore", `{"metadata":{"name":"y"},"zzz":1}`))
	if len(quiet.Warnings) != 0 {
		t.Errorf("got %q", quiet.Warnings)
	}
}

// A resource version in a create matters to storage alone: one that names no revision is none, and a dry run does not come there.
func TestCreate_ResourceVersion(t *testing.T) {
	h := newWorld(t)
	for _, version := range []string{"0", "-1", "abc"} {
		v := h.mustCreate("configmaps", fmt.Sprintf(`{"metadata":{"generateName":"c","resourceVersion":%q}}`, version))
		if at(fieldsOf(t, v), "metadata", "resourceVersion") == version {
			t.Errorf("%q was kept", version)
		}
	}
	dry := h.must(h.create("configmaps", "dryRun=All", `{"metadata":{"name":"dry","resourceVersion":"7"}}`))
	if got := dry.Object.(*corev1.ConfigMap); got.ResourceVersion != "7" || got.UID == "" {
		t.Errorf("a dry run answered %+v", got.ObjectMeta)
	}
	// A PUT that creates does not look at it either.
	v := h.must(h.update("leases", "l", "", "", `{"metadata":{"name":"l","resourceVersion":"3"}}`))
	if v.Code != 201 {
		t.Errorf("a PUT that creates answered %d", v.Code)
	}
}

// metadataSeen is a mutator that notes the metadata of the object it is shown.
type metadataSeen struct{ seen metav1.ObjectMeta }

func (*metadataSeen) Name() string { return "MetadataSeen" }

func (*metadataSeen) Handles(k *kinds.Kind, _ string, _ admission.Operation) bool {
	return k.Resource == "configmaps"
}

func (m *metadataSeen) Admit(_ context.Context, a *admission.Attributes) error {
	m.seen = *a.Object.(*corev1.ConfigMap).ObjectMeta.DeepCopy()
	return nil
}

// Admission does not see what a client says in the server's place.
func TestCreate_SystemMetadata(t *testing.T) {
	h := newWorld(t)
	var m metadataSeen
	h.change(func() { h.chain = admission.New([]admission.Plugin{&m}, nil) })
	v := h.mustCreate("configmaps", `{"metadata":{"name":"c","uid":"mine","creationTimestamp":"2020-01-01T00:00:00Z",
		"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":5,"selfLink":"/x"}}`)
	if m.seen.Name != "c" || m.seen.UID != "" || !m.seen.CreationTimestamp.IsZero() || m.seen.DeletionTimestamp != nil ||
		m.seen.DeletionGracePeriodSeconds != nil || m.seen.SelfLink != "" || len(m.seen.ManagedFields) > 0 {
		t.Errorf("admission saw %+v", m.seen)
	}
	got := fieldsOf(t, v)
	if at(got, "metadata", "creationTimestamp") != "2026-03-01T12:00:00Z" || at(got, "metadata", "deletionTimestamp") != nil || at(got, "metadata", "selfLink") != nil {
		t.Errorf("stored %v", at(got, "metadata"))
	}
}
