// Package podfacts reads from a pod what controllers count and choose pods by, without decoding it: at every event of every pod somebody
// wants to know whether it is ready, and a pod has a thousand other bytes.
//
// A pod that came as JSON, or whose bytes the reader here does not understand, is decoded.
package podfacts

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
	"vigil/internal/protobuf"
)

// State is how a pod is. The zero value is a pending pod.
type State struct {
	Finished bool // it has succeeded or failed
	Deleting bool // it has a deletion timestamp
	Ready    bool // its condition Ready is true
	// ReadySince is when it became ready, in seconds since 1970; HasTime says whether whoever made it ready told.
	ReadySince int64
	HasTime    bool
}

// Active says whether the pod is there to stay: neither finished nor being deleted.
func (s State) Active() bool { return !s.Finished && !s.Deleting }

// Facts are what pods are chosen by.
type Facts struct {
	State
	Name         string
	UID          types.UID
	Node         string // "": not assigned
	Phase        corev1.PodPhase
	Created      time.Time
	Restarts     int32 // of the container that restarted most often
	DeletionCost int64 // of the annotation controller.kubernetes.io/pod-deletion-cost; 0 when it cannot be read
}

// StateOf reads the state of a pod. It fails for what is no pod.
func StateOf(o *informer.Object) (State, error) {
	var s State
	if b, ok := o.Proto(); ok && readState(b, &s) {
		return s, nil
	}
	pod, err := informer.As[*corev1.Pod](o)
	if err != nil {
		return State{}, err
	}
	return ofPod(pod), nil
}

// Of reads the facts of a pod. It fails for what is no pod.
func Of(o *informer.Object) (Facts, error) {
	var f Facts
	if b, ok := o.Proto(); ok && readState(b, &f.State) && readFacts(b, &f) {
		f.Name, f.UID = o.Name(), o.UID()
		return f, nil
	}
	pod, err := informer.As[*corev1.Pod](o)
	if err != nil {
		return Facts{}, err
	}
	return OfPod(pod), nil
}

// OfPod returns the facts of a decoded pod.
func OfPod(pod *corev1.Pod) Facts {
	f := Facts{
		State: ofPod(pod), Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Phase: pod.Status.Phase,
		Created: pod.CreationTimestamp.Time, DeletionCost: cost(pod.Annotations[corev1.PodDeletionCost]),
	}
	for _, s := range pod.Status.ContainerStatuses {
		f.Restarts = max(f.Restarts, s.RestartCount)
	}
	return f
}

func ofPod(pod *corev1.Pod) State {
	s := State{Finished: finished(string(pod.Status.Phase)), Deleting: pod.DeletionTimestamp != nil}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			s.Ready = true
			if !c.LastTransitionTime.IsZero() {
				s.ReadySince, s.HasTime = c.LastTransitionTime.Unix(), true
			}
			break
		}
	}
	return s
}

func finished(phase string) bool {
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}

func cost(annotation string) int64 {
	cost, err := strconv.ParseInt(annotation, 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// Field numbers of k8s.io/api/core/v1/generated.proto and k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto.
const (
	podMetadata = 1
	podSpec     = 2
	podStatus   = 3

	metaCreated     = 8
	metaDeleted     = 9
	metaAnnotations = 12

	mapKey   = 1
	mapValue = 2

	specNode = 10

	statusPhase      = 1
	statusConditions = 2
	statusContainers = 8

	conditionType       = 1
	conditionStatus     = 2
	conditionTransition = 4

	containerRestarts = 5

	timeSeconds = 1
)

// each calls f for every field of a message and reports whether the message is well formed. A field of another type than the kind has
// there is not: f says so.
func each(b []byte, f func(field protobuf.Field) bool) bool {
	i := 0
	for i < len(b) {
		field, ok := protobuf.Next(b, i)
		if !ok || !f(field) {
			return false
		}
		i = field.End
	}
	return true
}

func readState(b []byte, s *State) bool {
	return each(b, func(f protobuf.Field) bool {
		if f.Type != protobuf.Bytes {
			return true
		}
		part := b[f.Start:f.End]
		switch f.Num {
		case podMetadata:
			return each(part, func(f protobuf.Field) bool {
				s.Deleting = s.Deleting || f.Num == metaDeleted
				return true
			})
		case podStatus:
			return each(part, func(f protobuf.Field) bool {
				switch {
				case f.Type != protobuf.Bytes:
				case f.Num == statusPhase:
					s.Finished = finished(string(part[f.Start:f.End]))
				case f.Num == statusConditions && !s.Ready:
					return readCondition(part[f.Start:f.End], s)
				}
				return true
			})
		}
		return true
	})
}

func readCondition(b []byte, s *State) bool {
	var kind, status, since []byte
	ok := each(b, func(f protobuf.Field) bool {
		if f.Type != protobuf.Bytes {
			return true
		}
		switch f.Num {
		case conditionType:
			kind = b[f.Start:f.End]
		case conditionStatus:
			status = b[f.Start:f.End]
		case conditionTransition:
			since = b[f.Start:f.End]
		}
		return true
	})
	if !ok || string(kind) != string(corev1.PodReady) || string(status) != string(corev1.ConditionTrue) {
		return ok
	}
	s.Ready = true
	s.ReadySince, s.HasTime, ok = readTime(since)
	return ok
}

// readTime reads a metav1.Time, whose zero value has no bytes.
func readTime(b []byte) (seconds int64, known, ok bool) {
	ok = each(b, func(f protobuf.Field) bool {
		if f.Num == timeSeconds && f.Type == protobuf.Varint {
			seconds = int64(f.Value)
		}
		return true
	})
	return seconds, len(b) > 0, ok
}

func readFacts(b []byte, to *Facts) bool {
	return each(b, func(f protobuf.Field) bool {
		if f.Type != protobuf.Bytes {
			return true
		}
		part := b[f.Start:f.End]
		switch f.Num {
		case podMetadata:
			return readMetadata(part, to)
		case podSpec:
			return each(part, func(f protobuf.Field) bool {
				if f.Num == specNode && f.Type == protobuf.Bytes {
					to.Node = string(part[f.Start:f.End])
				}
				return true
			})
		case podStatus:
			return readStatus(part, to)
		}
		return true
	})
}

func readMetadata(b []byte, to *Facts) bool {
	return each(b, func(f protobuf.Field) bool {
		if f.Type != protobuf.Bytes {
			return true
		}
		part := b[f.Start:f.End]
		switch f.Num {
		case metaCreated:
			seconds, known, ok := readTime(part)
			if known {
				to.Created = time.Unix(seconds, 0)
			}
			return ok
		case metaAnnotations:
			var key, value []byte
			ok := each(part, func(f protobuf.Field) bool {
				if f.Type == protobuf.Bytes && f.Num == mapKey {
					key = part[f.Start:f.End]
				} else if f.Type == protobuf.Bytes && f.Num == mapValue {
					value = part[f.Start:f.End]
				}
				return true
			})
			if ok && string(key) == corev1.PodDeletionCost {
				to.DeletionCost = cost(string(value))
			}
			return ok
		}
		return true
	})
}

func readStatus(b []byte, to *Facts) bool {
	return each(b, func(f protobuf.Field) bool {
		if f.Type != protobuf.Bytes {
			return true
		}
		part := b[f.Start:f.End]
		switch f.Num {
		case statusPhase:
			to.Phase = phase(part)
		case statusContainers:
			return each(part, func(f protobuf.Field) bool {
				if f.Num == containerRestarts && f.Type == protobuf.Varint {
					to.Restarts = max(to.Restarts, int32(f.Value))
				}
				return true
			})
		}
		return true
	})
}

// phase returns the constant where there is one, so that nothing is copied.
func phase(b []byte) corev1.PodPhase {
	for _, known := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown} {
		if string(b) == string(known) {
			return known
		}
	}
	return corev1.PodPhase(b)
}
