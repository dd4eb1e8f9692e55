package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
	"vigil/kubelet"
)

// failing is a runtime that makes no more sandboxes, or gets no more images, when told so.
type failing struct {
	*recorded
	sandboxes, images chan struct{} // closed: they fail
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (f failing) RunSandbox(ctx context.Context, p *corev1.Pod, options kubelet.SandboxOptions) (*kubelet.Sandbox, error) {
	if closed(f.sandboxes) {
		f.diary.write("sandbox fails")
		return nil, errors.New("no room")
	}
	return f.recorded.RunSandbox(ctx, p, options)
}

func (f failing) EnsureImage(ctx context.Context, request kubelet.ImageRequest) (kubelet.Image, error) {
	if closed(f.images) {
		return kubelet.Image{}, &kubelet.ImageError{Reason: "ErrImagePull", Message: "gone"}
	}
	return f.recorded.EnsureImage(ctx, request)
}

// history returns what returns every phase that the API server has shown of a pod until an object of it.
func (c cluster) history(t *testing.T, name string) func(last *corev1.Pod) []corev1.PodPhase {
	t.Helper()
	watch, err := c.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return func(last *corev1.Pod) []corev1.PodPhase {
		defer watch.Stop()
		var phases []corev1.PodPhase
		for event := range watch.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if len(phases) == 0 || phases[len(phases)-1] != pod.Status.Phase {
				phases = append(phases, pod.Status.Phase)
			}
			if pod.ResourceVersion == last.ResourceVersion {
				return phases
			}
		}
		t.Errorf("the watch of pod %s ended before it showed resource version %s", name, last.ResourceVersion)
		return phases
	}
}

// A pod that has run does not go back to Pending when its next sandbox or image is not to be had: it would leave the protection of
// its disruption budget.
func TestPhase_StaysWhenWhatComesNextFails(t *testing.T) {
	for _, test := range []struct {
		name  string
		fails func(*testing.T, cluster, failing, *kubelet.Kubelet, *corev1.Pod)
		shows string // in the status of the container
	}{
		{name: "the sandbox dies and there is no other", shows: "exit 0", fails: func(t *testing.T, _ cluster, f failing, k *kubelet.Kubelet, p *corev1.Pod) {
			close(f.sandboxes)
			f.die(p.UID)
			k.LookAtAll()
			eventually.True(t, "another sandbox is tried", func() bool { return strings.HasPrefix(f.diary.read("sandbox"), "sandbox in , sandbox fails") })
		}},
		{name: "the sandbox dies and the image is gone", shows: "ErrImagePull", fails: func(_ *testing.T, _ cluster, f failing, k *kubelet.Kubelet, p *corev1.Pod) {
			close(f.images)
			f.die(p.UID)
			k.LookAtAll()
		}},
		{name: "the next image is not there", shows: "ErrImagePull", fails: func(t *testing.T, c cluster, f failing, _ *kubelet.Kubelet, p *corev1.Pod) {
			close(f.images)
			c.image(t, p.Name, "another")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := startCluster(t)
			f := failing{recorded: record(), sandboxes: make(chan struct{}), images: make(chan struct{})}
			k := c.start(t, f, nil)
			c.create(t, "p", nil)
			pod := c.waitPhase(t, "p", corev1.PodRunning)
			phases := c.history(t, "p")
			test.fails(t, c, f, k, pod)
			pod = c.wait(t, "p", "shows "+test.shows, func(p *corev1.Pod) bool {
				s := only(p)
				return s.State.Waiting != nil && s.State.Waiting.Reason == test.shows || s.State.Terminated != nil && test.shows == "exit 0"
			})
			if s := only(pod); s.State.Waiting != nil && (s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ContainerID == "") {
				t.Errorf("how the container ended is not told: %+v", s)
			}
			if s := only(pod); s.Ready || has(pod, corev1.PodReady, corev1.ConditionTrue) {
				t.Error("the pod is still ready")
			}
			if got := phases(pod); !slices.Equal(got, []corev1.PodPhase{corev1.PodRunning}) {
				t.Errorf("the phase was %v", got)
			}
		})
	}
}

// While all containers of a pod begin anew the pod runs, whatever its restart policy, and the containers tell why they are gone.
func TestPhase_StaysWhenAllContainersBeginAnew(t *testing.T) {
	c, r := startCluster(t), record()
	never := corev1.ContainerRestartPolicyNever
	c.run(t, r, nil)
	c.create(t, "p", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: "a-watcher", Image: "image", Command: []string{"sh", "-c", "sleep 1; exit 88"}, RestartPolicy: &never,
			RestartPolicyRules: []corev1.ContainerRestartRule{{
				Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
			}},
		})
	})
	c.waitPhase(t, "p", corev1.PodRunning)
	phases := c.history(t, "p")
	pod := c.wait(t, "p", "runs again", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[1].RestartCount == 1 && has(p, corev1.PodReady, corev1.ConditionTrue)
	})
	for _, s := range pod.Status.ContainerStatuses {
		if last := s.LastTerminationState.Terminated; last == nil || last.Reason != "RestartingAllContainers" {
			t.Errorf("%s ended with %+v", s.Name, last)
		}
	}
	if names := []string{pod.Status.ContainerStatuses[0].Name, pod.Status.ContainerStatuses[1].Name}; !slices.Equal(names, []string{"a-watcher", "c"}) {
		t.Errorf("statuses of %v, not in the order of the names", names)
	}
	if got := phases(pod); !slices.Equal(got, []corev1.PodPhase{corev1.PodRunning}) {
		t.Errorf("the phase was %v", got)
	}
}

// Conditions of a pod stand in upstream's order: those of others, then the kubelet's.
func TestConditions_Order(t *testing.T) {
	c, r := startCluster(t), record()
	c.run(t, r, nil)
	c.create(t, "p", nil)
	pod := c.waitPhase(t, "p", corev1.PodRunning)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse // the kubelet mends it
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	if _, err := c.client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []corev1.PodConditionType{
		"example.com/gate", corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	}
	var got []corev1.PodConditionType
	eventually.Nil(t, "order of conditions", says(func() bool {
		got = nil
		for _, condition := range c.get(t, "p").Status.Conditions {
			got = append(got, condition.Type)
		}
		return slices.Equal(got, want)
	}, func() string { return fmt.Sprint(got) }))
}
