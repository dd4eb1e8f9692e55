package stats

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/cgroups"
	"vigil/kubelet/machine"
)

// sample is what one round has found. It is never changed once it is published.
type sample struct {
	time time.Time

	node    measured
	network []networkInterface // of the node
	root    *machine.Filesystem
	files   *fileSystems // nil: not known yet
	maxPID  int64        // 0: not known
	threads int64
	self    measured // this process
	allPods measured // the group of all pods

	pods []podSample
}

// measured is what a group uses, and how fast.
type measured struct {
	cgroups.Usage
	group    string
	nanoCore *uint64 // CPU time in ns per s; nil: seen only once
}

type podSample struct {
	measured
	pod        *corev1.Pod
	started    time.Time
	network    []networkInterface // nil: the node's, or not known
	containers []containerSample
	disk       *podDisk // nil: not counted yet
	counting   bool     // disk is on its way
}

type containerSample struct {
	measured
	name, id, image string
	started         time.Time
	spec            *corev1.Container // nil: no more in the pod
	layer           *layer
	logs            *usedDisk
}

// networkInterface is a line of /proc/net/dev.
type networkInterface struct {
	name                                    string
	rxBytes, rxPackets, rxErrors, rxDropped uint64
	txBytes, txPackets, txErrors, txDropped uint64
}
