package kubelet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/panics"
	"vigil/kubelet/probe"
	"vigil/kubelet/prober"
)

// makeProber makes what asks containers how they are.
func (k *Kubelet) makeProber() *prober.Prober {
	return prober.New(prober.Config{
		Ask: k.askProbe, Changed: k.look,
		Event: func(pod *corev1.Pod, container *corev1.Container, reason, message string) {
			k.recorder.Event(containerReference(pod, container), corev1.EventTypeWarning, reason, message)
		},
	})
}

// askProbe asks a container. A panic is a failure to ask.
func (k *Kubelet) askProbe(ctx context.Context, q prober.Question) (result probe.Result, output string, err error) {
	result = probe.Failure // after a panic
	err = panics.Try(k.config.Logger, panics.Probe, func() (err error) {
		result, output, err = k.ask(ctx, q)
		return err
	}, "namespace", q.Pod.Namespace, "pod", q.Pod.Name, "container", q.Container.Name)
	return result, output, err
}

// running are the containers of a pod that run, as the prober knows them.
func running(now observed) map[string]prober.Running {
	all := make(map[string]prober.Running, len(now.containers))
	for name, c := range now.containers {
		if c.State == ContainerRunning {
			all[name] = prober.Running{ID: c.ID, Started: c.Started}
		}
	}
	return all
}

// ask asks a container.
func (k *Kubelet) ask(ctx context.Context, q prober.Question) (probe.Result, string, error) {
	return k.hooks.Do(ctx, &q.Spec.ProbeHandler, time.Duration(q.Spec.TimeoutSeconds)*time.Second, k.probeTarget(q.Container, q.ID, q.IP))
}

// probeTarget is a container as probes and hooks ask it: over the runtime for commands.
func (k *Kubelet) probeTarget(c *corev1.Container, id, ip string) probe.Target {
	return probe.Target{Container: c, PodIP: ip, Exec: func(ctx context.Context, command []string, timeout time.Duration, limit int) ([]byte, int, error) {
		output, code, err := k.config.Runtime.Exec(ctx, id, command, timeout, limit)
		if errors.Is(err, ErrExecTimeout) {
			err = probe.ErrTimeout
		}
		return output, code, err
	}}
}
