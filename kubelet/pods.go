package kubelet

import corev1 "k8s.io/api/core/v1"

// Pods are the pods of this node, static ones included, each with the newest status that the kubelet knows. They are shared: never
// change one.
func (k *Kubelet) Pods() []*corev1.Pod {
	k.mu.Lock()
	workers := make([]*worker, 0, len(k.workers))
	for _, w := range k.workers {
		workers = append(workers, w)
	}
	k.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(workers))
	for _, w := range workers {
		if pod, gone := w.newest(); !gone {
			pods = append(pods, k.status.latest(pod))
		}
	}
	return pods
}

// Pod is the pod of a name, nil when there is none on this node.
func (k *Kubelet) Pod(namespace, name string) *corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if pod, gone := w.newest(); !gone && pod.Name == name && pod.Namespace == namespace {
			return k.status.latest(pod)
		}
	}
	return nil
}
