package kubelet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testWorker(pod *corev1.Pod) *worker {
	return newWorker(&Kubelet{config: Config{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "node"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"},
	}}}, pod)
}

// tell writes a status down, one line for what people look at.
func tell(s corev1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Phase)
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range statuses {
			fmt.Fprintf(&b, "%s ready=%t started=%t", c.Name, c.Ready, *c.Started)
			switch {
			case c.State.Waiting != nil:
				fmt.Fprintf(&b, " %s", c.State.Waiting.Reason)
			case c.State.Running != nil:
				b.WriteString(" running")
			case c.State.Terminated != nil:
				fmt.Fprintf(&b, " exit %d", c.State.Terminated.ExitCode)
			}
			if last := c.LastTerminationState.Terminated; last != nil {
				fmt.Fprintf(&b, ", before: exit %d", last.ExitCode)
			}
			b.WriteString("\n")
		}
	}
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "%s=%s %s\n", c.Type, c.Status, strings.TrimSpace(c.Reason+" "+c.Message))
	}
	return b.String()
}

func TestPodStatus(t *testing.T) {
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		now    observed
		change func(*worker, *corev1.Pod)
		final  bool
		want   string
	}{
		{
			name: "just arrived", pod: testPod(always, false, false),
			want: `Pending
a ready=false started=false ContainerCreating
b ready=false started=false ContainerCreating
PodReadyToStartContainers=False 
Initialized=True 
Ready=False ContainersNotReady containers with unready status: [a b]
ContainersReady=False ContainersNotReady containers with unready status: [a b]
PodScheduled=True 
`,
		},
		{
			name: "running", pod: testPod(always, false, false), now: seen("a+ b+"),
			want: `Running
a ready=true started=true running
b ready=true started=true running
PodReadyToStartContainers=True 
Initialized=True 
Ready=True 
ContainersReady=True 
PodScheduled=True 
`,
		},
		{
			name: "readiness gates", pod: testPod(always, false, false), now: seen("a+ b+"),
			change: func(_ *worker, p *corev1.Pod) {
				p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/open"}, {ConditionType: "x/shut"}, {ConditionType: "x/none"}}
				p.Status.Conditions = []corev1.PodCondition{{Type: "x/open", Status: corev1.ConditionTrue}, {Type: "x/shut", Status: corev1.ConditionFalse}}
			},
			want: `Running
a ready=true started=true running
b ready=true started=true running
x/open=True 
x/shut=False 
PodReadyToStartContainers=True 
Initialized=True 
Ready=False ReadinessGatesNotReady the status of pod readiness gate "x/shut" is not "True", but False, corresponding condition of pod readiness gate "x/none" does not exist.
ContainersReady=True 
PodScheduled=True 
`,
		},
		{
			name: "initializing", pod: testPod(always, true, true), now: seen("i0"),
			want: `Pending
i ready=true started=false exit 0
s ready=false started=false PodInitializing
a ready=false started=false PodInitializing
b ready=false started=false PodInitializing
PodReadyToStartContainers=True 
Initialized=False ContainersNotInitialized containers with incomplete status: [s]
Ready=False ContainersNotReady containers with unready status: [s a b]
ContainersReady=False ContainersNotReady containers with unready status: [s a b]
PodScheduled=True 
`,
		},
		{
			name: "crash loop", pod: testPod(always, false, false), now: seen("a1 b+"),
			change: func(w *worker, _ *corev1.Pod) { w.backoff.restarted("a") },
			want: `Running
a ready=false started=false CrashLoopBackOff, before: exit 1
b ready=true started=true running
PodReadyToStartContainers=True 
Initialized=True 
Ready=False ContainersNotReady containers with unready status: [a]
ContainersReady=False ContainersNotReady containers with unready status: [a]
PodScheduled=True 
`,
		},
		{
			name: "an init container that has succeeded after a failure does not back off", pod: testPod(always, true, false), now: seen("i0 a+ b+"),
			change: func(w *worker, _ *corev1.Pod) { w.backoff.restarted("i") },
			want: `Running
i ready=true started=false exit 0
a ready=true started=true running
b ready=true started=true running
PodReadyToStartContainers=True 
Initialized=True 
Ready=True 
ContainersReady=True 
PodScheduled=True 
`,
		},
		{
			name: "a sidecar backs off whatever the pod's policy", pod: testPod(never, false, true), now: seen("s1 a+ b+"),
			change: func(w *worker, _ *corev1.Pod) { w.backoff.restarted("s") },
			want: `Running
s ready=false started=false CrashLoopBackOff, before: exit 1
a ready=true started=true running
b ready=true started=true running
PodReadyToStartContainers=True 
Initialized=True 
Ready=False ContainersNotReady containers with unready status: [s]
ContainersReady=False ContainersNotReady containers with unready status: [s]
PodScheduled=True 
`,
		},
		{
			name: "no image", pod: testPod(always, false, false), now: seen("a+"),
			change: func(w *worker, _ *corev1.Pod) { w.waiting["b"] = &waiting{reason: "ErrImagePull", message: "gone"} },
			want: `Pending
a ready=true started=true running
b ready=false started=false ErrImagePull
PodReadyToStartContainers=True 
Initialized=True 
Ready=False ContainersNotReady containers with unready status: [b]
ContainersReady=False ContainersNotReady containers with unready status: [b]
PodScheduled=True 
`,
		},
		{
			name: "succeeded", pod: testPod(never, true, false), now: seen("i0 a0 b0"),
			want: `Succeeded
i ready=true started=false exit 0
a ready=false started=false exit 0
b ready=false started=false exit 0
PodReadyToStartContainers=True 
Initialized=True PodCompleted
Ready=False PodCompleted
ContainersReady=False PodCompleted
PodScheduled=True 
`,
		},
		{
			name: "deadline passed, still running", pod: testPod(never, false, false), now: seen("a+ b0"),
			change: func(w *worker, _ *corev1.Pod) {
				w.ended, w.verdict = true, &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}
			},
			want: `Running
a ready=true started=true running
b ready=false started=false exit 0
PodReadyToStartContainers=True 
Initialized=True 
Ready=False ContainersNotReady containers with unready status: [b]
ContainersReady=False ContainersNotReady containers with unready status: [b]
PodScheduled=True 
`,
		},
		{
			name: "deadline passed, ended", pod: testPod(never, false, false), now: seen("a0 b0"), final: true,
			change: func(w *worker, _ *corev1.Pod) {
				w.ended, w.verdict = true, &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}
			},
			want: `Failed
a ready=false started=false exit 0
b ready=false started=false exit 0
PodReadyToStartContainers=True 
Initialized=True 
Ready=False PodFailed
ContainersReady=False PodFailed
PodScheduled=True 
`,
		},
		{
			name: "deleted before it started", pod: testPod(always, false, false), final: true,
			change: func(_ *worker, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
			want: `Failed
a ready=false started=false exit 137
b ready=false started=false exit 137
PodReadyToStartContainers=False 
Initialized=True 
Ready=False PodFailed
ContainersReady=False PodFailed
PodScheduled=True 
`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := testWorker(test.pod)
			if test.change != nil {
				test.change(w, test.pod)
			}
			status := w.podStatus(test.pod, test.now, test.final)
			if diff := cmp.Diff(test.want, tell(status)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if status.ObservedGeneration != 3 || status.StartTime == nil || status.HostIP != "192.0.2.1" {
				t.Errorf("generation %d, start %v, host %s", status.ObservedGeneration, status.StartTime, status.HostIP)
			}
		})
	}
}

func TestPodStatus_Messages(t *testing.T) {
	pod := testPod(always, false, false)
	w := testWorker(pod)
	w.backoff["a"] = 40 * time.Second
	status := w.podStatus(pod, seen("a1 b+"), false)
	if got, want := status.ContainerStatuses[0].State.Waiting.Message, "back-off 40s restarting failed container=a pod=p_ns(u)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPodStatus_HostNetwork(t *testing.T) {
	pod := testPod(always, false, false)
	w := testWorker(pod)
	if got := w.podStatus(pod, seen(""), false).PodIP; got != "10.0.0.9" {
		t.Errorf("own network: %s", got)
	}
	pod.Spec.HostNetwork = true
	if got := w.podStatus(pod, seen(""), false).PodIP; got != "192.0.2.1" {
		t.Errorf("the node's network: %s", got)
	}
}

func TestPodStatus_TimesStayWhileNothingChanges(t *testing.T) {
	pod := testPod(always, false, false)
	w := testWorker(pod)
	long := metav1.NewTime(time.Now().Add(-time.Hour)).Rfc3339Copy()
	pod.Status = w.podStatus(pod, seen("a+ b+"), false)
	pod.Status.StartTime = &long
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].LastTransitionTime = long
	}
	again := w.podStatus(pod, seen("a+ b1"), false)
	for _, c := range again.Conditions {
		changed := c.Type == corev1.PodReady || c.Type == corev1.ContainersReady
		if c.LastTransitionTime.Equal(&long) == changed {
			t.Errorf("%s: %v", c.Type, c.LastTransitionTime)
		}
	}
	if !again.StartTime.Equal(&long) {
		t.Errorf("started at %v", again.StartTime)
	}
}

func TestOverlay(t *testing.T) {
	theirs := corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NodeLost"},
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}
	ours := corev1.PodStatus{
		Phase: corev1.PodSucceeded, PodIP: "10.0.0.1",
		Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: "x/old"}},
	}
	want := corev1.PodStatus{
		Phase: corev1.PodSucceeded, QOSClass: corev1.PodQOSBurstable, PodIP: "10.0.0.1",
		Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		},
	}
	if diff := cmp.Diff(want, overlay(theirs, ours)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	theirs.Phase, theirs.Reason = corev1.PodFailed, "Evicted"
	if got := overlay(theirs, ours); got.Phase != corev1.PodFailed || got.Reason != "Evicted" {
		t.Errorf("an evicted pod becomes %s, %s", got.Phase, got.Reason)
	}
}

// TestLostEphemeral asks for the statuses of ephemeral containers that went with their sandbox: the API server takes none that
// has ended back to waiting.
func TestLostEphemeral(t *testing.T) {
	pod := testPod(always, false, false)
	for name, state := range map[string]corev1.ContainerState{
		"ran":   {Running: &corev1.ContainerStateRunning{}},
		"ended": {Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
		"never": {Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
	} {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
		pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name, State: state})
	}
	got := map[string]int32{}
	for _, status := range testWorker(pod).ephemeralStatuses(pod, seen("a+ b+")) {
		if status.State.Terminated != nil {
			got[status.Name] = status.State.Terminated.ExitCode
		}
	}
	if diff := cmp.Diff(map[string]int32{"ran": 137, "ended": 3}, got); diff != "" {
		t.Error(diff)
	}
}
