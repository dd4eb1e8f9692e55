package kubelet

import (
	"context"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Parts are what a node needs beside a runtime to run real containers. Each may be nil: simulated nodes have none.
type Parts struct {
	Objects   Objects
	Volumes   Volumes
	Cgroups   Cgroups
	HostPorts HostPorts
	Env       Environment
	Files     Files
	Admitters []Admitter // asked in order, the first refusal counts
}

// Objects gives the Secrets and ConfigMaps that pods of this node name, as new as the API server has them.
type Objects interface {
	// Register says that a pod is on this node, and Unregister that it is no longer; both may be called again.
	Register(pod *corev1.Pod)
	Unregister(uid types.UID)
	// Secret and ConfigMap fail as the API server does: with NotFound, Forbidden ...
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// Volumes makes the volumes of the pods of this node. Methods may be called for different pods at once.
type Volumes interface {
	// Mount brings all volumes of the pod to where its containers will find them, and their contents up to date; it is called
	// before the sandbox is made and in every later round, where nothing changed it is cheap. Its error is a *VolumeError.
	Mount(ctx context.Context, pod *corev1.Pod) error
	// Mounts are the bind mounts for a container's volumeMounts, subPaths resolved safely. done, when not nil, is to be called when
	// the container has been created or could not be.
	Mounts(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (mounts []Mount, done func(), err error)
	// Groups are the supplemental groups that volumes ask for.
	Groups(pod *corev1.Pod) []int64
	// Devices are the block volumes for a container's volumeDevices.
	Devices(ctx context.Context, pod *corev1.Pod, container *corev1.Container) ([]Device, error)
	// Unmount takes away the volumes of a pod and then the pod's directory. It is called when no container runs any more.
	Unmount(ctx context.Context, pod types.UID) error
	// Pods lists the pods that have a directory on this node, so that orphans can be cleaned up.
	Pods() ([]types.UID, error)
	// Run keeps what needs no pod: it calls changed for a pod whose volumes should be looked at again (an object changed, a token
	// grows old), until ctx ends.
	Run(ctx context.Context, changed func(pod types.UID)) error
}

// Cgroups keeps the cgroups of pods (--cgroup-driver=cgroupfs).
type Cgroups interface {
	// Ensure makes the pod's cgroup or brings its limits up to date, and returns the parent for its containers.
	Ensure(pod *corev1.Pod) (parent string, err error)
	// Remove kills what is left in the pod's cgroup and removes it.
	Remove(pod types.UID) error
	Pods() ([]types.UID, error)
}

// HostPorts lets packets for a port of the node reach a pod.
type HostPorts interface {
	// Set opens the host ports of the pod's containers; a pod without any takes none away and costs nothing.
	Set(ctx context.Context, pod *corev1.Pod, ips []netip.Addr) error
	Remove(ctx context.Context, pod types.UID) error
	// Pods lists the pods that have open ports, those of an earlier run included.
	Pods() []types.UID
}

// Environment makes what a container's process finds in its environment.
type Environment interface {
	// Container returns the environment of a container, and its command and arguments with references to it resolved. The status
	// of pod has the addresses of pod and host. It fails in upstream's words: the container waits with CreateContainerConfigError.
	Container(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (env []EnvVar, command, args []string, err error)
}

// Files makes what the kubelet itself writes for containers: host names, /etc/hosts and what resolv.conf says.
type Files interface {
	// Hostname is the name that the pod's containers find (spec.hostname, setHostnameAsFQDN, hostnameOverride).
	Hostname(pod *corev1.Pod) (string, error)
	// DNS is what the pod's resolv.conf says; warnings are for events about the pod.
	DNS(pod *corev1.Pod) (dns *DNS, warnings []Warning, err error)
	// Mounts writes the pod's files that a container mounts, and returns their mounts: none for a container that mounts something
	// at /etc/hosts itself. The status of pod has its addresses.
	Mounts(pod *corev1.Pod, container *corev1.Container) ([]Mount, error)
}

// Warning is for an event.
type Warning struct{ Reason, Message string }

// Admitter may refuse a pod that was bound to this node: it is rejected with phase Failed.
type Admitter interface {
	// Admit decides about pod beside others, the pods that run on this node; nil lets it in.
	Admit(pod *corev1.Pod, others []*corev1.Pod) *Refusal
}

// Refusal says why a pod cannot run here, in upstream's words: "OutOfcpu", "NodeAffinity", "Evicted" ...
type Refusal struct {
	Reason, Message string
	// Victims are pods without which the pod could run, when it is worth more than they are: it is let in, and starts when they
	// have been ended for it.
	Victims []*corev1.Pod
}

// VolumeError says in upstream's words why volumes of a pod cannot be made.
type VolumeError struct {
	Messages []string      // each is for an event FailedMount of its own
	Told     bool          // they have been returned before and nothing was tried since: there is no new event
	Usable   bool          // all volumes are there, only some contents are old: containers can be started
	Again    time.Duration // after which Mount should be called again
}

func (e *VolumeError) Error() string { return strings.Join(e.Messages, "; ") }
