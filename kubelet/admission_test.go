package kubelet_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"vigil/kubelet"
	"vigil/kubelet/admit"
	"vigil/kubelet/simulated"
)

// admitting makes a node with one core decide about its pods.
func admitting(config *kubelet.Config) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("10")}}}
	node.Name = config.NodeName
	config.Parts.Admitters = []kubelet.Admitter{&admit.Node{Get: func() (*corev1.Node, error) { return node, nil }}}
}

func wanting(cpu string, annotations map[string]string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		for key, value := range annotations {
			pod.Annotations[key] = value
		}
	}
}

func TestAdmission_Rejects(t *testing.T) {
	c := startCluster(t)
	c.run(t, simulated.New(network), admitting)
	c.create(t, "first", wanting("600m", nil))
	c.waitPhase(t, "first", corev1.PodRunning)
	c.create(t, "second", wanting("600m", nil))
	pod := c.waitPhase(t, "second", corev1.PodFailed)
	const why = "Node didn't have enough resource: cpu, requested: 600, used: 600, capacity: 1000"
	if pod.Status.Reason != "OutOfcpu" || pod.Status.Message != "Pod was rejected: "+why || len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].ContainerID != "" {
		t.Errorf("its status is %+v", pod.Status)
	}
	c.hasEvent(t, "second", "OutOfcpu", why)
	c.remove(t, "first", 0)
	c.waitGone(t, "first")
	c.create(t, "third", wanting("600m", nil))
	c.waitPhase(t, "third", corev1.PodRunning)
}

// A pod of a manifest starts when those in whose place it is have ended.
func TestAdmission_Preempts(t *testing.T) {
	c := startCluster(t)
	manifests := t.TempDir()
	c.run(t, simulated.New(network), func(config *kubelet.Config) {
		admitting(config)
		config.StaticPodPath = manifests
	})
	c.create(t, "small", wanting("300m", nil))
	c.create(t, "large", wanting("600m", nil))
	c.waitPhase(t, "small", corev1.PodRunning)
	c.waitPhase(t, "large", corev1.PodRunning)
	manifest := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "critical"}, "spec": {"containers": [{"name": "c", "image": "image", "resources": {"requests": {"cpu": "500m"}}}]}}`
	if err := os.WriteFile(filepath.Join(manifests, "critical.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	critical := c.waitPhase(t, "critical-node-1", corev1.PodRunning)
	victim := c.waitPhase(t, "large", corev1.PodFailed)
	if victim.Status.Reason != "Preempting" || victim.Status.Message != "Preempted in order to admit critical pod" {
		t.Errorf("its status is %+v", victim.Status)
	}
	c.hasEvent(t, "large", "Preempting", "Preempted in order to admit critical pod")
	ended, started := victim.Status.ContainerStatuses[0].State.Terminated, critical.Status.ContainerStatuses[0].State.Running
	if ended == nil || started == nil || started.StartedAt.Add(time.Second).Before(ended.FinishedAt.Time) {
		t.Errorf("the critical pod has %+v, its victim %+v", started, ended)
	}
	if small := c.get(t, "small"); small.Status.Phase != corev1.PodRunning {
		t.Errorf("another pod is %s", small.Status.Phase)
	}
}

// Only manifests make pods critical: not what an annotation says of them.
func TestAdmission_Claims(t *testing.T) {
	c := startCluster(t)
	c.run(t, simulated.New(network), admitting)
	c.create(t, "first", wanting("600m", nil))
	c.waitPhase(t, "first", corev1.PodRunning)
	c.create(t, "liar", wanting("600m", map[string]string{"kubernetes.io/config.source": "file"}))
	c.waitPhase(t, "liar", corev1.PodFailed)
	if first := c.get(t, "first"); first.Status.Phase != corev1.PodRunning {
		t.Errorf("the other pod is %s", first.Status.Phase)
	}
}
