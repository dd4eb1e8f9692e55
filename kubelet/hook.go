package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// runHook runs a lifecycle hook of a container that runs, as long as ctx lets it. ips are the pod's.
func (k *Kubelet) runHook(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, ips []string, hook *corev1.LifecycleHandler) error {
	ip := ""
	if len(ips) > 0 {
		ip = ips[0]
	}
	fallback, err := k.hooks.Hook(ctx, pod, hook, k.probeTarget(c, id, ip))
	if fallback != "" {
		k.recorder.Event(pod, corev1.EventTypeWarning, "LifecycleHTTPFallback", fallback)
	}
	return err
}
