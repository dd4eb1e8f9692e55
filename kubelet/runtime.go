package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Runtime runs sandboxes and containers, after the Container Runtime Interface (k8s.io/cri-api), reduced to what the
// kubelet needs. All methods may be called from many goroutines, for different pods at once. Stopping or removing what
// is not there is no error.
type Runtime interface {
	// Name and version as nodes report them: "containerd", "2.4.2".
	Version(ctx context.Context) (name, version string, err error)

	// Pod returns the newest sandbox of a pod and its containers, newest attempt of each name first. A pod that the
	// runtime does not know has no sandbox.
	Pod(ctx context.Context, pod types.UID) (*Sandbox, []*Container, error)
	// Pods lists the pods that have a sandbox.
	Pods(ctx context.Context) ([]types.UID, error)

	RunSandbox(ctx context.Context, pod *corev1.Pod) (*Sandbox, error)
	// StopSandbox stops the containers that still run and frees the network.
	StopSandbox(ctx context.Context, pod types.UID) error
	// RemovePod removes the sandbox with all its containers.
	RemovePod(ctx context.Context, pod types.UID) error

	// EnsureImage pulls the image if the policy asks for it, and says whether it had to.
	EnsureImage(ctx context.Context, image string, policy corev1.PullPolicy) (id string, pulled bool, err error)
	// StartContainer creates and starts a container. attempt counts restarts of the same name, from 0.
	StartContainer(ctx context.Context, pod *corev1.Pod, container *corev1.Container, imageID string, attempt int32) (id string, err error)
	// StopContainer asks the container to end, and kills it after grace. It returns when the container has ended, or with an
	// error soon after ctx has, in which case it may be called again with another grace.
	StopContainer(ctx context.Context, id string, grace time.Duration) error

	// Follow calls changed with the pod of every sandbox or container that changes by itself, until ctx ends.
	Follow(ctx context.Context, changed func(pod types.UID)) error
}

// Restorer is a runtime whose containers do not outlive the process. At its start the kubelet shows it each pod of the
// node as it was last reported, and the runtime may take the pod's containers up again as if they had run on.
type Restorer interface {
	Restore(pod *corev1.Pod)
}

// Sandbox is the surroundings of a pod's containers.
type Sandbox struct {
	ID      string
	Ready   bool
	IPs     []string
	Created time.Time
}

// ContainerState is where a container is in its life.
type ContainerState uint8

// The states of a container, in the order in which it goes through them.
const (
	ContainerCreated ContainerState = iota
	ContainerRunning
	ContainerExited
)

// Container is one attempt at running a container of a pod.
type Container struct {
	ID       string
	Name     string
	Image    string
	ImageID  string
	Attempt  int32
	State    ContainerState
	Started  time.Time
	Finished time.Time
	ExitCode int32
	Reason   string // of an exit: Completed, Error, OOMKilled ...
	Message  string
}
