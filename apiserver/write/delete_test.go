package write

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/all"
	"vigil/kinds/kindtest"
	"vigil/object"
	"vigil/store/storetest"
)

func TestDelete(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	result := h.must(h.delete("configmaps", "c", "", ""))
	status, ok := result.Object.(*metav1.Status)
	if !ok || result.Code != 200 || status.Status != "Success" || status.Details.Name != "c" || status.Details.Kind != "configmaps" || string(status.Details.UID) != v.UID() {
		t.Errorf("code %d, %+v", result.Code, result.Object)
	}
	if got, _ := h.stored("configmaps", "c"); got != nil {
		t.Error("still there")
	}
	h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	result = h.must(h.delete("pods", "p", "", ""))
	if result.Version == nil || result.Version.Name() != "p" {
		t.Errorf("got %+v", result)
	}
	if got, _ := h.stored("pods", "p"); got != nil {
		t.Error("an unscheduled pod is still there")
	}
}

func TestDelete_Refused(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	for _, c := range []struct {
		name, resource, object, query, body string

		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{name: "missing", object: "none", code: 404, reason: metav1.StatusReasonNotFound, message: `configmaps "none" not found`},
		{name: "both policies", object: "c", query: "orphanDependents=true&propagationPolicy=Orphan", code: 422, reason: metav1.StatusReasonInvalid,
			message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set`},
		{name: "unknown policy", object: "c", body: `{"propagationPolicy":"Foo"}`, code: 422, reason: metav1.StatusReasonInvalid,
			message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil"`},
		{name: "uid", object: "c", body: `{"preconditions":{"uid":"zz"}}`, code: 409, reason: metav1.StatusReasonConflict,
			message: fmt.Sprintf(`Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition (zz) does not match the UID in record (%s). The object might have been deleted and then recreated`, v.UID())},
		{name: "version", object: "c", body: `{"preconditions":{"resourceVersion":"1"}}`, code: 409, reason: metav1.StatusReasonConflict,
			message: fmt.Sprintf(`Operation cannot be fulfilled on ConfigMap "c": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (%d). The object might have been modified`, v.Revision())},
		{name: "body", object: "c", body: `{"gracePeriodSeconds":"x"}`, code: 400, reason: metav1.StatusReasonBadRequest},
		{name: "other kind", object: "c", body: `{"kind":"Pod","apiVersion":"v1"}`, code: 400, reason: metav1.StatusReasonBadRequest},
		{name: "query", object: "c", query: "gracePeriodSeconds=x", code: 400, reason: metav1.StatusReasonBadRequest,
			message: `strconv.ParseInt: parsing "x": invalid syntax`},
		{name: "immortal namespace", resource: "namespaces", object: "default", code: 403, reason: metav1.StatusReasonForbidden,
			message: `namespaces "default" is forbidden: this namespace may not be deleted`},
	} {
		t.Run(c.name, func(t *testing.T) {
			resource := c.resource
			if resource == "" {
				resource = "configmaps"
			}
			_, err := h.delete(resource, c.object, c.query, c.body)
			wantStatus(t, err, c.code, c.reason, c.message)
		})
	}
}

func TestDelete_Finalizers(t *testing.T) {
	for _, c := range []struct {
		name, have, options string
		want                []any // finalizers of the object that remains; nil when it is gone
	}{
		{"none", ``, ``, nil},
		{"own", `"example.com/x"`, ``, []any{"example.com/x"}},
		{"orphan", ``, `{"propagationPolicy":"Orphan"}`, []any{"orphan"}},
		{"foreground", `"example.com/x"`, `{"propagationPolicy":"Foreground"}`, []any{"example.com/x", "foregroundDeletion"}},
		{"foreground instead of orphan", `"orphan"`, `{"propagationPolicy":"Foreground"}`, []any{"foregroundDeletion"}},
		{"background drops both", `"orphan"`, `{"propagationPolicy":"Background"}`, nil},
		{"what the object has stays", `"foregroundDeletion"`, ``, []any{"foregroundDeletion"}},
		{"old option", ``, `{"orphanDependents":true}`, []any{"orphan"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newWorld(t)
			h.mustCreate("configmaps", fmt.Sprintf(`{"metadata":{"name":"c","finalizers":[%s]}}`, c.have))
			result := h.must(h.delete("configmaps", "c", "", c.options))
			got, rev := h.stored("configmaps", "c")
			if c.want == nil {
				if got != nil || result.Object == nil {
					t.Errorf("still there: %v", got)
				}
				return
			}
			if fmt.Sprint(at(got, "metadata", "finalizers")) != fmt.Sprint(c.want) {
				t.Errorf("finalizers %v", at(got, "metadata", "finalizers"))
			}
			if at(got, "metadata", "deletionTimestamp") != "2026-03-01T12:00:00Z" || at(got, "metadata", "deletionGracePeriodSeconds") != 0.0 {
				t.Errorf("got %v", got)
			}
			if result.Version.Revision() != rev {
				t.Errorf("answered %d, stored %d", result.Version.Revision(), rev)
			}
			again := h.must(h.delete("configmaps", "c", "", ""))
			if again.Version == nil || again.Version.Revision() != rev {
				t.Errorf("a second delete answered %+v", again)
			}
		})
	}
}

func TestDelete_Accepted(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("configmaps", `{"metadata":{"name":"c","finalizers":["example.com/x"]}}`)
	if result := h.must(h.delete("configmaps", "c", "orphanDependents=false", "")); result.Code != http.StatusAccepted {
		t.Errorf("code %d", result.Code)
	}
}

func TestDelete_Grace(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	h.must(h.patch("pods", "p", "", "", mergePatch, `{"spec":{"nodeName":"n"}}`))

	check := func(seconds float64, deletion string) {
		t.Helper()
		got, _ := h.stored("pods", "p")
		if at(got, "metadata", "deletionGracePeriodSeconds") != seconds || at(got, "metadata", "deletionTimestamp") != deletion || at(got, "metadata", "generation") != 2.0 {
			t.Errorf("got %v", at(got, "metadata"))
		}
	}
	h.must(h.delete("pods", "p", "", ""))
	check(30, "2026-03-01T12:00:30Z")
	_, rev := h.stored("pods", "p")
	if again := h.must(h.delete("pods", "p", "gracePeriodSeconds=60", "")); again.Version.Revision() != rev {
		t.Error("a longer grace period changed something")
	}
	h.must(h.delete("pods", "p", "", `{"gracePeriodSeconds":10}`))
	check(10, "2026-03-01T12:00:10Z")
	h.must(h.delete("pods", "p", "gracePeriodSeconds=-5", ""))
	check(1, "2026-03-01T12:00:01Z")
	result := h.must(h.delete("pods", "p", "gracePeriodSeconds=0", ""))
	if got, _ := h.stored("pods", "p"); got != nil {
		t.Errorf("still there: %v", got)
	}
	if result.Version == nil {
		t.Error("the pod was not returned")
	}
}

func TestDelete_GraceAndFinalizers(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, `,"finalizers":["example.com/x"]`, "a"))
	h.must(h.patch("pods", "p", "", "", mergePatch, `{"spec":{"nodeName":"n"}}`))
	h.must(h.delete("pods", "p", "", ""))
	h.must(h.delete("pods", "p", "gracePeriodSeconds=0", ""))
	got, _ := h.stored("pods", "p")
	if at(got, "metadata", "deletionGracePeriodSeconds") != 0.0 {
		t.Fatalf("got %v", got)
	}
	h.must(h.patch("pods", "p", "", "", mergePatch, `{"metadata":{"finalizers":null}}`))
	if got, _ := h.stored("pods", "p"); got != nil {
		t.Errorf("still there: %v", got)
	}
}

func TestDelete_DryRun(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("configmaps", `{"metadata":{"name":"c","finalizers":["example.com/x"]}}`)
	result := h.must(h.delete("configmaps", "c", "", `{"dryRun":["All"]}`))
	if at(fieldsOf(t, result.Version), "metadata", "deletionTimestamp") == nil {
		t.Error("the answer is not being deleted")
	}
	if _, rev := h.stored("configmaps", "c"); rev != v.Revision() {
		t.Error("a dry run was stored")
	}
	h.mustCreate("configmaps", `{"metadata":{"name":"d"}}`)
	if result := h.must(h.delete("configmaps", "d", "dryRun=All", "")); result.Object == nil {
		t.Errorf("got %+v", result)
	}
	if got, _ := h.stored("configmaps", "d"); got == nil {
		t.Error("a dry run deleted")
	}
}

func TestDelete_Namespace(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("namespaces", `{"metadata":{"name":"n"}}`)
	result := h.must(h.delete("namespaces", "n", "", ""))
	got := fieldsOf(t, result.Version)
	if at(got, "status", "phase") != "Terminating" || at(got, "metadata", "deletionTimestamp") != "2026-03-01T12:00:00Z" {
		t.Fatalf("got %v", got)
	}
	if seconds := at(got, "metadata", "deletionGracePeriodSeconds"); seconds != nil {
		t.Errorf("a grace period of %v s", seconds)
	}
	again := h.must(h.delete("namespaces", "n", "", ""))
	if again.Version == nil || again.Version.Revision() != result.Version.Revision() {
		t.Errorf("a second delete answered %+v", again)
	}
	h.must(h.update("namespaces", "n", "finalize", "", `{"metadata":{"name":"n"},"spec":{"finalizers":[]}}`))
	if got, _ := h.stored("namespaces", "n"); got != nil {
		t.Errorf("still there: %v", got)
	}
}

// A namespace that nothing holds is marked by its first delete all the same, and goes with the second; what holds it in its
// metadata gives it a grace period of nothing then.
func TestDelete_NamespaceAgain(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("namespaces", `{"metadata":{"name":"n","finalizers":["example.com/x"]}}`)
	h.must(h.update("namespaces", "n", "finalize", "", `{"metadata":{"name":"n","finalizers":["example.com/x"]},"spec":{"finalizers":[]}}`))
	h.must(h.delete("namespaces", "n", "propagationPolicy=Foreground", ""))
	got, _ := h.stored("namespaces", "n")
	if want := []any{"example.com/x", "foregroundDeletion"}; !reflect.DeepEqual(at(got, "metadata", "finalizers"), want) || at(got, "metadata", "deletionGracePeriodSeconds") != nil {
		t.Errorf("after the first delete: %v", got)
	}
	h.must(h.delete("namespaces", "n", "propagationPolicy=Background", ""))
	got, _ = h.stored("namespaces", "n")
	if want := []any{"example.com/x"}; !reflect.DeepEqual(at(got, "metadata", "finalizers"), want) || at(got, "metadata", "deletionGracePeriodSeconds") != 0.0 {
		t.Errorf("after the second delete: %v", got)
	}
	h.must(h.patch("namespaces", "n", "", "", mergePatch, `{"metadata":{"finalizers":null}}`))
	if got, _ := h.stored("namespaces", "n"); got != nil {
		t.Errorf("still there: %v", got)
	}

	h.mustCreate("namespaces", `{"metadata":{"name":"m"}}`)
	h.must(h.update("namespaces", "m", "finalize", "", `{"metadata":{"name":"m"},"spec":{"finalizers":[]}}`))
	h.must(h.delete("namespaces", "m", "", ""))
	if got, _ := h.stored("namespaces", "m"); at(got, "status", "phase") != "Terminating" {
		t.Errorf("after the first delete: %v", got)
	}
	if last := h.must(h.delete("namespaces", "m", "", "")); last.Version == nil || last.Code != 200 {
		t.Errorf("the last delete answered %+v", last)
	}
	if got, _ := h.stored("namespaces", "m"); got != nil {
		t.Errorf("still there: %v", got)
	}
}

func TestDelete_NamespacePreconditions(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("namespaces", `{"metadata":{"name":"n"}}`)
	_, err := h.delete("namespaces", "n", "", `{"preconditions":{"uid":"zz"}}`)
	wantStatus(t, err, 409, metav1.StatusReasonConflict,
		fmt.Sprintf(`Operation cannot be fulfilled on namespaces "n": Precondition failed: UID in precondition: zz, UID in object meta: %s`, v.UID()))
	_, err = h.delete("namespaces", "n", "", `{"preconditions":{"resourceVersion":"1"}}`)
	wantStatus(t, err, 409, metav1.StatusReasonConflict,
		fmt.Sprintf(`Operation cannot be fulfilled on namespaces "n": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: %d`, v.Revision()))
}

// What a delete without a policy does with dependents is the kind's choice (upstream's DefaultGarbageCollectionPolicy).
func TestDelete_Dependents(t *testing.T) {
	const warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
	for _, c := range []struct {
		resource, have, options string

		want     []any // finalizers of the object that remains; nil when it is gone
		warnings []string
	}{
		{resource: "jobs", want: []any{"orphan"}, warnings: []string{warning}},
		{resource: "jobs", options: `{"gracePeriodSeconds":0}`, want: []any{"orphan"}, warnings: []string{warning}},
		{resource: "jobs", have: "foregroundDeletion", want: []any{"foregroundDeletion"}, warnings: []string{warning}},
		{resource: "jobs", options: `{"propagationPolicy":"Orphan"}`, want: []any{"orphan"}},
		{resource: "jobs", options: `{"propagationPolicy":"Background"}`},
		{resource: "jobs", options: `{"orphanDependents":false}`},
		{resource: "replicationcontrollers", want: []any{"orphan"}},
		{resource: "replicationcontrollers", options: `{"propagationPolicy":"Foreground"}`, want: []any{"foregroundDeletion"}},
		{resource: "replicationcontrollers", options: `{"propagationPolicy":"Background"}`},
		{resource: "replicasets"},
		{resource: "cronjobs"},
		{resource: "events.v1.", options: `{"propagationPolicy":"Foreground"}`},
		{resource: "events.v1.", options: `{"propagationPolicy":"Orphan"}`},
		{resource: "events.v1.", have: "orphan"},
		{resource: "events.v1.events.k8s.io", options: `{"orphanDependents":true}`},
	} {
		t.Run(c.resource+c.have+c.options, func(t *testing.T) {
			h := newWorld(t)
			h.change(func() { h.table, h.chain = all.Table(), nil })
			h.Writer = New(Config{Store: h.store, Resource: h.serving.resource})
			name := h.mustCreate(c.resource, string(kindtest.Sample(t, h.kind(c.resource)))).Name()
			if c.have != "" {
				h.must(h.patch(c.resource, name, "", "", mergePatch, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, c.have)))
			}
			result := h.must(h.delete(c.resource, name, "", c.options))
			got, _ := h.stored(c.resource, name)
			if (got == nil) != (c.want == nil) || got != nil && !reflect.DeepEqual(at(got, "metadata", "finalizers"), any(c.want)) {
				t.Errorf("finalizers %v, want %v", at(got, "metadata", "finalizers"), c.want)
			}
			if !slices.Equal(result.Warnings, c.warnings) {
				t.Errorf("warnings %q", result.Warnings)
			}
		})
	}
}

// A pod that is deleted without grace is first marked and then removed, so that watchers see it end: MODIFIED, and DELETED with the
// time of the deletion.
func TestDelete_NoGrace(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	h.must(h.patch("pods", "p", "", "", mergePatch, `{"spec":{"nodeName":"n"}}`))
	_, before := h.stored("pods", "p")

	dry := fieldsOf(t, h.must(h.delete("pods", "p", "gracePeriodSeconds=0&dryRun=All", "")).Version)
	if at(dry, "metadata", "deletionTimestamp") == nil || at(dry, "metadata", "deletionGracePeriodSeconds") != 0.0 {
		t.Errorf("a dry run answered %v", at(dry, "metadata"))
	}
	if _, rev := h.stored("pods", "p"); rev != before {
		t.Error("a dry run was stored")
	}

	result := h.must(h.delete("pods", "p", "gracePeriodSeconds=0", ""))
	if got, _ := h.stored("pods", "p"); got != nil {
		t.Fatalf("still there: %v", got)
	}
	history := storetest.Record(t.Context(), t, h.store, before).WaitFor(t, result.Version.Revision())
	if len(history) != 2 || history[0].Value == nil || history[1].Value != nil {
		t.Fatalf("etcd saw %+v, want a put and a delete", history)
	}
	k := h.kind("pods")
	marked, err := object.NewVersion(k.Type, h.key(k, "default", "p"), history[0].ModRev, history[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]map[string]any{"the mark": fieldsOf(t, marked), "the answer": fieldsOf(t, result.Version)} {
		if at(got, "metadata", "deletionTimestamp") != "2026-03-01T12:00:00Z" || at(got, "metadata", "deletionGracePeriodSeconds") != 0.0 || at(got, "metadata", "generation") != 2.0 {
			t.Errorf("%s: %v", name, at(got, "metadata"))
		}
	}
	if result.Version.Revision() != history[1].ModRev {
		t.Errorf("answered %d, removed at %d", result.Version.Revision(), history[1].ModRev)
	}
}

func TestDeleteCollection(t *testing.T) {
	h := newWorld(t)
	for i := range 30 {
		finalizer := ""
		if i == 7 {
			finalizer = `"example.com/x"`
		}
		h.mustCreate("configmaps", fmt.Sprintf(`{"metadata":{"name":"c%02d","finalizers":[%s]}}`, i, finalizer))
	}
	dry := h.must(h.DeleteCollection(context.Background(), h.request("configmaps", "", "", "dryRun=All", "")))
	if len(dry.List.Items) != 30 {
		t.Errorf("%d items", len(dry.List.Items))
	}
	result := h.must(h.DeleteCollection(context.Background(), h.request("configmaps", "", "", "", `{"propagationPolicy":"Background"}`)))
	if len(result.List.Items) != 30 || result.Code != 200 {
		t.Errorf("code %d, %d items", result.Code, len(result.List.Items))
	}
	left, err := h.list(context.Background(), h.request("configmaps", "", "", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name() != "c07" {
		t.Errorf("%d left", len(left.Items))
	}
	_, err = h.DeleteCollection(context.Background(), h.request("namespaces", "", "", "", ""))
	wantStatus(t, err, 405, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = h.DeleteCollection(canceled, h.request("configmaps", "", "", "", "")); err == nil {
		t.Error("deleted after the end of the request")
	}
}

func TestDelete_Corrupt(t *testing.T) {
	h := newWorld(t)
	key := h.key(h.kind("configmaps"), "default", "c")
	if _, err := h.store.Create(context.Background(), key, []byte("k8s\x00\xff"), 0); err != nil {
		t.Fatal(err)
	}
	const ignore = "ignoreStoreReadErrorWithClusterBreakingPotential=true"
	_, err := h.delete("configmaps", "c", "", "")
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, "")
	_, err = h.delete("configmaps", "c", ignore+"&propagationPolicy=Orphan", "")
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, "")
	_, err = h.DeleteCollection(context.Background(), h.request("configmaps", "", "", ignore, ""))
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, "")

	h.denied = Access{Verb: "unsafe-delete-ignore-read-errors"}
	h.denied.Resource.Resource = "configmaps"
	_, err = h.delete("configmaps", "c", ignore, "")
	wantStatus(t, err, 403, metav1.StatusReasonForbidden, "")
	h.denied = Access{}
	h.must(h.delete("configmaps", "c", ignore+"&dryRun=All", ""))
	h.must(h.delete("configmaps", "c", ignore, ""))
	_, err = h.delete("configmaps", "c", ignore, "")
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `configmaps "c" not found`)

	h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	_, err = h.delete("configmaps", "c", ignore, "")
	wantStatus(t, err, 409, metav1.StatusReasonConflict, "")
}
