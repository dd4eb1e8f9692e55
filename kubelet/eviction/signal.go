package eviction

import corev1 "k8s.io/api/core/v1"

// Signal is something of which there can be too little.
type Signal string

// The signals. All mean what is left.
const (
	MemoryAvailable            Signal = "memory.available"            // capacity without the working set
	AllocatableMemoryAvailable Signal = "allocatableMemory.available" // what the cgroup of all pods may still use
	NodeFsAvailable            Signal = "nodefs.available"            // the kubelet's file system: volumes, logs
	NodeFsInodesFree           Signal = "nodefs.inodesFree"
	ImageFsAvailable           Signal = "imagefs.available" // the runtime's: images, and writable layers if not apart
	ImageFsInodesFree          Signal = "imagefs.inodesFree"
	ContainerFsAvailable       Signal = "containerfs.available" // the runtime's for writable layers; has the thresholds of nodefs or imagefs
	ContainerFsInodesFree      Signal = "containerfs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// Resources that are no resources of pods.
const (
	inodes corev1.ResourceName = "inodes"
	pids   corev1.ResourceName = "pids"
)

// signals says of each signal what is short and which condition shows it.
var signals = map[Signal]struct {
	resource  corev1.ResourceName
	condition corev1.NodeConditionType
}{
	MemoryAvailable:            {corev1.ResourceMemory, corev1.NodeMemoryPressure},
	AllocatableMemoryAvailable: {corev1.ResourceMemory, corev1.NodeMemoryPressure},
	NodeFsAvailable:            {corev1.ResourceEphemeralStorage, corev1.NodeDiskPressure},
	NodeFsInodesFree:           {inodes, corev1.NodeDiskPressure},
	ImageFsAvailable:           {corev1.ResourceEphemeralStorage, corev1.NodeDiskPressure},
	ImageFsInodesFree:          {inodes, corev1.NodeDiskPressure},
	ContainerFsAvailable:       {corev1.ResourceEphemeralStorage, corev1.NodeDiskPressure},
	ContainerFsInodesFree:      {inodes, corev1.NodeDiskPressure},
	PIDAvailable:               {pids, corev1.NodePIDPressure},
}

func (s Signal) isMemory() bool { return s == MemoryAvailable || s == AllocatableMemoryAvailable }

// Layout says which of the node's file systems are one.
type Layout struct {
	SeparateImages bool // images are not on the kubelet's file system
	SeparateLayers bool // writable layers are not where images are
}
