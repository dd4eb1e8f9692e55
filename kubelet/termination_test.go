package kubelet_test

import (
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
)

// Readiness is asked for while a pod ends, as upstream does, and liveness is not.
func TestReadiness_IsToldWhileThePodEnds(t *testing.T) {
	c, r := startCluster(t), record()
	release := make(chan struct{})
	var ending, asked atomic.Bool
	r.hook = func(command []string) (int, error) {
		switch command[0] {
		case "drain":
			ending.Store(true)
			<-release
		case "ready":
			if ending.Load() {
				return 1, nil
			}
		case "alive":
			asked.Store(asked.Load() || ending.Load())
		}
		return 0, nil
	}
	c.run(t, r, func(config *kubelet.Config) { config.RootDir = t.TempDir() })
	probe := func(command string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}}, PeriodSeconds: 1, FailureThreshold: 1}
	}
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].LivenessProbe = probe("ready"), probe("alive")
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: exec("drain")}
	})
	c.wait(t, "p", "is ready", func(p *corev1.Pod) bool { return has(p, corev1.PodReady, corev1.ConditionTrue) })
	c.remove(t, "p", 30)
	pod := c.wait(t, "p", "is not ready any more", func(p *corev1.Pod) bool { return has(p, corev1.PodReady, corev1.ConditionFalse) })
	if s := only(pod); pod.DeletionTimestamp == nil || pod.Status.Phase != corev1.PodRunning || s.Ready || s.State.Running == nil {
		t.Errorf("while it drains: %+v", pod.Status)
	}
	if got := r.diary.read("stop"); got != "" {
		t.Errorf("it was stopped before the hook has ended: %s", got)
	}
	close(release)
	c.waitGone(t, "p")
	if asked.Load() {
		t.Error("it was asked whether it lives")
	}
	if !slices.Contains([]string{"stop c 30s, stop sandbox", "stop c 29s, stop sandbox", "stop c 28s, stop sandbox", "stop c 27s, stop sandbox"}, r.diary.read("stop")) {
		t.Errorf("end: %s", r.diary.read("stop"))
	}
}
