package scheduler

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/informer"
	"vigil/scheduler/nodecache"
	"vigil/scheduler/plugins"
)

// follow connects the informers to the cache and the queue.
func (s *Scheduler) follow() {
	nodes := informer.ResourceOf[*corev1.Node]()
	nodes.DropManagedFields = true
	s.nodes = s.config.Informers.Informer(nodes)
	s.nodes.AddHandler(informer.Handler[*corev1.Node]{
		OnAdd: func(node *corev1.Node, _ bool) {
			s.cache.SetNode(node)
			s.queue.Happened(plugins.NodeAdded)
		},
		OnUpdate: func(old, node *corev1.Node) {
			s.cache.SetNode(node)
			if events := nodeChange(old, node); events != 0 {
				s.queue.Happened(events)
			}
		},
		OnDelete: func(node *corev1.Node, _ bool) { s.cache.RemoveNode(node.Name) },
	}.EventHandler())

	pods := informer.ResourceOf[*corev1.Pod]()
	pods.DropManagedFields = true
	s.pods = s.config.Informers.Informer(pods)
	s.pods.AddHandler(informer.Handler[*corev1.Pod]{
		OnAdd:    func(pod *corev1.Pod, _ bool) { s.podChanged(nil, pod) },
		OnUpdate: s.podChanged,
		OnDelete: func(pod *corev1.Pod, _ bool) { s.podGone(pod) },
	}.EventHandler())
}

func (s *Scheduler) podChanged(old, pod *corev1.Pod) {
	if old != nil && old.UID != pod.UID {
		s.podGone(old)
		old = nil
	}
	if nodecache.Finished(pod) {
		s.podGone(pod)
		return
	}
	p, err := nodecache.NewPod(pod)
	if err != nil { // validation keeps such pods out
		s.config.Logger.Error("cannot understand pod", "namespace", pod.Namespace, "pod", pod.Name, "error", err)
		return
	}
	switch {
	case pod.Spec.NodeName != "":
		s.cache.AddPod(p)
		s.queue.Remove(pod.UID)
		if old != nil && old.Spec.NodeName != "" && !reflect.DeepEqual(old.Spec, pod.Spec) {
			s.queue.Happened(plugins.PodRemoved) // resized: there may be more room
		}
	case pod.Spec.SchedulerName != s.config.Name:
	case pod.DeletionTimestamp != nil, len(pod.Spec.SchedulingGates) > 0:
		s.queue.Remove(pod.UID)
	default:
		s.queue.Set(p, old != nil && !reflect.DeepEqual(old.Spec, pod.Spec))
	}
}

func (s *Scheduler) podGone(pod *corev1.Pod) {
	s.queue.Remove(pod.UID)
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }) {
		s.volumes.Wake() // its claims may be being bound for it
	}
	if s.cache.Placed(pod.UID) {
		s.cache.RemovePod(pod.UID)
		s.queue.Happened(plugins.PodRemoved)
	}
}

// nodeChange says what about a node's change could help a pod that did not fit.
func nodeChange(old, node *corev1.Node) (events plugins.Event) {
	if !maps.EqualFunc(old.Status.Allocatable, node.Status.Allocatable, equalQuantity) {
		events |= plugins.NodeAllocatable
	}
	if !maps.Equal(old.Labels, node.Labels) {
		events |= plugins.NodeLabels
	}
	sameTaints := slices.EqualFunc(old.Spec.Taints, node.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
	if !sameTaints || old.Spec.Unschedulable != node.Spec.Unschedulable {
		events |= plugins.NodeTaints
	}
	return events
}
