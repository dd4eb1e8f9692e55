package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/informer"
	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// follow connects the informers to the cache and the queue.
func (s *Scheduler) follow() {
	nodes := informer.ResourceOf[*corev1.Node]()
	nodes.DropManagedFields = true
	s.nodes = s.config.Informers.Informer(nodes)
	s.nodes.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { s.nodeChanged(o) },
		OnUpdate: func(_, o *informer.Object) { s.nodeChanged(o) },
		OnDelete: func(o *informer.Object, _ bool) { s.cache.RemoveNode(o.Name()) },
	})

	pods := informer.ResourceOf[*corev1.Pod]()
	pods.DropManagedFields = true
	s.pods = s.config.Informers.Informer(pods)
	s.pods.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { s.podChanged(nil, o) },
		OnUpdate: s.podChanged,
		OnDelete: func(o *informer.Object, _ bool) { s.podGone(o) },
	})
}

func (s *Scheduler) nodeChanged(o *informer.Object) {
	node, err := informer.As[*corev1.Node](o)
	if err != nil {
		s.config.Logger.Error("the scheduler cannot decode a node; it schedules by what the node was before", "node", o.Name(), "error", err)
		return
	}
	events := framework.NodeAdded
	if old := s.cache.SetNode(node); old != nil {
		events = nodeChange(old, node)
	}
	if events != 0 {
		s.queue.Happened(events)
	}
}

// podChanged takes in a pod. It decodes only pods that wait for a node, and bound ones of which something changed that counts.
func (s *Scheduler) podChanged(old, o *informer.Object) {
	if old != nil && old.UID() != o.UID() {
		s.podGone(old)
		old = nil
	}
	var was glance
	is, known := glanceAt(o)
	if old != nil && known {
		was, known = glanceAt(old)
	}
	if known && is.finished {
		s.podGone(o)
		return
	}
	uid, same := o.UID(), known && old != nil && was.spec == is.spec && was.status == is.status
	if known && is.node != "" {
		s.queue.Remove(uid)
		if same && s.cache.Confirm(uid, is.node, old.ResourceVersion(), o.ResourceVersion()) {
			return
		}
	}
	pod, err := informer.As[*corev1.Pod](o)
	if err != nil {
		s.config.Logger.Error("the scheduler cannot decode a pod; the pod is not scheduled, and counts as it was before", "namespace", o.Namespace(), "pod", o.Name(), "error", err)
		return
	}
	if !known {
		if is = glanceOf(pod); is.finished {
			s.podGone(o)
			return
		}
	}
	p, err := nodecache.NewPod(pod)
	if err != nil { // validation keeps such pods out
		s.config.Logger.Error("the scheduler cannot evaluate the selectors or affinities of a pod; the pod is not scheduled: mend its spec", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		return
	}
	switch {
	case is.node != "":
		s.cache.AddPod(p)
		s.queue.Remove(uid)
		if !same && (was.node != "" || !known) {
			s.queue.Happened(framework.PodRemoved) // resized: there may be more room
		}
	case s.profiles[pod.Spec.SchedulerName] == nil:
	case pod.DeletionTimestamp != nil, len(pod.Spec.SchedulingGates) > 0:
		s.queue.Remove(uid)
	default:
		s.queue.Set(p, old != nil && (!known || was.spec != is.spec))
	}
}

func (s *Scheduler) podGone(o *informer.Object) {
	uid := o.UID()
	s.queue.Remove(uid)
	if hasClaims(o) {
		s.volumes.Wake() // its claims may be being bound for it
	}
	if s.cache.Placed(uid) {
		s.cache.RemovePod(uid)
		s.queue.Happened(framework.PodRemoved)
	}
}

// hasClaims says whether a volume of a pod is a claim.
func hasClaims(o *informer.Object) bool {
	return len(claimVolumes(nil, o)) > 0 || len(ephemeralVolumes(nil, o)) > 0
}

// Volumes of a pod that are claims, by the fields that say so. What they return has no other meaning.
var (
	claimVolumes = informer.ByField(func(pod *corev1.Pod) (found []string) {
		for i := range pod.Spec.Volumes {
			if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				found = append(found, claim.ClaimName)
			}
		}
		return found
	}, 2, 1, 2, 10, 1)
	ephemeralVolumes = informer.ByField(func(pod *corev1.Pod) (found []string) {
		for i := range pod.Spec.Volumes {
			if pod.Spec.Volumes[i].Ephemeral != nil {
				found = append(found, pod.Spec.Volumes[i].Name)
			}
		}
		return found
	}, 2, 1, 2, 29)
)

// nodeChange says what about a node's change could help a pod that did not fit.
func nodeChange(old, node *corev1.Node) (events framework.Event) {
	if !maps.EqualFunc(old.Status.Allocatable, node.Status.Allocatable, equalQuantity) {
		events |= framework.NodeAllocatable
	}
	if !maps.Equal(old.Labels, node.Labels) {
		events |= framework.NodeLabels
	}
	sameTaints := slices.EqualFunc(old.Spec.Taints, node.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
	if !sameTaints || old.Spec.Unschedulable != node.Spec.Unschedulable {
		events |= framework.NodeTaints
	}
	return events
}
