package kubelet_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A pod that is deleted by force is gone from the API at once. On the node it ends as its spec says, hooks included: the node may be
// the only one that knows of data which is not written yet.
func TestDeletion_ByForce(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{name: "default", want: "exec bye in c, stop c 30s, stop sandbox"},
		{name: "own grace", change: func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(7)) }, want: "exec bye in c, stop c 7s, stop sandbox"},
		{name: "no grace of its own", change: func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) }, want: "exec bye in c, stop c 2s, stop sandbox"},
		{name: "held by a finalizer", change: func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }, want: "exec bye in c, stop c 30s, stop sandbox"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, r := startCluster(t), record()
			c.run(t, r, nil)
			c.create(t, "p", func(p *corev1.Pod) {
				p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: exec("bye")}
				if test.change != nil {
					test.change(p)
				}
			})
			c.waitPhase(t, "p", corev1.PodRunning)
			c.remove(t, "p", 0)
			expectDiary(t, r, test.want, "exec", "stop")
		})
	}
}

// Of a pod that the API server has forgotten while no kubelet ran, nobody knows what it wants.
func TestDeletion_WhileNoKubeletRuns(t *testing.T) {
	c, r := startCluster(t), record()
	stop := c.run(t, r, nil)
	c.create(t, "p", nil)
	c.waitPhase(t, "p", corev1.PodRunning)
	stop()
	c.remove(t, "p", 0)
	c.run(t, r, nil)
	expectDiary(t, r, "stop c 2s, stop sandbox", "stop")
}
