package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RecursiveReadOnly says whether containers of a handler ("" is the default one) can have mounts that are read-only with all that is mounted
// below them (KEP-3857).
func (r *Runtime) RecursiveReadOnly(ctx context.Context, handler string) (bool, error) {
	status, err := r.client.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return false, fmt.Errorf("ask the runtime for its handlers: %w", err)
	}
	for _, h := range status.RuntimeHandlers {
		if h.Name == handler {
			return h.GetFeatures().GetRecursiveReadOnlyMounts(), nil
		}
	}
	return false, nil
}
