package kubelet_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {version: "%s"}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: "%s"}
`

func writeManifest(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStatic_PodsHaveMirrors(t *testing.T) {
	c, dir := startCluster(t), t.TempDir()
	writeManifest(t, dir, "web.yaml", fmt.Sprintf(manifest, "1", "one"))
	writeManifest(t, dir, ".hidden.yaml", strings.ReplaceAll(fmt.Sprintf(manifest, "1", "one"), "web", "hidden"))
	writeManifest(t, dir, "broken.yaml", "kind: Pod\napiVersion: v1\n")
	runtime := simulated.New(network)
	stop := c.run(t, runtime, func(config *kubelet.Config) { config.StaticPodPath = dir })
	first := c.wait(t, "web-node-1", "runs", func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodRunning })
	hash := first.Annotations["kubernetes.io/config.hash"]
	if first.Annotations["kubernetes.io/config.source"] != "file" || hash == "" || first.Annotations["kubernetes.io/config.mirror"] != hash ||
		first.Annotations["kubernetes.io/config.seen"] == "" || len(first.OwnerReferences) != 1 || first.OwnerReferences[0].Kind != "Node" {
		t.Errorf("mirror: %+v", first.ObjectMeta)
	}

	c.remove(t, "web-node-1", 0)
	second := c.wait(t, "web-node-1", "is there again", func(p *corev1.Pod) bool {
		return p != nil && p.UID != first.UID && p.Status.Phase == corev1.PodRunning
	})
	if only(second).ContainerID != only(first).ContainerID {
		t.Error("who deletes a mirror restarts the pod")
	}

	stop()
	stop = c.run(t, runtime, func(config *kubelet.Config) { config.StaticPodPath = dir })
	c.create(t, "other", nil)
	c.waitPhase(t, "other", corev1.PodRunning)
	if third := c.get(t, "web-node-1"); third.UID != second.UID || only(third).ContainerID != only(first).ContainerID || !third.Status.StartTime.Equal(first.Status.StartTime) {
		t.Errorf("after a restart of the kubelet: %+v", third)
	}

	writeManifest(t, dir, "web.yaml", fmt.Sprintf(manifest, "2", "two"))
	c.wait(t, "web-node-1", "is the changed one", func(p *corev1.Pod) bool {
		return p != nil && p.Labels["version"] == "2" && only(p).Image == "two" && p.Status.Phase == corev1.PodRunning
	})
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	c.waitGone(t, "web-node-1")
	pods, err := runtime.Pods(t.Context())
	if err != nil || len(pods) != 1 || pods[0].Name != "other" {
		t.Errorf("the runtime has %v, %v", pods, err)
	}
	if pod := c.get(t, "hidden-node-1"); pod != nil {
		t.Error("a hidden file was read")
	}
	stop()
}

// refuser lets nobody in.
type refuser struct{}

func (refuser) Admit(*corev1.Pod, []*corev1.Pod) *kubelet.Refusal {
	return &kubelet.Refusal{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu"}
}

func TestStatic_RejectedPodsHaveMirrors(t *testing.T) {
	c, dir := startCluster(t), t.TempDir()
	writeManifest(t, dir, "web.yaml", fmt.Sprintf(manifest, "1", "one"))
	c.run(t, simulated.New(network), func(config *kubelet.Config) {
		config.StaticPodPath = dir
		config.Parts.Admitters = []kubelet.Admitter{refuser{}}
	})
	pod := c.waitPhase(t, "web-node-1", corev1.PodFailed)
	if pod.Status.Reason != "OutOfcpu" || pod.Status.Message != "Pod was rejected: Node didn't have enough resource: cpu" {
		t.Errorf("status: %+v", pod.Status)
	}
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	c.waitGone(t, "web-node-1")
}

func TestStatic_MirrorsOfNothingGo(t *testing.T) {
	c, dir := startCluster(t), t.TempDir()
	writeManifest(t, dir, "web.yaml", fmt.Sprintf(manifest, "1", "one"))
	stop := c.run(t, simulated.New(network), func(config *kubelet.Config) { config.StaticPodPath = dir })
	c.waitPhase(t, "web-node-1", corev1.PodRunning)
	stop()
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	c.run(t, simulated.New(network), func(config *kubelet.Config) { config.StaticPodPath = dir })
	c.waitGone(t, "web-node-1")
}

// Who writes `kubectl get` of a mirror into a manifest gets a pod, as without the annotations.
func TestStatic_ManifestOfAMirror(t *testing.T) {
	c, dir := startCluster(t), t.TempDir()
	c.run(t, simulated.New(network), func(config *kubelet.Config) { config.StaticPodPath = dir })
	c.create(t, "other", nil)
	writeManifest(t, dir, "web.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","uid":"0123","annotations":{"kubernetes.io/config.mirror":"0123"}},
		"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	c.waitPhase(t, "web-node-1", corev1.PodRunning)
}

func TestStatic_PodsRunWithoutAPIServer(t *testing.T) {
	nobody := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t))
	dir, runtime := t.TempDir(), simulated.New(network)
	writeManifest(t, dir, "web.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	k, err := kubelet.New(kubelet.Config{Server: &rest.Config{Host: "https://" + nobody}, NodeName: "node-1", Runtime: runtime, StaticPodPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	eventually.True(t, "the pod runs", func() bool {
		pod := k.Pod("default", "web-node-1")
		return pod != nil && pod.Status.Phase == corev1.PodRunning
	})
	cancel()
	<-done
}

func TestManifests_MayNotReferenceObjects(t *testing.T) {
	c, dir := startCluster(t), t.TempDir()
	for name, spec := range map[string]string{
		"secret": `"volumes":[{"name":"v","secret":{"secretName":"s"}}]`, "map": `"volumes":[{"name":"v","configMap":{"name":"s"}}]`,
		"account": `"serviceAccountName":"s"`, "pull": `"imagePullSecrets":[{"name":"s"}]`,
	} {
		writeManifest(t, dir, name+".json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"i"}],`+spec+`}}`)
	}
	writeManifest(t, dir, "zz.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"fine"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	c.run(t, simulated.New(network), func(config *kubelet.Config) { config.StaticPodPath = dir })
	c.waitPhase(t, "fine-node-1", corev1.PodRunning)
	pods, err := c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("pods: %v, %v", pods, err)
	}
}

// Of a manifest's fields that nobody heeds the node's log tells, once.
func TestManifests_FieldsOfDisabledFeatures(t *testing.T) {
	c, dir := startCluster(t), t.TempDir()
	writeManifest(t, dir, "web.yaml", fmt.Sprintf(manifest, "1", "one")+"  volumes:\n  - {name: v, emptyDir: {mode: 0700}}\n")
	var log strings.Builder
	stop := c.run(t, simulated.New(network), func(config *kubelet.Config) {
		config.StaticPodPath, config.Logger = dir, slog.New(slog.NewTextHandler(&log, nil))
	})
	pod := c.wait(t, "web-node-1", "runs", func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodRunning })
	stop()
	if pod.Spec.Volumes[0].EmptyDir.Mode != nil {
		t.Error("the mirror has the field")
	}
	if n := strings.Count(log.String(), "spec.volumes[0].emptyDir.mode: dropped"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}
