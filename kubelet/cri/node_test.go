package cri

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet"
	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
)

// node is a Runtime over a containerd of its own, with a bridge network, that somebody follows.
type node struct {
	*Runtime
	t       testing.TB
	daemon  *containerd.Daemon
	changed chan types.UID
}

func startNode(t testing.TB, change func(*Config)) *node {
	t.Helper()
	daemon := containerdtest.Start(t)
	network := `{"cniVersion": "1.0.0", "name": "test", "plugins": [
		{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "dataDir": "/run/cni-ipam"}}]}`
	if err := os.MkdirAll(daemon.CNIConfDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(daemon.CNIConfDir(), "10-test.conflist"), []byte(network), 0o644); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, daemon: daemon, changed: make(chan types.UID, 10000)}
	n.Runtime = n.connect(change)
	n.follow(n.Runtime)
	eventually.Nil(t, "the network is ready", func() error { return n.Ready(n.context()) })
	return n
}

// connect makes a Runtime as a kubelet that has just started does.
func (n *node) connect(change func(*Config)) *Runtime {
	n.t.Helper()
	config := Config{Endpoint: n.daemon.Endpoint(), RootDir: n.t.TempDir(), LogDir: filepath.Join(n.t.TempDir(), "pods"), MemoryCapacity: 8 << 30, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if change != nil {
		change(&config)
	}
	r, err := New(config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = r.Close() })
	return r
}

func (n *node) follow(r *Runtime) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- r.Follow(ctx, func(uid types.UID) {
			select {
			case n.changed <- uid:
			default:
			}
		})
	}()
	n.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			n.t.Errorf("Follow ended with %v", err)
		}
	})
}

func (n *node) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	n.t.Cleanup(cancel)
	return ctx
}

// await waits for a condition that changes of a pod are told of.
func (n *node) await(uid types.UID, what string, done func(*kubelet.Sandbox, []*kubelet.Container) bool) []*kubelet.Container {
	n.t.Helper()
	deadline := time.After(eventually.Limit)
	for {
		sandbox, containers, err := n.Pod(n.context(), uid)
		if err == nil && done(sandbox, containers) {
			return containers
		}
		select {
		case <-n.changed:
		case <-deadline:
			n.t.Fatalf("%s: not so; sandbox %+v, containers %+v, error %v", what, sandbox, deref(containers), err)
		}
	}
}

func deref(containers []*kubelet.Container) []kubelet.Container {
	var all []kubelet.Container
	for _, c := range containers {
		all = append(all, *c)
	}
	return all
}

// newPod is a pod that has been through the API server, with a container for each command of the demo image.
func newPod(name string, commands ...[]string) *corev1.Pod {
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uuid.NewString()), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, SecurityContext: &corev1.PodSecurityContext{}},
	}
	for i, command := range commands {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "c" + string(rune('0'+i)), Image: "demo:1", Args: command, ImagePullPolicy: corev1.PullIfNotPresent,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		})
	}
	return pod
}

func sandboxOptions(pod *corev1.Pod) kubelet.SandboxOptions {
	return kubelet.SandboxOptions{CgroupParent: nstest.CgroupRoot() + "/" + string(pod.UID), Hostname: pod.Name}
}

// run starts a pod and returns the IDs of its containers.
func (n *node) run(pod *corev1.Pod) []string {
	n.t.Helper()
	if _, err := n.RunSandbox(n.context(), pod, sandboxOptions(pod)); err != nil {
		n.t.Fatal(err)
	}
	var ids []string
	for i := range pod.Spec.Containers {
		id, err := n.start(pod, &pod.Spec.Containers[i], 0)
		if err != nil {
			n.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func (n *node) create(pod *corev1.Pod, c *corev1.Container, attempt int32) (string, error) {
	image, err := n.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: c})
	if err != nil {
		return "", err
	}
	message := filepath.Join(n.t.TempDir(), "message") // the kubelet makes it
	if err := os.WriteFile(message, nil, 0o666); err != nil {
		n.t.Fatal(err)
	}
	return n.CreateContainer(n.context(), pod, c, kubelet.ContainerOptions{
		Attempt: attempt, ImageID: image.ID, Command: c.Command, Args: c.Args, Sandbox: sandboxOptions(pod),
		Mounts: []kubelet.Mount{{HostPath: message, ContainerPath: c.TerminationMessagePath}},
	})
}

func (n *node) start(pod *corev1.Pod, c *corev1.Container, attempt int32) (string, error) {
	id, err := n.create(pod, c, attempt)
	if err != nil {
		return "", err
	}
	return id, n.StartContainer(n.context(), id)
}

func stateOf(containers []*kubelet.Container, id string) *kubelet.Container {
	for _, c := range containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}
