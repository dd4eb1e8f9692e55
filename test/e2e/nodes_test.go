package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
)

// TestTwoNodes has a node in this machine's network and one beside it, with a container runtime of its own.
func TestTwoNodes(t *testing.T) {
	manifests := t.TempDir()
	writeManifest(t, manifests, `containers: [{name: c, image: "demo:1"}]`)
	c := start(t, "--nodes", "2", "--pod-manifest-path", manifests)
	c.apply(manifest("one", `nodeName: node-1, containers: [{name: c, image: "demo:1", env: [{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]`) +
		manifest("two", `nodeName: node-2, containers: [{name: c, image: "demo:1", env: [{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]`))
	one, two := c.running("one"), c.running("two")
	for _, way := range [][2]*corev1.Pod{{one, two}, {two, one}} {
		from, to := way[0], way[1]
		page := c.demo(from.Name, "fetch", "http://"+to.Status.PodIP+":8080/")
		if !strings.Contains(page, "you: "+from.Status.PodIP+":") || !strings.Contains(page, "node: "+to.Spec.NodeName+"\n") {
			t.Errorf("pod %s asks %s: %q", from.Name, to.Name, page)
		}
		if page := c.demo(from.Name, "fetch", "http://"+to.Status.PodIP+":8080/headers"); !strings.Contains(page, "From: "+from.Status.PodIP+":") {
			t.Errorf("pod %s asks %s, which sees %q", from.Name, to.Name, page)
		}
		if log := c.Kubectl("logs", to.Name); !strings.Contains(log, "from="+from.Status.PodIP+":") {
			t.Errorf("log of %s: %q", to.Name, log)
		}
		c.forward("pod/"+to.Name, "8080", "node: "+to.Spec.NodeName+"\n")
	}
	c.mirrored("static-node-1", "node-1")
	c.mirrored("static-node-2", "node-2")
	lived := container(c.pod("two"), "c")
	c.Kill()
	c.Up()
	for _, name := range []string{"one", "two"} {
		if pod := c.running(name); container(pod, "c").RestartCount != 0 {
			t.Errorf("after a restart pod %s is %+v", name, pod.Status)
		}
	}
	if now := container(c.pod("two"), "c"); now.ContainerID != lived.ContainerID {
		t.Errorf("after a restart the container on the second node is %s, was %s", now.ContainerID, lived.ContainerID)
	}
	if out := c.demo("two", "fetch", "http://"+one.Status.PodIP+":8080/hostname"); out != "one\n" {
		t.Errorf("after a restart pod two asks one: %q", out)
	}

	c.cutPower()
	c.boot()
	c.Up()
	for _, name := range []string{"one", "two"} {
		c.untilPod(name, "started again", func(p *corev1.Pod) bool { return isReady(p) && container(p, "c").RestartCount == 1 })
	}
	one, two = c.pod("one"), c.pod("two")
	eventually.Nil(c.T, "pods reach each other again", func() error {
		for from, to := range map[string]*corev1.Pod{"one": two, "two": one} {
			out, errs, err := c.TryKubectl("", "exec", from, "--", "/demo", "fetch", "http://"+to.Status.PodIP+":8080/hostname")
			if err != nil || out != to.Name+"\n" {
				return fmt.Errorf("pod %s asks %s: %w\n%s%s", from, to.Name, err, out, errs)
			}
		}
		return nil
	})
}

// writeManifest puts a static pod into a directory.
func writeManifest(t *testing.T, dir, spec string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "static.yaml"), []byte(strings.TrimSuffix(manifest("static", spec), "---\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mirrored waits until the mirror of a static pod is ready.
func (c *cluster) mirrored(name, node string) *corev1.Pod {
	c.T.Helper()
	pod := c.untilPodThere(name, "ready", isReady)
	if owner := metav1.GetControllerOf(pod); pod.Spec.NodeName != node || pod.Annotations[corev1.MirrorPodAnnotationKey] == "" || owner == nil || owner.Kind != "Node" || owner.Name != node {
		c.T.Errorf("the mirror of a static pod is %+v", pod.ObjectMeta)
	}
	return pod
}

// untilPodThere is untilPod for a pod that may not be there yet.
func (c *cluster) untilPodThere(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	c.T.Helper()
	eventually.Nil(c.T, "pod "+name+" is there", func() error {
		_, err := c.Client().CoreV1().Pods(c.Namespace).Get(c.T.Context(), name, metav1.GetOptions{})
		return err
	})
	return c.untilPod(name, what, is)
}

// TestJoinedNode has a node that has joined by a token, with static pods, and a disk that is soon full.
func TestJoinedNode(t *testing.T) {
	c := start(t, "--nodes", "0")
	manifests, disk := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c.join("worker", "--root-dir", disk, "--pod-manifest-path", manifests, "--eviction-hard", "nodefs.available<25%", "--eviction-pressure-transition-period", "1s")

	// The address is this machine's, which is the API server's, too: nobody but a person may give it to a kubelet.
	eventually.Nil(c.T, "the kubelet asks for a serving certificate", func() error {
		requests, err := c.Client().CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
		if err == nil && len(requests.Items) == 0 {
			err = errors.New("it does not")
		}
		if err == nil {
			c.Kubectl("certificate", "approve", requests.Items[0].Name)
		}
		return err
	})

	t.Run("static pods", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		writeManifest(t, manifests, `containers: [{name: c, image: "demo:1"}]`)
		first := c.mirrored("static-worker", "worker")
		eventually.Nil(c.T, "the kubelet's server has its certificate", func() error {
			_, stderr, err := c.TryKubectl("", "logs", "static-worker")
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, stderr)
			}
			return err
		})
		if out := c.demo("static-worker", "env"); !strings.Contains(out, "DEMO_VERSION=1\n") {
			t.Errorf("environment of a static pod:\n%s", out)
		}
		if out := c.Kubectl("logs", "static-worker"); !strings.Contains(out, "msg=serving") {
			t.Errorf("log of a static pod: %q", out)
		}
		c.Kubectl("delete", "pod", "static-worker", "--wait=false") // only its mirror can be
		eventually.Nil(c.T, "another mirror", func() error {
			pod, err := c.Client().CoreV1().Pods(c.Namespace).Get(t.Context(), "static-worker", metav1.GetOptions{})
			if err == nil && pod.UID == first.UID {
				return errors.New("it is the one before")
			}
			return err
		})
		second := c.mirrored("static-worker", "worker")
		if a, b := container(first, "c"), container(second, "c"); a.ContainerID != b.ContainerID || b.RestartCount != 0 {
			t.Errorf("the static pod's container was %+v, is %+v", a, b)
		}
		writeManifest(t, manifests, `containers: [{name: c, image: "demo:2"}]`)
		eventually.Nil(c.T, "the changed pod runs", func() error {
			out, _, err := c.TryKubectl("", "exec", "static-worker", "--", "/demo", "env")
			if err == nil && !strings.Contains(out, "DEMO_VERSION=2\n") {
				err = errors.New(out)
			}
			return err
		})
		if err := os.Remove(filepath.Join(manifests, "static.yaml")); err != nil {
			t.Fatal(err)
		}
		eventually.Nil(c.T, "no mirror", func() error {
			if out := c.Kubectl("get", "pods", "-o", "name"); out != "" {
				return errors.New(out)
			}
			return nil
		})
	})

	t.Run("full disk", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		c.apply(manifest("small", `containers: [{name: c, image: "demo:1"}]`))
		c.running("small")
		c.apply(manifest("filler", `volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: "demo:1", args: [sh, -c, "fill /v/file 100; sleep 1000"], volumeMounts: [{name: v, mountPath: /v}]}]`))
		pressure := func(want corev1.ConditionStatus, reason string) {
			t.Helper()
			eventually.Nil(c.T, fmt.Sprintf("DiskPressure is %s", want), func() error {
				node, err := c.Client().CoreV1().Nodes().Get(t.Context(), "worker", metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, condition := range node.Status.Conditions {
					if condition.Type == corev1.NodeDiskPressure && condition.Status == want && condition.Reason == reason {
						return nil
					}
				}
				return fmt.Errorf("conditions: %+v", node.Status.Conditions)
			})
		}
		pod := c.untilPod("filler", "evicted", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		for _, part := range []string{"The node was low on resource: ephemeral-storage. Threshold quantity: ", ", available: ", ". Container c was using ", ", request is 0, has larger consumption of ephemeral-storage. "} {
			if pod.Status.Reason != "Evicted" || !strings.Contains(pod.Status.Message, part) {
				t.Errorf("the pod failed with %s: %q, want %q", pod.Status.Reason, pod.Status.Message, part)
			}
		}
		c.hasEvent("filler", "Evicted: The node was low on resource: ephemeral-storage. ")
		c.hasEvent("worker", "EvictionThresholdMet: Attempting to reclaim ephemeral-storage")
		pressure(corev1.ConditionFalse, "KubeletHasNoDiskPressure")
		if pod := c.pod("small"); !isReady(pod) || container(pod, "c").RestartCount != 0 {
			t.Errorf("who wrote nothing is %+v", pod.Status)
		}
		c.apply(manifest("next", `containers: [{name: c, image: "demo:1"}]`))
		c.running("next")
	})
}

// TestTwoNodes_Everywhere has the API server listen at all addresses, that of the network between the nodes among them.
func TestTwoNodes_Everywhere(t *testing.T) {
	c := start(t, "--nodes", "2", "--bind-address", "0.0.0.0")
	c.apply(manifest("two", `nodeName: node-2, containers: [{name: c, image: "demo:1"}]`))
	two := c.running("two")
	if page := c.demo("two", "fetch", "http://"+two.Status.PodIP+":8080/hostname"); page != "two\n" {
		t.Errorf("a pod of the second node says %q", page)
	}
}
