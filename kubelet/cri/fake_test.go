package cri

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime is a runtime without containers and without events, for what a real one does not do when asked to.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	mu         sync.Mutex
	conditions []*runtimeapi.RuntimeCondition
	sandboxes  map[string]*runtimeapi.PodSandboxStatus
	containers map[string]*runtimeapi.ContainerStatus
	stopped    []string // containers
	calls      map[string]int
}

// startFake serves a fake runtime at a socket and connects to it.
func startFake(t *testing.T) (*fakeRuntime, *Runtime) {
	t.Helper()
	f := &fakeRuntime{sandboxes: map[string]*runtimeapi.PodSandboxStatus{}, containers: map[string]*runtimeapi.ContainerStatus{}, calls: map[string]int{}}
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls[filepath.Base(info.FullMethod)]++
		return handle(ctx, request)
	}))
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	runtimeapi.RegisterImageServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	r, err := New(Config{Endpoint: "unix://" + socket, RootDir: t.TempDir(), LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return f, r
}

// set puts a pod with one container in, or changes it; the container is in state.
func (f *fakeRuntime) set(uid string, state runtimeapi.ContainerState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	labels := map[string]string{podUIDLabel: uid, podNamespaceLabel: "default", podNameLabel: "pod-" + uid, containerNameLabel: "c"}
	f.sandboxes["s"+uid] = &runtimeapi.PodSandboxStatus{
		Id: "s" + uid, Labels: labels, Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1"}, CreatedAt: 1,
	}
	f.containers["c"+uid] = &runtimeapi.ContainerStatus{Id: "c" + uid, Labels: labels, Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, State: state, CreatedAt: 1}
}

func (f *fakeRuntime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "fake", RuntimeVersion: "v1.2"}, nil
}

func (f *fakeRuntime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: f.conditions}, Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {}},
	}, nil
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, request *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	answer := &runtimeapi.ListPodSandboxResponse{}
	uid := request.Filter.GetLabelSelector()[podUIDLabel]
	for _, s := range f.sandboxes {
		if uid == "" || s.Labels[podUIDLabel] == uid {
			answer.Items = append(answer.Items, &runtimeapi.PodSandbox{Id: s.Id, State: s.State, Labels: s.Labels, Metadata: s.Metadata})
		}
	}
	return answer, nil
}

func (f *fakeRuntime) ListContainers(_ context.Context, request *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	answer := &runtimeapi.ListContainersResponse{}
	uid := request.Filter.GetLabelSelector()[podUIDLabel]
	for _, c := range f.containers {
		if uid == "" || c.Labels[podUIDLabel] == uid {
			answer.Containers = append(answer.Containers, &runtimeapi.Container{Id: c.Id, PodSandboxId: "s" + c.Labels[podUIDLabel], State: c.State, Labels: c.Labels, Metadata: c.Metadata})
		}
	}
	return answer, nil
}

func (f *fakeRuntime) PodSandboxStatus(_ context.Context, request *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	if s := f.sandboxes[request.PodSandboxId]; s != nil {
		return &runtimeapi.PodSandboxStatusResponse{Status: s}, nil
	}
	return nil, status.Error(codes.NotFound, "no such sandbox")
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, request *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if c := f.containers[request.ContainerId]; c != nil {
		return &runtimeapi.ContainerStatusResponse{Status: c}, nil
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (f *fakeRuntime) StopContainer(_ context.Context, request *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	f.stopped = append(f.stopped, request.ContainerId)
	f.containers[request.ContainerId].State = runtimeapi.ContainerState_CONTAINER_EXITED
	return &runtimeapi.StopContainerResponse{}, nil
}
