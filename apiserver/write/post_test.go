package write

import (
	"context"
	"errors"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
)

func TestPost_Unstored(t *testing.T) {
	h := newWorld(t)
	h.hooks = map[schema.GroupResource]Hook{{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"}: {
		Post: map[string]PostFunc{"": func(_ context.Context, r *Request, obj kinds.Object, body runtime.Object) (runtime.Object, error) {
			review := body.(*authorizationv1.SubjectAccessReview)
			if obj != nil {
				t.Errorf("an object of a kind that is not stored: %v", obj)
			}
			if review.Spec.User == "broken" {
				return nil, errors.New("no answer")
			}
			review.Status.Reason = fmt.Sprintf("dry run %v", r.DryRun)
			return review, nil
		}},
	}}
	result := h.must(h.create("subjectaccessreviews", "", `{"spec":{"user":"a"}}`))
	if got := result.Object.(*authorizationv1.SubjectAccessReview); result.Code != 201 || got.Status.Reason != "dry run false" || got.Kind != "SubjectAccessReview" {
		t.Errorf("code %d, %+v", result.Code, got)
	}
	result = h.must(h.create("subjectaccessreviews", "dryRun=All", `{"spec":{"user":"a"}}`))
	if got := result.Object.(*authorizationv1.SubjectAccessReview); got.Status.Reason != "dry run true" {
		t.Errorf("%+v", got)
	}
	_, err := h.create("subjectaccessreviews", "", `{}`)
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, `SubjectAccessReview.authorization.k8s.io "" is invalid: spec.user: Required value`)
	_, err = h.create("subjectaccessreviews", "", `{"spec":{"user":"broken"}}`)
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, "Internal error occurred: no answer")
}

func TestPost_Subresource(t *testing.T) {
	h := newWorld(t)
	h.mustCreate("pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	h.hooks = map[schema.GroupResource]Hook{{Resource: "pods"}: {
		Post: map[string]PostFunc{"binding": func(_ context.Context, r *Request, obj kinds.Object, body runtime.Object) (runtime.Object, error) {
			pod, binding := obj.(*corev1.Pod), body.(*corev1.Binding)
			return &metav1.Status{Message: pod.Name + " on " + binding.Target.Name + " in " + r.Namespace}, nil
		}},
	}}
	post := func(name string) (*Result, error) {
		return h.Create(context.Background(), h.request("pods", name, "binding", "", `{"metadata":{"name":"p"},"target":{"name":"n"}}`))
	}
	if got := h.must(post("p")).Object.(*metav1.Status).Message; got != "p on n in default" {
		t.Errorf("answer %q", got)
	}
	_, err := post("q")
	wantStatus(t, err, 404, metav1.StatusReasonNotFound, `pods "q" not found`)
}
