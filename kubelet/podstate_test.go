package kubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
)

// testPod has the init container i, the sidecar s when asked for, and the containers a and b.
func testPod(policy corev1.RestartPolicy, withInit, withSidecar bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Generation: 3},
		Spec:       corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "a", Image: "image"}, {Name: "b", Image: "image"}}},
	}
	if withInit {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "i", Image: "image"})
	}
	if withSidecar {
		restart := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "s", Image: "image", RestartPolicy: &restart})
	}
	return pod
}

// seen reads what the runtime shows: "i0 s+ a1 b+" is init container i exited with 0, s and b running, a exited with 1.
func seen(text string) observed {
	now := observed{sandbox: &Sandbox{Ready: true, IPs: []string{"10.0.0.9"}}, containers: map[string]*Container{}, previous: map[string]*Container{}}
	for i := 0; i+1 < len(text); i += 3 {
		c := &Container{ID: "id-" + text[i:i+1], Name: text[i : i+1], Requested: "image", Image: "image", State: ContainerExited, Started: time.Now(), Finished: time.Now()}
		switch how := text[i+1]; how {
		case '+':
			c.State = ContainerRunning
		case 'c':
			c.State = ContainerCreated
		default:
			c.ExitCode = int32(how - '0')
		}
		now.containers[c.Name] = c
	}
	return now
}

func TestPhase(t *testing.T) {
	const pending, running, succeeded, failed = corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed
	for _, test := range []struct {
		policy       corev1.RestartPolicy
		init, helper bool
		seen         string
		before       string // in a sandbox before
		waits        string // containers that wait for their image
		ending       bool
		want         corev1.PodPhase
		over         bool
	}{
		{policy: always, seen: "", want: pending},
		{policy: always, seen: "a+", want: pending}, // b has never been started
		{policy: always, seen: "a+ bc", want: pending},
		{policy: always, seen: "a+ b+", want: running},
		{policy: always, seen: "a1 b0", want: running}, // they are restarted
		{policy: always, seen: "a0 b0", ending: true, want: succeeded},
		{policy: always, seen: "a0 b1", ending: true, want: failed},
		{policy: always, seen: "a0 b+", ending: true, want: running}, // not before the last has ended
		{policy: onFailure, seen: "a0 b0", want: succeeded, over: true},
		{policy: onFailure, seen: "a0 b1", want: running},
		{policy: onFailure, seen: "a0 b1", ending: true, want: failed},
		{policy: never, seen: "a0 b+", want: running},
		{policy: never, seen: "a0 b0", want: succeeded, over: true},
		{policy: never, seen: "a2 b0", want: failed, over: true},
		{policy: never, seen: "a2", want: pending},

		{policy: always, init: true, seen: "", want: pending},
		{policy: always, init: true, seen: "i+", want: pending},
		{policy: always, init: true, seen: "i1", want: pending},
		{policy: onFailure, init: true, seen: "i1", want: pending},
		{policy: never, init: true, seen: "i1", want: failed, over: true},
		{policy: never, init: true, seen: "i0", want: pending},
		{policy: never, init: true, seen: "i0 a+ b+", want: running},
		{policy: always, init: true, seen: "i1 a+ b+", want: running}, // long past init

		{policy: never, helper: true, seen: "s+", want: pending},
		{policy: never, helper: true, seen: "s1", want: pending}, // it is restarted whatever the pod's policy
		{policy: never, helper: true, seen: "s+ a0 b0", want: running, over: true},
		{policy: never, helper: true, seen: "s1 a0 b0", want: succeeded, over: true}, // how a sidecar ends does not matter
		{policy: never, init: true, helper: true, seen: "i1 s+", want: pending, over: true},
		{policy: never, init: true, helper: true, seen: "i1 s0", want: failed, over: true},

		// The sandbox is another one (getPhase in kubelet_pods.go, TestPodPhaseWithRestartAlwaysAndPodHasRun).
		{policy: always, seen: "", before: "a2 b2", want: running},
		{policy: always, seen: "", before: "a2 b2", waits: "ab", want: running},
		{policy: always, seen: "a+", before: "b2", want: running},
		{policy: always, seen: "a+ bc", before: "b2", want: running},
		{policy: always, seen: "ac bc", waits: "ab", want: pending}, // neither has ever run
		{policy: onFailure, seen: "b+", before: "a0 b2", want: running},
		{policy: onFailure, seen: "b0", before: "a0 b2", want: succeeded},
		{policy: always, init: true, seen: "", before: "i0 a2 b2", want: running},
		{policy: always, init: true, seen: "", before: "i0 a2 b2", waits: "i", want: running},
		{policy: always, init: true, seen: "i+", before: "a2 b2", want: pending}, // init runs once more
		{policy: always, init: true, seen: "i1", before: "a2 b2", want: running}, // ... and is about to be started again
		{policy: always, init: true, seen: "i0", before: "a2 b2", want: running},
		{policy: always, helper: true, seen: "", before: "s2 a2 b2", want: running},
		{policy: always, helper: true, seen: "s+", before: "a2 b2", want: running},
		{policy: always, helper: true, seen: "s+ a+", before: "b2", want: running},
	} {
		pod, now := testPod(test.policy, test.init, test.helper), seen(test.seen)
		now.previous = seen(test.before).containers
		w := testWorker(pod)
		w.ended = test.ending
		for _, name := range test.waits {
			w.waiting[string(name)] = &waiting{reason: "ErrImagePull"}
		}
		if got := w.podStatus(pod, now, false).Phase; got != test.want {
			t.Errorf("%s %q after %q: %s, want %s", test.policy, test.seen, test.before, got, test.want)
		}
		if test.before != "" {
			continue
		}
		if got := compute(pod, now).end; got != test.over {
			t.Errorf("%s %q: over %t", test.policy, test.seen, got)
		}
	}
}

func TestEarliest(t *testing.T) {
	if got := earliest(); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	if got := earliest(0, 3, 0, 2); got != 2 {
		t.Errorf("zero stands for none, but got %v", got)
	}
}

func TestGrace(t *testing.T) {
	pod := testPod(always, false, false)
	if got := deletionGrace(pod); got != 30*time.Second {
		t.Errorf("default: %v", got)
	}
	spec, deletion := int64(7), int64(2)
	pod.Spec.TerminationGracePeriodSeconds = &spec
	if got := deletionGrace(pod); got != 7*time.Second {
		t.Errorf("of the spec: %v", got)
	}
	pod.DeletionGracePeriodSeconds = new(int64)
	if got := deletionGrace(pod); got != 7*time.Second {
		t.Errorf("of a deletion by force: %v", got)
	}
	pod.DeletionGracePeriodSeconds = &deletion
	if got := deletionGrace(pod); got != 2*time.Second {
		t.Errorf("of the deletion: %v", got)
	}
	spec, pod.DeletionGracePeriodSeconds = 0, nil
	if got := deletionGrace(pod); got != time.Second {
		t.Errorf("of a spec that asks for none: %v", got)
	}
}
