package downward

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
