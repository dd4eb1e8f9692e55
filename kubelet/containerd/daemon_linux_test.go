package containerd_test

import (
	"context"
	"os"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// client speaks the Container Runtime Interface with a daemon.
type client struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
}

func connect(t *testing.T, d *containerd.Daemon) client {
	t.Helper()
	conn, err := grpc.NewClient(d.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)}
}

// testContext ends when a test has clearly hung.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	t.Cleanup(cancel)
	return ctx
}

// runDemo runs a container of the demo image in a sandbox on the host's network, and returns both IDs.
func (c client) runDemo(t *testing.T, image string, args ...string) (sandbox, container string) {
	t.Helper()
	ctx := testContext(t)
	logs := t.TempDir()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "demo", Namespace: "default", Uid: uuid.NewString()},
		LogDirectory: logs,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: nstest.CgroupRoot(),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
			},
		},
	}
	pod, err := c.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	created, err := c.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: pod.PodSandboxId, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "demo"}, Image: &runtimeapi.ImageSpec{Image: image},
			Args: args, LogPath: "demo.log", Linux: &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		t.Fatal(err)
	}
	return pod.PodSandboxId, created.ContainerId
}

// exec runs a command in a container and returns what it printed.
func (c client) exec(t *testing.T, container string, command ...string) string {
	t.Helper()
	response, err := c.ExecSync(testContext(t), &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: command, Timeout: 10})
	if err != nil {
		t.Fatal(err)
	}
	return string(response.Stdout)
}

func (c client) state(t *testing.T, container string) runtimeapi.ContainerState {
	t.Helper()
	response, err := c.ContainerStatus(testContext(t), &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if err != nil {
		t.Fatal(err)
	}
	return response.Status.State
}

func TestStart_RunsContainers(t *testing.T) {
	d := containerdtest.Start(t)
	c := connect(t, d)
	version, err := c.Version(testContext(t), &runtimeapi.VersionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if version.RuntimeName != "containerd" || version.RuntimeVersion != "2.4.2" {
		t.Errorf("the runtime is %s %s", version.RuntimeName, version.RuntimeVersion)
	}
	_, container := c.runDemo(t, "demo:2")
	if got := c.exec(t, container, "sh", "-c", "echo $DEMO_VERSION"); got != "2\n" {
		t.Errorf("exec printed %q, want the version of the image", got)
	}
	for _, name := range []string{"/var/run/netns", "/etc/cni", "/opt/containerd", "/run/containerd"} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}
