package env

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestCommand(t *testing.T) {
	container := &corev1.Container{Command: []string{"run", "$(A)"}, Args: []string{"--x=$(B)", "$$(A)"}}
	container.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	pod := testPod(*container)
	_, command, args, err := (&Maker{}).Container(t.Context(), pod, container)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run", "1"}, command); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"--x=$(B)", "$(A)"}, args); diff != "" {
		t.Error(diff)
	}
	if container.Command[1] != "$(A)" {
		t.Error("the container was changed")
	}
}
