package scheduler

import (
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"

	"vigil/informer"
	"vigil/internal/protobuf"
	"vigil/scheduler/nodecache"
)

// glance is what the bytes of a pod say at one look. Most events of pods change nothing that scheduling asks for: two glances tell, and
// the pod is not decoded.
type glance struct {
	node     string
	finished bool
	spec     uint64 // hash of the spec without the node's name
	status   uint64 // hash of what in the status changes how much the pod asks for: its resize
}

var glanceSeed = maphash.MakeSeed()

// Field numbers of k8s.io/api/core/v1/generated.proto.
const (
	podSpec   = 2
	podStatus = 3

	specNode = 10

	statusPhase          = 1
	statusConditions     = 2
	statusContainers     = 8
	statusInitContainers = 10
	statusResize         = 14
	statusAllocated      = 19
	statusResources      = 20

	conditionType = 1

	containerName      = 1
	containerAllocated = 10
	containerResources = 11
)

// glanceAt looks at a pod. It reports false for a pod that must be decoded to know: one that came as JSON, or that is malformed.
func glanceAt(o *informer.Object) (g glance, ok bool) {
	b, ok := o.Proto()
	if !ok {
		return g, false
	}
	var spec, status maphash.Hash
	spec.SetSeed(glanceSeed)
	status.SetSeed(glanceSeed)
	ok = each(b, func(f protobuf.Field, part []byte) bool {
		switch f.Num {
		case podSpec:
			return each(part, func(f protobuf.Field, value []byte) bool {
				if f.Num == specNode {
					g.node = string(value)
				} else {
					write(&spec, f, value)
				}
				return true
			})
		case podStatus:
			return each(part, func(f protobuf.Field, value []byte) bool { return g.inStatus(&status, f, value) })
		}
		return true
	})
	g.spec, g.status = spec.Sum64(), status.Sum64()
	return g, ok
}

func (g *glance) inStatus(h *maphash.Hash, f protobuf.Field, value []byte) bool {
	switch f.Num {
	case statusPhase:
		g.finished = string(value) == string(corev1.PodSucceeded) || string(value) == string(corev1.PodFailed)
	case statusContainers, statusInitContainers:
		return each(value, func(f protobuf.Field, value []byte) bool {
			if f.Num == containerName || f.Num == containerAllocated || f.Num == containerResources {
				write(h, f, value)
			}
			return true
		})
	case statusConditions:
		resize := false
		ok := each(value, func(f protobuf.Field, value []byte) bool {
			if f.Num == conditionType {
				resize = string(value) == string(corev1.PodResizePending) || string(value) == string(corev1.PodResizeInProgress)
			}
			return true
		})
		if resize {
			write(h, f, value)
		}
		return ok
	case statusResize, statusAllocated, statusResources:
		write(h, f, value)
	}
	return true
}

// each calls do for every field of a message with its bytes, and reports whether the message is well formed.
func each(b []byte, do func(f protobuf.Field, value []byte) bool) bool {
	for i := 0; i < len(b); {
		f, ok := protobuf.Next(b, i)
		if !ok || !do(f, b[f.Start:f.End]) {
			return false
		}
		i = f.End
	}
	return true
}

func write(h *maphash.Hash, f protobuf.Field, value []byte) {
	n := uint32(len(value))
	_, _ = h.Write([]byte{byte(f.Num), byte(f.Type), byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	_, _ = h.Write(value)
}

// glanceOf is the glance at a decoded pod, without the hashes.
func glanceOf(pod *corev1.Pod) glance {
	return glance{node: pod.Spec.NodeName, finished: nodecache.Finished(pod)}
}
