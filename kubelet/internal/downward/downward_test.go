package downward

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rest is tested with the environments that are made of it.

func TestField_Maps(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"app": "web", "a.b/c": "d"}, Annotations: map[string]string{"note": "two\nlines \u00fc"},
	}}
	for path, want := range map[string]string{
		"metadata.labels":              `a.b/c="d"` + "\n" + `app="web"`,
		"metadata.annotations":         `note="two\nlines ü"`,
		"metadata.labels['a.b/c']":     "d",
		"metadata.annotations['note']": "two\nlines ü",
		"metadata.annotations['no']":   "",
	} {
		if got, err := Field(pod, path); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	if got, err := Field(pod, "metadata.labels['app"); err == nil {
		t.Errorf("a broken path gave %q", got)
	}
}

// TestResource_NoLimit: a container without a limit may use what the pod may, or else what the node has.
func TestResource_NoLimit(t *testing.T) {
	list := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	ref := &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.memory"}
	if got, err := Resource(pod, nil, ref, list("4k")); err != nil || got != "4000" {
		t.Errorf("of the node: %s, %v", got, err)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: list("1k")}
	if got, err := Resource(pod, nil, ref, list("4k")); err != nil || got != "1000" {
		t.Errorf("of the pod: %s, %v", got, err)
	}
}
