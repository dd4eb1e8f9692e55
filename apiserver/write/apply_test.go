package write

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const applyPatch = "application/apply-patch+yaml"

func (h *world) apply(resource, name, sub, query, body string) (*Result, error) {
	return h.patch(resource, name, sub, query, applyPatch, body)
}

// owners shows who owns what of a stored object: "manager/Operation[/subresource] {fields}", one to a line.
func (h *world) owners(resource, name string) string {
	h.t.Helper()
	got, _ := h.stored(resource, name)
	entries, _ := at(got, "metadata", "managedFields").([]any)
	var lines []string
	for _, e := range entries {
		entry := e.(map[string]any)
		line := fmt.Sprintf("%s/%s", entry["manager"], entry["operation"])
		if sub, ok := entry["subresource"]; ok {
			line += fmt.Sprintf("/%s", sub)
		}
		lines = append(lines, line+" "+setText(entry["fieldsV1"].(map[string]any)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// setText shows a set of fields in short: a(.,b,c(d)).
func setText(set map[string]any) string {
	var names []string
	for _, name := range sortedKeys(set) {
		text := strings.TrimPrefix(name, "f:")
		if inner := set[name].(map[string]any); len(inner) > 0 {
			text += "(" + setText(inner) + ")"
		}
		names = append(names, text)
	}
	return strings.Join(names, " ")
}

const appliedDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: %s}}
spec:
  %s
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers: [{name: c, image: %s}]
`

func TestApply(t *testing.T) {
	h := newWorld(t)
	result := h.must(h.apply("deployments", "d", "", "fieldManager=one", fmt.Sprintf(appliedDeployment, "x", "replicas: 2", "i")))
	if result.Code != 201 {
		t.Errorf("code %d", result.Code)
	}
	const mine = `metadata(labels(app)) spec(replicas selector template(metadata(labels(a)) spec(containers(k:{"name":"c"}(. image name)))))`
	if got := h.owners("deployments", "d"); got != "one/Apply "+mine {
		t.Errorf("got\n%s", got)
	}

	// The same again changes nothing.
	_, rev := h.stored("deployments", "d")
	result = h.must(h.apply("deployments", "d", "", "fieldManager=one", fmt.Sprintf(appliedDeployment, "x", "replicas: 2", "i")))
	if result.Code != 200 || result.Version.Revision() != rev {
		t.Errorf("code %d, revision %d after %d", result.Code, result.Version.Revision(), rev)
	}

	// What others own is a conflict, all in one.
	status := wantStatus(t, second(h.apply("deployments", "d", "", "fieldManager=two", fmt.Sprintf(appliedDeployment, "z", "replicas: 3", "i"))), 409, metav1.StatusReasonConflict,
		"Apply failed with 2 conflicts: conflicts with \"one\":\n- .metadata.labels.app\n- .spec.replicas")
	if len(status.Details.Causes) != 2 || status.Details.Causes[0] != (metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "one"`, Field: ".metadata.labels.app"}) {
		t.Errorf("causes %+v", status.Details.Causes)
	}
	h.must(h.apply("deployments", "d", "", "fieldManager=two&force=true", fmt.Sprintf(appliedDeployment, "z", "replicas: 3", "i")))
	got, _ := h.stored("deployments", "d")
	if at(got, "spec", "replicas") != 3.0 || at(got, "metadata", "labels", "app") != "z" || at(got, "metadata", "generation") != 2.0 {
		t.Errorf("stored %v", got)
	}
	if owners := h.owners("deployments", "d"); !strings.Contains(owners, "two/Apply "+mine) || strings.Contains(owners, "one/Apply metadata") {
		t.Errorf("got\n%s", owners)
	}

	// Updates take what they change; a conflict with one names its version.
	h.must(h.patch("deployments", "d", "", "fieldManager=hand", mergePatch, `{"spec":{"replicas":4}}`))
	if owners := h.owners("deployments", "d"); !strings.Contains(owners, "hand/Update spec(replicas)") {
		t.Errorf("got\n%s", owners)
	}
	wantStatus(t, second(h.apply("deployments", "d", "", "fieldManager=two", fmt.Sprintf(appliedDeployment, "z", "replicas: 3", "i"))), 409, metav1.StatusReasonConflict,
		`Apply failed with 1 conflict: conflict with "hand" using apps/v1: .spec.replicas`)

	// What is no longer applied goes, unless it has a default or another owner.
	h.must(h.apply("deployments", "d", "", "fieldManager=two", strings.Replace(fmt.Sprintf(appliedDeployment, "z", "paused: true", "i"), ", labels: {app: z}", "", 1)))
	h.must(h.apply("deployments", "d", "", "fieldManager=two", strings.Replace(fmt.Sprintf(appliedDeployment, "z", "minReadySeconds: 1", "i"), ", labels: {app: z}", "", 1)))
	got, _ = h.stored("deployments", "d")
	if at(got, "spec", "paused") != nil || at(got, "metadata", "labels") != nil || at(got, "spec", "replicas") != 4.0 {
		t.Errorf("stored %v", got)
	}
}

func second(_ *Result, err error) error { return err }

func TestApply_Refused(t *testing.T) {
	h := newWorld(t)
	for _, c := range []struct {
		name, query, body string

		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{"no manager", "", `{}`, 422, metav1.StatusReasonInvalid, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
		{"not yaml", "fieldManager=m", "a: [", 400, metav1.StatusReasonBadRequest, ""},
		{"list", "fieldManager=m", "[]", 400, metav1.StatusReasonBadRequest, ""},
		{"kind", "fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: d}", 400, metav1.StatusReasonBadRequest, "invalid object type: /v1, Kind=Pod"},
		{"no kind", "fieldManager=m", "metadata: {name: d}", 400, metav1.StatusReasonBadRequest, ""},
		{"name", "fieldManager=m", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: e}", 400, metav1.StatusReasonBadRequest, "the name of the object (e) does not match the name on the URL (d)"},
		{"namespace", "fieldManager=m", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: other}", 400, metav1.StatusReasonBadRequest, "the namespace of the provided object does not match the namespace sent on the request"},
		{"uid", "fieldManager=m", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, uid: '1'}", 409, metav1.StatusReasonConflict, `Operation cannot be fulfilled on deployments.apps "d": uid mismatch: the provided object specified uid 1, and no existing object was found`},
		{"managed fields", "fieldManager=m", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, managedFields: [{manager: x}]}", 400, metav1.StatusReasonBadRequest, "metadata.managedFields must be nil"},
		{"unknown field", "fieldManager=m", fmt.Sprintf(appliedDeployment, "x", "bogus: 2", "i"), 500, "", "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.bogus: field not declared in schema"},
		{"duplicate key", "fieldManager=m&fieldValidation=Strict", fmt.Sprintf(appliedDeployment, "x", "replicas: 2\n  replicas: 2", "i"), 400, metav1.StatusReasonBadRequest, ""},
		{"type", "fieldManager=m", fmt.Sprintf(appliedDeployment, "true", "", "i"), 500, "", "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .metadata.labels.app: expected string, got &value.valueUnstructured{Value:true}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantStatus(t, second(h.apply("deployments", "d", "", c.query, c.body)), c.code, c.reason, c.message)
		})
	}
	wantStatus(t, second(h.patch("deployments", "d", "", "force=true", mergePatch, `{}`)), 422, metav1.StatusReasonInvalid, `PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`)
	wantStatus(t, second(h.patch("deployments", "d", "", "fieldManager=m", "application/apply-patch+cbor", `{}`)), 415, metav1.StatusReasonUnsupportedMediaType, "")
	wantStatus(t, second(h.apply("deployments", "d", "status", "fieldManager=m", fmt.Sprintf(appliedDeployment, "x", "", "i"))), 404, metav1.StatusReasonNotFound, "")
	if got, _ := h.stored("deployments", "d"); got != nil {
		t.Errorf("stored %v", got)
	}
}

// Each subresource has entries of its own and owns nothing that it cannot change.
func TestApply_Subresources(t *testing.T) {
	h := newWorld(t)
	h.must(h.create("pods", "fieldManager=creator", fmt.Sprintf(podBody, "", "a")))
	if got := h.owners("pods", "p"); !strings.HasPrefix(got, "creator/Update spec(") || strings.Contains(got, "status") {
		t.Errorf("got\n%s", got)
	}
	h.must(h.apply("pods", "p", "status", "fieldManager=control", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: x}\nstatus: {phase: Running, message: hello}"))
	got, _ := h.stored("pods", "p")
	if at(got, "status", "phase") != "Running" || at(got, "spec", "nodeName") != nil {
		t.Errorf("stored %v", got)
	}
	if got := h.owners("pods", "p"); !strings.Contains(got, "control/Apply/status status(message phase)") {
		t.Errorf("got\n%s", got)
	}

	h.must(h.create("deployments", "fieldManager=creator", `{"metadata":{"name":"d"},"spec":{"replicas":2}}`))
	// The scale subresource shows and takes the replicas.
	result := h.must(h.update("deployments", "d", "scale", "fieldManager=scaler", `{"metadata":{"name":"d"},"spec":{"replicas":3}}`))
	if got := h.owners("deployments", "d"); !strings.Contains(got, "scaler/Update/scale spec(replicas)") {
		t.Errorf("got\n%s", got)
	}
	if scale := result.Object.(*autoscalingv1.Scale); len(scale.ManagedFields) != 0 {
		t.Errorf("the scale has managed fields: %+v", scale)
	}
	const scale = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: d}\nspec: {replicas: 5}"
	wantStatus(t, second(h.apply("deployments", "d", "scale", "fieldManager=other", scale)), 409, metav1.StatusReasonConflict,
		`Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using autoscaling/v1: .spec.replicas`)
	h.must(h.apply("deployments", "d", "scale", "fieldManager=other&force=true", scale))
	if got := h.owners("deployments", "d"); !strings.Contains(got, "other/Apply/scale spec(replicas)") || strings.Contains(got, "scaler") {
		t.Errorf("got\n%s", got)
	}
}

// Clients may hand back, forget or spoil managed fields in updates.
func TestManagedFields_FromClients(t *testing.T) {
	h := newWorld(t)
	h.must(h.create("configmaps", "fieldManager=creator", `{"metadata":{"name":"x"},"data":{"a":"1"}}`))
	const owned = "creator/Update data(. a)"
	if got := h.owners("configmaps", "x"); got != owned {
		t.Errorf("got\n%s", got)
	}
	// Without, with a broken list: the stored entries count.
	h.must(h.update("configmaps", "x", "", "fieldManager=b", `{"metadata":{"name":"x"},"data":{"a":"1","b":"2"}}`))
	h.must(h.update("configmaps", "x", "", "fieldManager=c", `{"metadata":{"name":"x","managedFields":[{"manager":"z","operation":"Nothing"}]},"data":{"a":"1","b":"2","c":"3"}}`))
	if got := h.owners("configmaps", "x"); got != "b/Update data(b)\nc/Update data(c)\n"+owned {
		t.Errorf("got\n%s", got)
	}
	// A list of the client's own replaces them.
	h.must(h.update("configmaps", "x", "", "fieldManager=b", `{"metadata":{"name":"x","managedFields":[{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"1","b":"2","c":"3"}}`))
	if got := h.owners("configmaps", "x"); got != "z/Update data(a)" {
		t.Errorf("got\n%s", got)
	}
	// An empty entry ends the tracking; the next apply begins it again.
	h.must(h.update("configmaps", "x", "", "fieldManager=b", `{"metadata":{"name":"x","managedFields":[{}]},"data":{"a":"1"}}`))
	h.must(h.update("configmaps", "x", "", "fieldManager=b", `{"metadata":{"name":"x"},"data":{"a":"2"}}`))
	if got := h.owners("configmaps", "x"); got != "" {
		t.Errorf("got\n%s", got)
	}
	wantStatus(t, second(h.apply("configmaps", "x", "", "fieldManager=one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '3'}")), 409, metav1.StatusReasonConflict,
		`Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a`)
}

// The manager of a request that names none is the beginning of its User-Agent; the eleventh updater has the oldest merged.
func TestManagedFields_Managers(t *testing.T) {
	h := newWorld(t)
	agent := func(name string) *Request {
		r := h.request("configmaps", "", "", "", `{"metadata":{"name":"x"},"data":{"a":"1"}}`)
		r.UserAgent = name
		return r
	}
	h.must(h.Create(context.Background(), agent("kubectl\x01/v1.37.0 (linux/amd64)")))
	if got := h.owners("configmaps", "x"); got != "kubectl/Update data(. a)" {
		t.Errorf("got\n%s", got)
	}
	for i := range 12 {
		h.must(h.patch("configmaps", "x", "", fmt.Sprintf("fieldManager=m%02d", i), mergePatch, fmt.Sprintf(`{"data":{"k%d":"v"}}`, i)))
	}
	owners := h.owners("configmaps", "x")
	if n := len(strings.Split(owners, "\n")); n != 10 || !strings.Contains(owners, "ancient-changes/Update") {
		t.Errorf("%d entries:\n%s", n, owners)
	}
}

// An apply by kubectl takes over what it has applied as a client before.
func TestApply_AfterClientSide(t *testing.T) {
	h := newWorld(t)
	h.must(h.create("configmaps", "fieldManager=kubectl-client-side-apply", `{"metadata":{"name":"x","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\",\"namespace\":\"default\"},\"data\":{\"a\":\"1\"}}"}},"data":{"a":"1"}}`))
	h.must(h.apply("configmaps", "x", "", "fieldManager=kubectl", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '2'}"))
	got, _ := h.stored("configmaps", "x")
	if at(got, "data", "a") != "2" || !strings.Contains(fmt.Sprint(at(got, "metadata", "annotations")), `"a":"2"`) {
		t.Errorf("stored %v", got)
	}
}

// A write that only would renew the time of an entry is none.
func TestManagedFields_Times(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
	for range 2 {
		r := h.must(h.patch("pods", "p", "", "fieldManager=x", mergePatch, `{"status":{"phase":"Failed"},"metadata":{"generation":7}}`))
		if r.Version.Revision() != v.Revision() {
			t.Errorf("revision %d after %d", r.Version.Revision(), v.Revision())
		}
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
