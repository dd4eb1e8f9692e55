package apiserver_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// heard collects texts of Warning headers.
type heard struct {
	mu    sync.Mutex
	texts []string
}

func (h *heard) HandleWarningHeader(_ int, _ string, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts := strings.Join(h.texts, "\n")
	h.texts = nil
	return texts
}

// Fields of features that are off in Kubernetes 1.37 are not stored, wherever there is a pod's spec, and the client is told.
func TestDisabledFields(t *testing.T) {
	s, c, clients := start(t)
	namespace(t, clients, "default")
	warnings := &heard{}
	config := s.Client("admin", "system:masters")
	config.WarningHandler = warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const text = "dropped, it belongs to the feature EmptyDirVolumeMode, which is off in Kubernetes 1.37"
	spec := func() map[string]any {
		return map[string]any{
			"restartPolicy": "Always",
			"containers":    []any{map[string]any{"name": "c", "image": "image"}},
			"volumes":       []any{map[string]any{"name": "v", "emptyDir": map[string]any{"mode": int64(0o700)}}},
		}
	}
	template := func() map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": spec()}
	}
	selector := map[string]any{"matchLabels": map[string]any{"a": "b"}}
	job := func() map[string]any {
		t := template()
		t["spec"].(map[string]any)["restartPolicy"] = "Never"
		return t
	}
	for _, test := range []struct {
		group, version, resource, kind string
		body                           map[string]any
		path                           []string // of the pod's spec
	}{
		{"", "v1", "pods", "Pod", map[string]any{"spec": spec()}, []string{"spec"}},
		{"", "v1", "podtemplates", "PodTemplate", map[string]any{"template": template()}, []string{"template", "spec"}},
		{"", "v1", "replicationcontrollers", "ReplicationController", map[string]any{"spec": map[string]any{"template": template()}}, []string{"spec", "template", "spec"}},
		{"apps", "v1", "replicasets", "ReplicaSet", map[string]any{"spec": map[string]any{"selector": selector, "template": template()}}, []string{"spec", "template", "spec"}},
		{"apps", "v1", "deployments", "Deployment", map[string]any{"spec": map[string]any{"selector": selector, "template": template()}}, []string{"spec", "template", "spec"}},
		{"apps", "v1", "statefulsets", "StatefulSet", map[string]any{"spec": map[string]any{"serviceName": "s", "selector": selector, "template": template()}}, []string{"spec", "template", "spec"}},
		{"apps", "v1", "daemonsets", "DaemonSet", map[string]any{"spec": map[string]any{"selector": selector, "template": template()}}, []string{"spec", "template", "spec"}},
		{"batch", "v1", "jobs", "Job", map[string]any{"spec": map[string]any{"template": job()}}, []string{"spec", "template", "spec"}},
		{"batch", "v1", "cronjobs", "CronJob", map[string]any{"spec": map[string]any{"schedule": "* * * * *", "jobTemplate": map[string]any{"spec": map[string]any{"template": job()}}}},
			[]string{"spec", "jobTemplate", "spec", "template", "spec"}},
	} {
		t.Run(test.kind, func(t *testing.T) {
			objects := client.Resource(schema.GroupVersionResource{Group: test.group, Version: test.version, Resource: test.resource}).Namespace("default")
			obj := &unstructured.Unstructured{Object: test.body}
			obj.SetAPIVersion(schema.GroupVersion{Group: test.group, Version: test.version}.String())
			obj.SetKind(test.kind)
			obj.SetName("o")
			check := func(what string, obj *unstructured.Unstructured, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				want := strings.Join(test.path, ".") + ".volumes[0].emptyDir.mode: " + text
				if got := warnings.take(); !strings.Contains(got, want) {
					t.Errorf("%s: warnings %q, want %q", what, got, want)
				}
				volumes, _, _ := unstructured.NestedSlice(obj.Object, append(test.path, "volumes")...)
				if len(volumes) != 1 || len(volumes[0].(map[string]any)["emptyDir"].(map[string]any)) > 0 {
					t.Errorf("%s: volumes %v", what, volumes)
				}
			}
			made, err := objects.Create(t.Context(), obj, metav1.CreateOptions{})
			check("create", made, err)
			generation := made.GetGeneration()
			volumes, _, _ := unstructured.NestedSlice(made.Object, append(test.path, "volumes")...)
			volumes[0].(map[string]any)["emptyDir"] = map[string]any{"mode": int64(0o755)}
			if err := unstructured.SetNestedSlice(made.Object, volumes, append(test.path, "volumes")...); err != nil {
				t.Fatal(err)
			}
			changed, err := objects.Update(t.Context(), made, metav1.UpdateOptions{})
			check("update", changed, err)
			if changed.GetGeneration() != generation {
				t.Errorf("generation %d after %d: something has changed", changed.GetGeneration(), generation)
			}
		})
	}

	t.Run("a controller without a template", func(t *testing.T) {
		answer := c.do("POST", "/api/v1/namespaces/default/replicationcontrollers", `{"metadata":{"name":"x"},"spec":{"selector":{"a":"b"}}}`)
		if got := answer.status(); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Message, "spec.template: Required value") {
			t.Errorf("got %+v", got)
		}
	})
}
