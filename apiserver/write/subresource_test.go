package write

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestScale(t *testing.T) {
	h := newWorld(t)
	v := h.mustCreate("deployments", `{"metadata":{"name":"d"},"spec":{"replicas":2}}`)
	result := h.must(h.update("deployments", "d", "scale", "", `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d"},"spec":{"replicas":3}}`))
	scale := result.Object.(*autoscalingv1.Scale)
	got, rev := h.stored("deployments", "d")
	if scale.Spec.Replicas != 3 || scale.ResourceVersion != fmt.Sprint(rev) || scale.Kind != "Scale" || at(got, "spec", "replicas") != 3.0 || at(got, "metadata", "generation") != 2.0 {
		t.Errorf("%+v, stored %v", scale, got)
	}
	for contentType, body := range map[string]string{
		mergePatch:     `{"spec":{"replicas":4}}`,
		strategicPatch: `{"spec":{"replicas":5}}`,
		jsonPatch:      `[{"op":"replace","path":"/spec/replicas","value":6}]`,
	} {
		h.must(h.patch("deployments", "d", "scale", "", contentType, body))
	}
	if got, _ := h.stored("deployments", "d"); at(got, "metadata", "generation") != 5.0 {
		t.Errorf("stored %v", got)
	}

	const name = `"metadata":{"name":"d"%s}`
	for _, c := range []struct {
		name, meta, spec string

		code    int32
		reason  metav1.StatusReason
		message string
	}{
		{"negative", ``, `-4`, 422, metav1.StatusReasonInvalid, `Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -4: must be greater than or equal to 0`},
		{"old version", fmt.Sprintf(`,"resourceVersion":"%d"`, v.Revision()), `4`, 409, metav1.StatusReasonConflict, ""},
		{"uid", `,"uid":"zz"`, `4`, 409, metav1.StatusReasonConflict, ""},
		{"namespace", `,"namespace":"zz"`, `4`, 400, metav1.StatusReasonBadRequest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.update("deployments", "d", "scale", "", fmt.Sprintf(`{`+name+`,"spec":{"replicas":%s}}`, c.meta, c.spec))
			wantStatus(t, err, c.code, c.reason, c.message)
		})
	}
	_, err := h.update("deployments", "none", "scale", "", `{"metadata":{"name":"none"}}`)
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `deployments.apps "none" not found`)
	_, err = h.update("deployments", "d", "scale", "", `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"}}`)
	wantStatus(t, err, 400, metav1.StatusReasonBadRequest, `Deployment in version "v1" cannot be handled as a Scale: converting (v1.Deployment) to (v1.Scale): unknown conversion`)
}

func TestBinding(t *testing.T) {
	for _, resource := range []string{"pods", "bindings"} {
		t.Run(resource, func(t *testing.T) {
			h := newWorld(t)
			h.mustCreate("pods", fmt.Sprintf(podBody, "", "a"))
			bind := func(body string) (*Result, error) {
				r := h.request(resource, "", "", "", body)
				if resource == "pods" {
					r.Name, r.Subresource = "p", "binding"
				}
				return h.Create(context.Background(), r)
			}
			result := h.must(bind(`{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`))
			if status := result.Object.(*metav1.Status); result.Code != http.StatusCreated || status.Status != "Success" || status.Code != 201 {
				t.Errorf("got %+v", result)
			}
			got, _ := h.stored("pods", "p")
			if at(got, "spec", "nodeName") != "n" || at(got, "metadata", "generation") != 1.0 {
				t.Errorf("stored %v", got)
			}
			_, err := bind(`{"metadata":{"name":"p"},"target":{"name":"m"}}`)
			wantStatus(t, err, 409, metav1.StatusReasonConflict, `Operation cannot be fulfilled on pods/binding "p": pod is already assigned to a node`)
			if resource == "pods" {
				_, err = bind(`{"metadata":{"name":"q"},"target":{"name":"m"}}`)
				wantStatus(t, err, 400, metav1.StatusReasonBadRequest, "name in URL does not match name in Binding object")
			} else {
				_, err = bind(`{"target":{"name":"m"}}`)
				wantStatus(t, err, 400, metav1.StatusReasonBadRequest, "name must be provided")
			}
		})
	}
}
