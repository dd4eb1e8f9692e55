package cri

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
	unknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN
)

// A runtime that sends no events is listed every second, and just the pods that changed are reported.
func TestFollow_WithoutEvents(t *testing.T) {
	f, r := startFake(t)
	f.set("1", running)
	f.set("2", running)
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan types.UID, 100), make(chan error, 1)
	go func() { ended <- r.Follow(ctx, func(uid types.UID) { changed <- uid }) }()
	first := map[types.UID]bool{<-changed: true, <-changed: true}
	if !first["1"] || !first["2"] {
		t.Errorf("at first %v changed", first)
	}
	f.set("2", exited)
	if uid := <-changed; uid != "2" {
		t.Errorf("%s changed", uid)
	}
	_, containers, err := r.Pod(ctx, "2")
	if err != nil || containers[0].State != kubelet.ContainerExited {
		t.Errorf("it is %+v, %v", containers[0], err)
	}
	f.mu.Lock()
	delete(f.containers, "c1")
	delete(f.sandboxes, "s1")
	f.mu.Unlock()
	if uid := <-changed; uid != "1" {
		t.Errorf("%s changed", uid)
	}
	if sandbox, containers, err := r.Pod(ctx, "1"); sandbox != nil || len(containers) > 0 || err != nil {
		t.Errorf("what has gone is %+v, %v, %v", sandbox, containers, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow ended with %v", err)
	}
	if len(changed) > 0 {
		t.Errorf("%s changed, too", <-changed)
	}
}

// A pod that is known costs no request; one that is not is asked for once.
func TestPod_Asks(t *testing.T) {
	f, r := startFake(t)
	f.set("1", running)
	for range 3 {
		if sandbox, containers, err := r.Pod(t.Context(), "1"); err != nil || !sandbox.Ready || len(containers) != 1 {
			t.Fatal(sandbox, containers, err)
		}
	}
	if f.calls["ListContainers"] != 1 || f.calls["ContainerStatus"] != 1 || f.calls["PodSandboxStatus"] != 1 {
		t.Errorf("asked %v", f.calls)
	}
	r.cache.doubtAll()
	f.set("1", exited)
	if _, containers, err := r.Pod(t.Context(), "1"); err != nil || containers[0].State != kubelet.ContainerExited {
		t.Errorf("after doubts: %+v, %v", containers, err)
	}
}

// A container that the runtime has lost sight of is killed.
func TestUnknownContainer(t *testing.T) {
	f, r := startFake(t)
	f.set("1", unknown)
	_, containers, err := r.Pod(t.Context(), "1")
	if err != nil || containers[0].State != kubelet.ContainerExited || len(f.stopped) != 1 || f.stopped[0] != "c1" {
		t.Errorf("it is %+v, %v; stopped %v", containers, err, f.stopped)
	}
}

// Events may overtake each other, repeat themselves, and come after what they tell of has gone.
func TestEvents_OutOfOrder(t *testing.T) {
	f, r := startFake(t)
	f.set("1", created)
	if _, err := r.relist(t.Context()); err != nil {
		t.Fatal(err)
	}
	event := func(kind runtimeapi.ContainerEventType, state runtimeapi.ContainerState) *runtimeapi.ContainerEventResponse {
		f.set("1", state)
		return &runtimeapi.ContainerEventResponse{
			ContainerId: "c1", ContainerEventType: kind, PodSandboxStatus: f.sandboxes["s1"], ContainersStatuses: []*runtimeapi.ContainerStatus{f.containers["c1"]},
		}
	}
	started, stopped := event(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, running), event(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, exited)
	removed := &runtimeapi.ContainerEventResponse{ContainerId: "c1", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT}
	stranger := event(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, created)
	stranger.PodSandboxStatus = &runtimeapi.PodSandboxStatus{Id: "s9", Labels: f.sandboxes["s1"].Labels, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY}
	for _, step := range []struct {
		name    string
		event   *runtimeapi.ContainerEventResponse
		changed bool
		state   kubelet.ContainerState
		gone    bool
	}{
		{"it stops", stopped, true, kubelet.ContainerExited, false},
		{"a late start", started, false, kubelet.ContainerExited, false},
		{"again", stopped, false, kubelet.ContainerExited, false},
		{"of a sandbox that is being made", stranger, false, kubelet.ContainerExited, false},
		{"it is removed", removed, true, 0, true},
		{"a late stop", stopped, false, 0, true},
	} {
		ended := false
		_, changed := r.take("fake://", step.event, func(uid types.UID, sandbox string, c *runtimeapi.ContainerStatus) {
			ended = r.cache.mergeContainer(uid, r.toContainer("fake://", sandbox, c), false)
		})
		if (changed || ended) != step.changed {
			t.Errorf("%s: changed %t", step.name, changed)
		}
		sandbox, containers, err := r.Pod(t.Context(), "1")
		if err != nil || sandbox == nil || sandbox.ID != "fake://s1" || step.gone != (len(containers) == 0) || !step.gone && containers[0].State != step.state {
			t.Errorf("%s: %+v, %+v, %v", step.name, sandbox, containers, err)
		}
	}
}

func TestReady(t *testing.T) {
	f, r := startFake(t)
	ready := &runtimeapi.RuntimeCondition{Type: runtimeapi.RuntimeReady, Status: true}
	tests := []struct {
		conditions []*runtimeapi.RuntimeCondition
		want       string
	}{
		{[]*runtimeapi.RuntimeCondition{ready, {Type: runtimeapi.NetworkReady, Status: true}}, ""},
		{[]*runtimeapi.RuntimeCondition{ready, {Type: runtimeapi.NetworkReady, Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}},
			"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"},
		{[]*runtimeapi.RuntimeCondition{{Type: runtimeapi.RuntimeReady, Reason: "Broken", Message: "no"}}, "container runtime not ready: RuntimeReady=false reason:Broken message:no"},
	}
	for _, test := range tests {
		f.conditions = test.conditions
		err := r.Ready(t.Context())
		if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%v", err)
		}
	}
	var node corev1.NodeStatus
	r.Describe(&node)
	if len(node.RuntimeHandlers) != 2 || node.RuntimeHandlers[1].Name != "runc" || !*node.RuntimeHandlers[1].Features.UserNamespaces || !*node.Features.SupplementalGroupsPolicy {
		t.Errorf("the node says %+v, %+v", node.RuntimeHandlers, node.Features)
	}
	if name, version, err := r.Version(t.Context()); name != "fake" || version != "1.2" || err != nil {
		t.Errorf("version: %s, %s, %v", name, version, err)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	m.observe("/runtime.v1.RuntimeService/StartContainer", time.Now(), nil)
	m.observe("/runtime.v1.RuntimeService/StartContainer", time.Now(), errors.New("no"))
	m.observe("/runtime.v1.RuntimeService/NewThing", time.Now(), nil)
	m.pulled(5<<20, time.Second)
	m.pulled(200<<30, time.Hour)
	if count, err := testutil.GatherAndCount(registry, "kubelet_image_pull_duration_seconds"); count != 2 || err != nil {
		t.Errorf("%d sizes of images, %v", count, err)
	}
	for name, got := range map[string]float64{
		"start_container": testutil.ToFloat64(m.operations.WithLabelValues("start_container")) - 1, "its errors": testutil.ToFloat64(m.errors.WithLabelValues("start_container")),
		"other": testutil.ToFloat64(m.operations.WithLabelValues("other")),
	} {
		if got != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if count, err := testutil.GatherAndCount(registry, "kubelet_runtime_operations_duration_seconds"); count != 2 || err != nil {
		t.Errorf("%d histograms, %v", count, err)
	}
}
