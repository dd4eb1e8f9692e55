package kubelet

import corev1 "k8s.io/api/core/v1"

// LookAtAll makes all workers look again, as when a resync is due.
func (k *Kubelet) LookAtAll() { k.lookAtAll() }

// Gone tells the kubelet that a pod is gone, as a watch does.
func (k *Kubelet) Gone(pod *corev1.Pod) { k.remove(pod) }
