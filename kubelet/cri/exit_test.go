package cri

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"vigil/kubelet"
)

// Every way in which a container can end or not begin has upstream's reason and exit code.
func TestEnds(t *testing.T) {
	n := startNode(t, nil)
	const path = "/dev/termination-log"
	tests := []struct {
		name   string
		args   []string
		change func(*corev1.Container)

		failed        string // reason of the error of creating or starting
		exitCode      int32
		reason        string
		message, part string // of the container: all of it, or a part
		says          string
	}{
		{name: "completes", args: []string{"exit", "0"}, reason: "Completed"},
		{name: "fails", args: []string{"exit", "4"}, exitCode: 4, reason: "Error"},
		{name: "leaves-a-message", args: []string{"write", path, "all", "is", "well"}, reason: "Completed", message: "all is well\n"},
		{name: "leaves-it-elsewhere", args: []string{"write", "/tmp/last words", "here"}, reason: "Completed", message: "here\n",
			change: func(c *corev1.Container) { c.TerminationMessagePath = "/tmp/last words" }},
		{name: "falls-back-to-its-log", args: []string{"sh", "-c", "echo one; echo two; exit 1"}, exitCode: 1, reason: "Error", part: "two",
			change: func(c *corev1.Container) {
				c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}},
		{name: "does-not-exist", failed: "RunContainerError", exitCode: 128, reason: "StartError", part: "no-such-program", says: "executable file not found",
			change: func(c *corev1.Container) { c.Command, c.Args = []string{"no-such-program"}, nil }},
		{name: "runs-out-of-memory", args: []string{"hog", "256"}, exitCode: 137, reason: "OOMKilled",
			change: func(c *corev1.Container) {
				c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}
				c.Resources.Requests = c.Resources.Limits
			}},
		{name: "must-not-be-root", failed: "CreateContainerConfigError", says: "container has runAsNonRoot and image will run as root (pod: \"must-not-be-root_default(",
			change: func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)} }},
		{name: "must-not-be-0", failed: "CreateContainerConfigError", says: "container's runAsUser breaks non-root policy",
			change: func(c *corev1.Container) {
				c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}
			}},
		{name: "never-pulled", failed: "ErrImageNeverPull", says: `Container image "elsewhere:9" is not present with pull policy of Never`,
			change: func(c *corev1.Container) { c.Image, c.ImagePullPolicy = "elsewhere:9", corev1.PullNever }},
		{name: "badly-named", failed: "InvalidImageName", says: `Failed to apply default image tag "A B"`,
			change: func(c *corev1.Container) { c.Image = "A B" }},
		{name: "nowhere", failed: "ErrImagePull", says: "connection refused",
			change: func(c *corev1.Container) { c.Image = "127.0.0.1:1/nowhere:1" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod(test.name, test.args)
			c := &pod.Spec.Containers[0]
			if test.change != nil {
				test.change(c)
			}
			if _, err := n.RunSandbox(n.context(), pod, sandboxOptions(pod)); err != nil {
				t.Fatal(err)
			}
			id, err := n.start(pod, c, 0)
			if reason := reasonOf(err); reason != test.failed || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Fatalf("failed with %s: %v", reason, err)
			}
			if test.reason == "" {
				return
			}
			containers := n.await(pod.UID, "the container has ended", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
				return stateOf(c, id) != nil && stateOf(c, id).State == kubelet.ContainerExited
			})
			got := stateOf(containers, id)
			if got.ExitCode != test.exitCode || got.Reason != test.reason || test.part == "" && got.Message != test.message || !strings.Contains(got.Message, test.part) {
				t.Errorf("ended with %d, %s, %q", got.ExitCode, got.Reason, got.Message)
			}
			if err := n.RemovePod(n.context(), pod.UID); err != nil {
				t.Error(err)
			}
		})
	}
}

func reasonOf(err error) string {
	var image *kubelet.ImageError
	var container *kubelet.ContainerError
	switch {
	case errors.As(err, &image):
		return image.Reason
	case errors.As(err, &container):
		return container.Reason
	case err != nil:
		return "other"
	}
	return ""
}
