package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
	"vigil/kubelet/eviction"
)

// makeEviction makes what ends pods, and removes images and containers, when the machine runs short of something.
func (n *Node) makeEviction(context.Context) (err error) {
	if n.images, err = n.imageGC(); err != nil {
		return err
	}
	n.eviction = eviction.New(eviction.Config{
		Thresholds: n.thresholds, TransitionPeriod: n.config.EvictionTransition, MaxPodGrace: n.config.EvictionMaxPodGrace,
		NoStorageLimits: n.config.NoStorageLimits, Node: n.name, Stats: n.stats, Pods: evictable{n}, Recorder: n.recorder, Registerer: n.registry, Logger: n.log,
		Reclaim: eviction.Reclaimer{
			Containers: func(ctx context.Context) error { return n.runtime.Collect(ctx, n.has) },
			Images:     n.images.Free,
		},
	})
	n.parts = append(n.parts, part{"eviction", n.eviction.Run}, part{"image garbage collection", n.images.Run})
	return nil
}

// evictable gives the eviction manager the kubelet's pods.
type evictable struct{ *Node }

// Active implements eviction.Pods.
func (e evictable) Active() []*corev1.Pod {
	active := e.kubelet.Pods()
	return slices.DeleteFunc(active, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}

// Evict implements eviction.Pods.
func (e evictable) Evict(ctx context.Context, pod types.UID, how kubelet.Eviction) error {
	return e.kubelet.Evict(ctx, pod, how)
}

// has says whether a pod is one of this node's.
func (n *Node) has(uid types.UID) bool {
	return slices.ContainsFunc(n.kubelet.Pods(), func(pod *corev1.Pod) bool { return pod.UID == uid })
}
