package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/internal/expand"
)

// subPathLimit is how long a path may be, in bytes (PATH_MAX).
const subPathLimit = 4096

// subPaths returns the container with the subPathExpr of its volumeMounts expanded into subPath; it is the same container when
// there is none. It fails for a variable that is missing or empty, in upstream's words.
func subPaths(container *corev1.Container, env []EnvVar) (*corev1.Container, error) {
	if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.SubPathExpr != "" }) {
		return container, nil
	}
	values := make(map[string]string, len(env))
	for _, v := range env {
		values[v.Name] = v.Value
	}
	expanded := *container
	expanded.VolumeMounts = slices.Clone(container.VolumeMounts)
	for i := range expanded.VolumeMounts {
		mount := &expanded.VolumeMounts[i]
		if mount.SubPathExpr == "" {
			continue
		}
		missing := map[string]bool{}
		path, err := expand.String(mount.SubPathExpr, func(name string) (string, bool) {
			if values[name] == "" {
				missing[name] = true
			}
			return values[name], true
		}, subPathLimit)
		if len(missing) > 0 {
			return nil, fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		}
		if err != nil {
			return nil, fmt.Errorf("subPathExpr of the volumeMount at %s: it stands for more than %d bytes", mount.MountPath, subPathLimit)
		}
		mount.SubPath = path
		mount.SubPathExpr = ""
	}
	return &expanded, nil
}
