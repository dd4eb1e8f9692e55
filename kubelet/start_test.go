package kubelet_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet"
)

// farAway is a runtime whose images have to be pulled.
type farAway struct{ *recorded }

func (r farAway) EnsureImage(ctx context.Context, request kubelet.ImageRequest) (kubelet.Image, error) {
	request.Began()
	request.Progress(34_500_000, 120_060_000)
	image, err := r.recorded.EnsureImage(ctx, request)
	image.Pulled, image.Size = true, 120_060_000
	return image, err
}

func TestPulls_AreToldOf(t *testing.T) {
	c := startCluster(t)
	c.run(t, farAway{record()}, nil)
	c.create(t, "p", nil)
	c.waitPhase(t, "p", corev1.PodRunning)
	c.hasEvent(t, "p", "Pulling", `Pulling image "image"`)
	c.hasEvent(t, "p", "Pulling", `Pulling image "image": 34.5MB of 120.1MB`)
	c.hasEvent(t, "p", "Pulled", `Successfully pulled image "image" in 0s (0s including waiting). Image size: 120060000 bytes.`)
}
