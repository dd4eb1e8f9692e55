package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podNow is when the tables of these tests are printed.
var podNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const running = `state: {running: {}}, ready: true, started: true, image: "", imageID: ""`

func TestPod_Row(t *testing.T) {
	for _, tc := range []struct {
		name, pod               string
		ready, status, restarts string
	}{
		{"new", `status: {phase: Pending}`, "0/1", "Pending", "0"},
		{"evicted", `status: {phase: Failed, reason: Evicted}`, "0/1", "Evicted", "0"},
		{"gated", `status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`, "0/1", "SchedulingGated", "0"},
		{"running", `status: {phase: Running, containerStatuses: [{name: c, restartCount: 0, ` + running + `}]}`, "1/1", "Running", "0"},
		{"restarted", `status: {phase: Running, containerStatuses: [{name: c, restartCount: 3, lastState: {terminated: {exitCode: 1, finishedAt: "2026-01-01T11:55:00Z"}}, ` + running + `}]}`,
			"1/1", "Running", "3 (5m ago)"},
		{"restarted once upon a time", `status: {phase: Running, containerStatuses: [{name: c, restartCount: 3, ` + running + `}]}`, "1/1", "Running", "3"},
		{"waiting", `status: {phase: Pending, containerStatuses: [{name: c, restartCount: 0, ready: false, image: "", imageID: "", state: {waiting: {reason: ContainerCreating}}}]}`,
			"0/1", "ContainerCreating", "0"},
		{"first container's reason", `
spec: {containers: [{name: a, image: x}, {name: b, image: x}]}
status: {phase: Pending, containerStatuses: [
  {name: a, restartCount: 1, ready: false, image: "", imageID: "", state: {waiting: {reason: CrashLoopBackOff}}},
  {name: b, restartCount: 2, ready: false, image: "", imageID: "", state: {waiting: {reason: ErrImagePull}}}]}`, "0/2", "CrashLoopBackOff", "3"},
		{"exit code", `status: {phase: Failed, containerStatuses: [{name: c, restartCount: 0, ready: false, image: "", imageID: "", state: {terminated: {exitCode: 7}}}]}`, "0/1", "ExitCode:7", "0"},
		{"signal", `status: {phase: Failed, containerStatuses: [{name: c, restartCount: 0, ready: false, image: "", imageID: "", state: {terminated: {exitCode: 137, signal: 9}}}]}`, "0/1", "Signal:9", "0"},
		{"one completed, one runs", `
spec: {containers: [{name: a, image: x}, {name: b, image: x}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [
  {name: a, restartCount: 0, ready: false, image: "", imageID: "", state: {terminated: {exitCode: 0, reason: Completed}}},
  {name: b, restartCount: 0, ` + running + `}]}`, "1/2", "Running", "0"},
		{"one completed, one runs unready pod", `
spec: {containers: [{name: a, image: x}, {name: b, image: x}]}
status: {phase: Running, containerStatuses: [
  {name: a, restartCount: 0, ready: false, image: "", imageID: "", state: {terminated: {exitCode: 0, reason: Completed}}},
  {name: b, restartCount: 0, ` + running + `}]}`, "1/2", "NotReady", "0"},
		{"initializing", `
spec: {initContainers: [{name: i, image: x}, {name: j, image: x}]}
status: {phase: Pending, initContainerStatuses: [
  {name: i, restartCount: 1, ready: true, image: "", imageID: "", state: {terminated: {exitCode: 0}}},
  {name: j, restartCount: 2, ready: false, image: "", imageID: "", state: {running: {}}}],
  containerStatuses: [{name: c, restartCount: 9, ready: false, image: "", imageID: "", state: {waiting: {reason: PodInitializing}}}]}`, "0/1", "Init:1/2", "3"},
		{"init container waits", `
spec: {initContainers: [{name: i, image: x}]}
status: {phase: Pending, initContainerStatuses: [{name: i, restartCount: 0, ready: false, image: "", imageID: "", state: {waiting: {reason: ImagePullBackOff}}}]}`, "0/1", "Init:ImagePullBackOff", "0"},
		{"init container failed", `
spec: {initContainers: [{name: i, image: x}]}
status: {phase: Pending, initContainerStatuses: [{name: i, restartCount: 0, ready: false, image: "", imageID: "", state: {terminated: {exitCode: 2, signal: 9}}}]}`, "0/1", "Init:Signal:9", "0"},
		{"sidecar", `
spec: {initContainers: [{name: i, image: x, restartPolicy: Always}]}
status: {phase: Running, initContainerStatuses: [{name: i, restartCount: 4, ` + running + `}], containerStatuses: [{name: c, restartCount: 1, ` + running + `}]}`, "2/2", "Running", "5"},
		{"deleted", `{metadata: {deletionTimestamp: "2026-01-01T12:00:30Z"}, status: {phase: Running}}`, "0/1", "Terminating", "0"},
		{"deleted when done", `{metadata: {deletionTimestamp: "2026-01-01T12:00:30Z"}, status: {phase: Succeeded}}`, "0/1", "Succeeded", "0"},
		{"deleted on a lost node", `{metadata: {deletionTimestamp: "2026-01-01T12:00:30Z"}, status: {phase: Running, reason: NodeLost}}`, "0/1", "Unknown", "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podFrom(t, tc.pod)
			pod.CreationTimestamp = metav1.NewTime(podNow.Add(-90 * time.Second))
			wantSame(t, "row", []any{"p", tc.ready, tc.status, tc.restarts, "90s", "<none>", "<none>", "<none>", "<none>"}, Pod().Row(pod, podNow))
		})
	}
}

func TestPod_RowWide(t *testing.T) {
	pod := podFrom(t, `
spec: {nodeName: node, readinessGates: [{conditionType: a}, {conditionType: b}]}
status: {phase: Running, podIP: 10.0.0.1, nominatedNodeName: m, conditions: [{type: b, status: "True"}]}`)
	wantSame(t, "row", []any{"p", "0/1", "Running", "0", "<unknown>", "10.0.0.1", "node", "m", "1/2"}, Pod().Row(pod, podNow))
}

func TestPod_RowConditions(t *testing.T) {
	wantSame(t, "running", []metav1.TableRowCondition(nil), Pod().RowConditions(podFrom(t, `status: {phase: Running}`)))
	for phase, message := range map[corev1.PodPhase]string{corev1.PodSucceeded: "The pod has completed successfully.", corev1.PodFailed: "The pod failed."} {
		wantSame(t, string(phase), []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(phase), Message: message}},
			Pod().RowConditions(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}))
	}
}
