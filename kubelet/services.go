package kubelet

import (
	"context"

	"vigil/informer"
)

// follower is an Environment that has to know objects of the API server.
type follower interface {
	// Follow gets them from the factory's informers; it returns when it knows them, or with ctx.
	Follow(ctx context.Context, factory *informer.Factory) error
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
