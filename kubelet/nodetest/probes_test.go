package nodetest

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func get(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}}
}

func isReady(ready bool) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].Ready != ready {
			return errors.New("it is not")
		}
		return nil
	}
}

func TestProbes(t *testing.T) {
	node := Start(t, nil)
	t.Run("readiness", func(t *testing.T) {
		pod := Pod("ready", "serve", "-unready")
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: get("/readyz"), PeriodSeconds: 1, FailureThreshold: 1}
		node.Create(pod)
		node.Event("ready", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
		running := node.Await("ready", "is not ready", isReady(false))
		node.Exec(running, "fetch", "http://localhost:8080/readyz?set=ok")
		node.Ready("ready")
		node.Exec(running, "fetch", "http://localhost:8080/readyz?set=fail")
		node.Await("ready", "is not ready any more", isReady(false))
	})
	t.Run("liveness", func(t *testing.T) {
		pod := Pod("live", "serve")
		pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: get("/healthz"), PeriodSeconds: 1, FailureThreshold: 1}
		node.Create(pod)
		running := node.Ready("live")
		node.Exec(running, "fetch", "http://localhost:8080/healthz?set=fail")
		node.Event("live", "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503")
		node.Event("live", "Killing", "Container c failed liveness probe, will be restarted")
		again := node.Await("live", "was restarted", func(pod *corev1.Pod) error {
			if s := pod.Status.ContainerStatuses[0]; s.RestartCount != 1 || !s.Ready {
				return errors.New("it was not")
			}
			return nil
		})
		if last := again.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ContainerID != running.Status.ContainerStatuses[0].ContainerID {
			t.Errorf("its last state is %+v", last)
		}
	})
	t.Run("startup", func(t *testing.T) {
		pod := Pod("start", "serve", "-start-delay", "1500ms")
		c := &pod.Spec.Containers[0]
		c.StartupProbe = &corev1.Probe{ProbeHandler: get("/startz"), PeriodSeconds: 1, FailureThreshold: 30}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: get("/healthz"), PeriodSeconds: 1, FailureThreshold: 1} // it would kill a container that has not started
		node.Create(pod)
		node.Event("start", "Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503")
		if started := node.Ready("start"); started.Status.ContainerStatuses[0].RestartCount != 0 || !*started.Status.ContainerStatuses[0].Started {
			t.Errorf("its status is %+v", started.Status.ContainerStatuses[0])
		}
		failing := Pod("start-fails", "serve", "-start-delay", "1h")
		failing.Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: get("/startz"), PeriodSeconds: 1, FailureThreshold: 1, TerminationGracePeriodSeconds: new(int64(1))}
		node.Create(failing)
		node.Event("start-fails", "Killing", "Container c failed startup probe, will be restarted")
	})
	t.Run("exec, tcp and grpc", func(t *testing.T) {
		for name, handler := range map[string]corev1.ProbeHandler{
			"exec": {Exec: &corev1.ExecAction{Command: []string{"demo", "cat", "/etc/hosts"}}},
			"tcp":  {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}},
			"grpc": {GRPC: &corev1.GRPCAction{Port: 8080, Service: new("ready")}},
		} {
			pod := Pod(name, "serve")
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: handler}
			node.Create(pod)
		}
		for _, name := range []string{"exec", "tcp", "grpc"} {
			node.Ready(name)
		}
		for name, want := range map[string]struct {
			handler corev1.ProbeHandler
			message string
		}{
			"exec-fails": {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"demo", "cat", "/none"}}}, "Readiness probe failed: cat: open /none"},
			"exec-hangs": {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"demo", "sleep", "60"}}}, `Readiness probe failed: command "demo sleep 60" timed out`},
			"exec-none":  {corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/none"}}}, "Readiness probe errored and resulted in unknown state: "},
			"tcp-fails":  {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9)}}, "Readiness probe failed: dial tcp 10.88."},
			"grpc-fails": {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9}}, `Readiness probe failed: timeout: failed to connect service "10.88.`},
		} {
			pod := Pod(name, "serve")
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: want.handler, PeriodSeconds: 2}
			node.Create(pod)
			defer node.Event(name, "Unhealthy", want.message)
		}
	})
	t.Run("sidecar", func(t *testing.T) {
		pod := Pod("sidecar", "sleep", "1000")
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{{
			Name: "side", Image: "demo:1", Args: []string{"serve", "-start-delay", "1200ms"}, RestartPolicy: &always,
			StartupProbe: &corev1.Probe{ProbeHandler: get("/startz"), PeriodSeconds: 1, FailureThreshold: 30},
		}}
		node.Create(pod)
		ready := node.Ready("sidecar")
		side, main := ready.Status.InitContainerStatuses[0], ready.Status.ContainerStatuses[0]
		if main.State.Running.StartedAt.Time.Before(side.State.Running.StartedAt.Time) || !*side.Started {
			t.Errorf("the container was started at %v, its sidecar at %v", main.State.Running.StartedAt, side.State.Running.StartedAt)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		families, err := node.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		for _, family := range families {
			seen += family.String() + "\n"
		}
		for _, want := range []string{"prober_probe_total", "prober_probe_duration_seconds", `value:"Liveness"`, `value:"successful"`, `value:"failed"`, `value:"sidecar"`} {
			if !strings.Contains(seen, want) {
				t.Errorf("there is no %s in %s", want, seen)
			}
		}
	})
}

// A kubelet that is started anew does not make pods unready that are ready.
func TestProbes_Restart(t *testing.T) {
	node := Start(t, nil)
	pod := Pod("web", "serve")
	c := &pod.Spec.Containers[0]
	c.StartupProbe = &corev1.Probe{ProbeHandler: get("/startz"), PeriodSeconds: 60}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: get("/readyz"), PeriodSeconds: 60}
	node.Create(pod)
	before := node.Ready("web")
	watch, err := node.Client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	node.Restart()
	other := Pod("other", "serve") // when it is ready the kubelet has looked at all
	node.Create(other)
	node.Ready("other")
	for {
		event := <-watch.ResultChan()
		got := event.Object.(*corev1.Pod)
		if got.Name == "other" {
			if len(got.Status.ContainerStatuses) > 0 && got.Status.ContainerStatuses[0].Ready {
				return
			}
			continue
		}
		s := got.Status.ContainerStatuses[0]
		if !s.Ready || !*s.Started || s.ContainerID != before.Status.ContainerStatuses[0].ContainerID {
			t.Fatalf("after the restart its status became %+v", s)
		}
	}
}
