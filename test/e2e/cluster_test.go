package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/built"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/test/harness"
)

// TestMain lets eight tests wait at once, unless -parallel says otherwise: they wait for the cluster more than they work.
func TestMain(m *testing.M) {
	nstest.Enter()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// cluster is one with real containers.
type cluster struct{ *harness.Cluster }

// start runs `vigil up` in a fresh directory and waits until it is ready. The machine is a namespace: its address is that of a
// link to a namespace beside it, through which its default route leads.
func start(t testing.TB, args ...string) *cluster {
	t.Helper()
	nstest.Need(t)
	outside(t)
	c := &cluster{harness.New(t, append([]string{"--runtime", "containerd", "--runtime-dir", built.RuntimeDir(t), "--eviction-hard", "memory.available<50Mi"}, args...)...)}
	c.Namespace = "default"
	t.Cleanup(c.remove)
	c.Up()
	return c
}

// within is the cluster for a test of its own, in a namespace of its own. The namespace goes when the cluster goes.
func (c *cluster) within(t *testing.T, namespace string) *cluster {
	t.Helper()
	w := &cluster{c.For(t, namespace)}
	w.Kubectl("create", "namespace", namespace)
	eventually.Nil(w.T, "the account of pods", func() error {
		_, err := w.Client().CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"get", "events"}, {"get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name}{\": \"}{.status}{\"\\n\"}{end}"}} {
				out, _, _ := w.TryKubectl("", args...) // what there is
				t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
			}
		}
	})
	return w
}

// remove ends the cluster and everything it has on this machine.
func (c *cluster) remove() {
	if c.T.Failed() {
		c.describe()
	}
	c.Kill()
	if out, err := exec.Command(built.Program(c.T), "down", "--data-dir", c.DataDir).CombinedOutput(); err != nil {
		c.T.Errorf("vigil down: %v\n%s", err, out)
	}
	// The next test is not to meet it.
	if mounts, state := c.mounts(), c.state(); len(mounts) > 0 || len(state) > 0 {
		c.T.Errorf("vigil down has left the mounts %v, and %v", mounts, state)
		c.boot()
	}
}

// describe prints what may explain a failure.
func (c *cluster) describe() {
	for _, args := range [][]string{{"get", "pods,nodes", "-A", "-o", "wide"}, {"get", "events", "-A"}} {
		if out, _, err := c.TryKubectl("", args...); err == nil {
			c.T.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
		}
	}
}

// demo runs a command of the demo image in the first container of a pod, and returns its output.
func (c *cluster) demo(pod string, args ...string) string {
	c.T.Helper()
	return c.Kubectl(append([]string{"exec", pod, "--", "/demo"}, args...)...)
}

// manifest is a pod with a field "spec" in YAML's flow style, without the braces.
func manifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %[1]s, labels: {app: %[1]s}}\nspec: {terminationGracePeriodSeconds: 1, %[2]s}\n---\n", name, spec)
}

// container is the status of a container of any kind; an empty one when there is none.
func container(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return list[i]
			}
		}
	}
	return corev1.ContainerStatus{}
}

// waits waits until a container waits for a reason, and returns the pod.
func (c *cluster) waits(pod, containerName, reason string) *corev1.Pod {
	c.T.Helper()
	return c.untilPod(pod, containerName+" waits with "+reason, func(p *corev1.Pod) bool {
		waiting := container(p, containerName).State.Waiting
		return waiting != nil && waiting.Reason == reason
	})
}

// isReady says whether a pod's condition Ready is true.
func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// apply applies manifests.
func (c *cluster) apply(manifests string) {
	c.T.Helper()
	c.KubectlIn(manifests, "apply", "-f", "-")
}

// pod reads a pod.
func (c *cluster) pod(name string) *corev1.Pod {
	c.T.Helper()
	pod, err := c.Client().CoreV1().Pods(c.Namespace).Get(c.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.T.Fatal(err)
	}
	return pod
}

// running waits until a pod is ready and returns it.
func (c *cluster) running(name string) *corev1.Pod {
	c.T.Helper()
	c.Kubectl("wait", "--for=condition=Ready", harness.InTime, "pod/"+name)
	return c.pod(name)
}

// untilPod waits until a pod is as wanted, and returns it.
func (c *cluster) untilPod(name, what string, is func(pod *corev1.Pod) bool) *corev1.Pod {
	c.T.Helper()
	var pod *corev1.Pod
	eventually.Nil(c.T, what, func() error {
		if pod = c.pod(name); !is(pod) {
			return fmt.Errorf("pod %s has the status %+v", name, pod.Status)
		}
		return nil
	})
	return pod
}

// events are the reasons and messages of the events of a pod, "Reason: message".
func (c *cluster) events(pod string) []string {
	c.T.Helper()
	list, err := c.Client().CoreV1().Events(c.Namespace).List(c.T.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		c.T.Fatal(err)
	}
	texts := make([]string, len(list.Items))
	for i := range list.Items {
		texts[i] = list.Items[i].Reason + ": " + list.Items[i].Message
	}
	return texts
}

// hasEvent waits for an event of a pod that contains text.
func (c *cluster) hasEvent(pod, text string) {
	c.T.Helper()
	eventually.Nil(c.T, "event "+text, func() error {
		all := strings.Join(c.events(pod), "\n")
		if !strings.Contains(all, text) {
			return errors.New("events of " + pod + ":\n" + all)
		}
		return nil
	})
}
