package eviction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resources "k8s.io/component-helpers/resource"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// What kubelet_evictions counts pods under that use more disk than they said.
const (
	emptyDirLimit     = "emptydirfs.limit"
	podDiskLimit      = "ephemeralpodfs.limit"
	containerDiskFull = "ephemeralcontainerfs.limit"
)

// overLimit says whether a pod uses more of the node's disk than its limits allow: an emptyDir its sizeLimit, all containers together the
// sum of theirs, a container its own. "" means that it does not.
func overLimit(pod *corev1.Pod, stats *statsapi.PodStats, layout Layout) (signal, message string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		for j := range stats.VolumeStats {
			used := bytesOf(&stats.VolumeStats[j].FsStats)
			if stats.VolumeStats[j].Name == v.Name && used.Cmp(*v.EmptyDir.SizeLimit) > 0 {
				return emptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
			}
		}
	}
	if limit, ok := resources.PodLimits(pod, resources.PodResourcesOptions{})[corev1.ResourceEphemeralStorage]; ok {
		if used := bytesOf(stats.EphemeralStorage); used.Cmp(limit) > 0 {
			return podDiskLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())
		}
	}
	for i := range stats.Containers {
		container := containerOf(pod, stats.Containers[i].Name)
		if container == nil {
			continue
		}
		limit := container.Resources.Limits.StorageEphemeral()
		if limit.IsZero() {
			continue
		}
		used := bytesOf(stats.Containers[i].Logs)
		if !layout.SeparateImages {
			used.Add(bytesOf(stats.Containers[i].Rootfs))
		}
		if used.Cmp(*limit) > 0 {
			return containerDiskFull, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", container.Name, limit.String())
		}
	}
	return "", ""
}

func bytesOf(fs *statsapi.FsStats) resource.Quantity {
	if fs == nil || fs.UsedBytes == nil {
		return *resource.NewQuantity(0, resource.BinarySI)
	}
	return *resource.NewQuantity(int64(*fs.UsedBytes), resource.BinarySI)
}
