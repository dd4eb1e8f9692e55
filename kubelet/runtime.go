package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Runtime runs sandboxes and containers, after the Container Runtime Interface (k8s.io/cri-api), reduced to what the
// kubelet needs. All methods may be called from many goroutines, for different pods at once. Stopping or removing what
// is not there is no error. IDs of sandboxes and containers carry the runtime's name: "containerd://0123...".
type Runtime interface {
	// Name and version as nodes report them: "containerd", "2.4.2".
	Version(ctx context.Context) (name, version string, err error)
	// Ready says why no sandbox can be started now, nil when one can: "container runtime network not ready: ...".
	Ready(ctx context.Context) error

	// Pod returns the newest sandbox of a pod and its containers, newest attempt of each name first. A pod that the
	// runtime does not know has no sandbox. What it returns is shared: never change it.
	Pod(ctx context.Context, pod types.UID) (*Sandbox, []*Container, error)
	// Pods lists the pods that have a sandbox.
	Pods(ctx context.Context) ([]PodReference, error)

	RunSandbox(ctx context.Context, pod *corev1.Pod, options SandboxOptions) (*Sandbox, error)
	// StopSandbox stops the containers that still run and frees the network.
	StopSandbox(ctx context.Context, pod types.UID) error
	// RemovePod removes the sandboxes of a pod with all its containers, and their logs.
	RemovePod(ctx context.Context, pod types.UID) error

	// EnsureImage pulls the image if the pull policy asks for it. It fails with an *ImageError.
	EnsureImage(ctx context.Context, request ImageRequest) (Image, error)
	// CreateContainer creates a container in the newest sandbox of the pod. It fails with a *ContainerError where the reason
	// is known.
	CreateContainer(ctx context.Context, pod *corev1.Pod, container *corev1.Container, options ContainerOptions) (id string, err error)
	StartContainer(ctx context.Context, id string) error
	// StopContainer asks the container to end, and kills it after grace. It returns when the container has ended, or with an
	// error soon after ctx has, in which case it may be called again with another grace.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// RemoveContainer removes a container that has ended, but not its log.
	RemoveContainer(ctx context.Context, id string) error
	// ResizeContainer gives a container that runs other resources.
	ResizeContainer(ctx context.Context, pod *corev1.Pod, container *corev1.Container, id string) error
	// Exec runs a command in a container and returns what it printed to both outputs, the first limit bytes of it (0: all). err is about the
	// attempt, not about what the command exited with; it is ErrExecTimeout when the command took longer than timeout (0: no limit).
	Exec(ctx context.Context, id string, command []string, timeout time.Duration, limit int) (output []byte, exitCode int, err error)

	// Collect removes ended containers that nobody will ask for: all but the newest two attempts of each name, and everything of
	// pods for which wanted says false.
	Collect(ctx context.Context, wanted func(pod types.UID) bool) error

	// Follow calls changed with the pod of every sandbox or container that changes by itself, until ctx ends.
	Follow(ctx context.Context, changed func(pod types.UID)) error
}

// Restorer is a runtime whose containers do not outlive the process. At its start the kubelet shows it each pod of the
// node as it was last reported, and the runtime may take the pod's containers up again as if they had run on.
type Restorer interface {
	Restore(pod *corev1.Pod)
}

// PodReference names a pod that the runtime has.
type PodReference struct {
	UID             types.UID
	Namespace, Name string
}

// SandboxOptions is what a sandbox needs beside the pod's spec.
type SandboxOptions struct {
	CgroupParent string // of the pod, as Cgroups.Ensure returned it; "": the runtime's own choice
	Hostname     string
	DNS          *DNS    // nil: the runtime's own choice
	Groups       []int64 // supplemental groups that volumes ask for
	// Handler of the pod's RuntimeClass; "": the runtime's default.
	Handler string
	// UserNamespace is the node's IDs that the pod's IDs from 0 on stand for, of users and of groups (hostUsers: false); nil: the node's users.
	UserNamespace *IDRange
}

// IDRange is a range of user and group IDs of the node.
type IDRange struct{ First, Length uint32 }

// DNS is what a pod's resolv.conf says.
type DNS struct {
	Servers, Searches, Options []string
}

// ImageRequest asks for the image of a container.
type ImageRequest struct {
	Pod       *corev1.Pod
	Container *corev1.Container // its Image and ImagePullPolicy
	Secrets   []*corev1.Secret  // the pod's image pull secrets that exist
	Handler   string            // as SandboxOptions has it
	// Began, when not nil, is called before a pull begins.
	Began func()
	// Progress, when not nil, is called now and then while a pull lasts, by one goroutine, with how many bytes are there and how many
	// there will be. Runtimes that do not know call it never.
	Progress func(done, total int64)
}

// Image is an image on the node.
type Image struct {
	ID     string // what containers are created from
	Pulled bool   // by this request
	Size   int64  // bytes
	Waited time.Duration
	Took   time.Duration // of the pull, waiting for its turn included
}

// ImageError says in upstream's words why an image cannot be had: ErrImagePull, InvalidImageName, ErrImageNeverPull,
// ImageInspectError, RegistryUnavailable, SignatureValidationFailed (pkg/kubelet/images/types.go).
type ImageError struct {
	Reason  string
	Message string
}

func (e *ImageError) Error() string { return e.Message }

// ContainerOptions is what a container needs beside its spec.
type ContainerOptions struct {
	Attempt       int32  // counts restarts of the same name, from 0
	ImageID       string // Image.ID
	Command, Args []string
	Env           []EnvVar
	Mounts        []Mount
	Devices       []Device
	CDIDevices    []string
	Groups        []int64 // supplemental groups that volumes ask for
	Target        string  // ID of the container whose process namespace it joins (ephemeral containers); "" for none
	// Sandbox is what the pod's sandbox was, or would be, made with: runtimes want to be told again.
	Sandbox SandboxOptions
}

// EnvVar is an environment variable.
type EnvVar struct{ Name, Value string }

// Mount is a bind mount into a container. Image, when set, mounts an image instead of HostPath.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
	RecursiveReadOnly       bool
	Propagation             corev1.MountPropagationMode // "": none
	SELinuxRelabel          bool
	Image                   string // ID of an image
	ImageSubPath            string
}

// Device is a device file of the host in a container. Permissions are of cgroups: "rwm".
type Device struct{ HostPath, ContainerPath, Permissions string }

// ContainerError says in upstream's words why a container cannot be created or started: CreateContainerConfigError,
// CreateContainerError, RunContainerError, PreCreateHookError ... (pkg/kubelet/container/sync_result.go).
type ContainerError struct {
	Reason  string
	Message string
}

func (e *ContainerError) Error() string { return e.Message }

// ErrExecTimeout says that a command in a container took longer than it may.
var ErrExecTimeout = fmt.Errorf("command timed out")

// Sandbox is the surroundings of a pod's containers.
type Sandbox struct {
	ID      string
	Ready   bool
	IPs     []string
	Created time.Time
	NetNS   string // path of the network namespace; "": the host's, or unknown
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
	ID        string
	SandboxID string // where it was created; "": in the newest sandbox
	Name      string
	Requested string // the image as the spec had it when the container was created
	Image     string // as the runtime calls it
	ImageID   string
	Attempt   int32
	State     ContainerState
	Created   time.Time
	Started   time.Time
	Finished  time.Time
	ExitCode  int32
	Signal    int32
	Reason    string // of an exit: Completed, Error, OOMKilled ...
	Message   string // of an exit: what the container left in its termination message, or why it could not start
	LogPath   string
	User      *corev1.ContainerUser
	Mounts    []corev1.VolumeMountStatus // without names, and of all that is mounted
	// Resources are what the runtime applies; nil when it does not say.
	Resources *corev1.ResourceRequirements
}
