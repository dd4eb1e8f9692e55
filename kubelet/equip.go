package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"vigil/informer"
	"vigil/internal/panics"
	"vigil/kubelet/probe"
)

// follower is an Environment that has to know objects of the API server.
type follower interface {
	// Follow gets them from the factory's informers; it returns when it knows them, or with ctx.
	Follow(ctx context.Context, factory *informer.Factory) error
}

// makeProber makes what asks containers how they are.
func (k *Kubelet) makeProber() *prober {
	p := newProber()
	p.changed = k.look
	p.event = func(pod *corev1.Pod, container *corev1.Container, reason, message string) {
		k.recorder.Event(containerReference(pod, container), corev1.EventTypeWarning, reason, message)
	}
	p.ask = func(ctx context.Context, q question) (result probe.Result, output string, err error) {
		result = probe.Failure // after a panic
		err = panics.Try(k.config.Logger, panics.Probe, func() (err error) {
			result, output, err = k.ask(ctx, q)
			return err
		}, "namespace", q.pod.Namespace, "pod", q.pod.Name, "container", q.container.Name)
		return result, output, err
	}
	return p
}

// followServices lets environments know services.
func (k *Kubelet) followServices(ctx context.Context) {
	if f, ok := k.config.Parts.Env.(follower); ok {
		k.running.Go(func() {
			if f.Follow(ctx, k.factory) == nil {
				k.lookAtAll() // some may have waited for it
			}
		})
	}
}
