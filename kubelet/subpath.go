package kubelet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/internal/expand"
)

// subPaths returns the container with the subPathExpr of its volumeMounts expanded into subPath; it is the same container when
// there is none. It fails for a variable that is missing or empty, in upstream's words.
func subPaths(container *corev1.Container, env []EnvVar) (*corev1.Container, error) {
	if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.SubPathExpr != "" }) {
		return container, nil
	}
	expanded := *container
	expanded.VolumeMounts = slices.Clone(container.VolumeMounts)
	for i := range expanded.VolumeMounts {
		mount := &expanded.VolumeMounts[i]
		if mount.SubPathExpr == "" {
			continue
		}
		var missing []string
		mount.SubPath = expand.String(mount.SubPathExpr, func(name string) (string, bool) {
			at := slices.IndexFunc(env, func(v EnvVar) bool { return v.Name == name })
			if at < 0 || env[at].Value == "" {
				missing = append(missing, name)
				return "", true
			}
			return env[at].Value, true
		})
		if len(missing) > 0 {
			slices.Sort(missing)
			return nil, fmt.Errorf("missing value for %s", strings.Join(slices.Compact(missing), ", "))
		}
		mount.SubPathExpr = ""
	}
	return &expanded, nil
}
