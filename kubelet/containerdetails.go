package kubelet

import (
	"path"

	corev1 "k8s.io/api/core/v1"
)

// messagesLimit bounds the termination messages of all containers of a pod together, in bytes (status/status_manager.go).
const messagesLimit = 12 << 10

// boundMessages shortens the termination messages in a status, so that each container has the same share of what a pod may say.
func boundMessages(status *corev1.PodStatus) {
	lists := [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses}
	share := messagesLimit / max(1, len(lists[0])+len(lists[1])+len(lists[2]))
	for _, list := range lists {
		for i := range list {
			for _, ended := range []**corev1.ContainerStateTerminated{&list[i].State.Terminated, &list[i].LastTerminationState.Terminated} {
				if *ended != nil && len((*ended).Message) > share {
					shorter := **ended // others may have it, too
					shorter.Message = shorter.Message[:share]
					*ended = &shorter
				}
			}
		}
	}
}

// volumeMountStatuses says how the volumes that a container mounts are mounted. seen is what the runtime shows, which does not know
// whose volumes they are and has mounts of the kubelet's own among them.
func volumeMountStatuses(c *corev1.Container, seen []corev1.VolumeMountStatus) []corev1.VolumeMountStatus {
	if len(seen) == 0 || len(c.VolumeMounts) == 0 {
		return nil
	}
	statuses := make([]corev1.VolumeMountStatus, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		for j := range seen {
			if path.Clean(seen[j].MountPath) == path.Clean(m.MountPath) {
				statuses = append(statuses, corev1.VolumeMountStatus{
					Name: m.Name, MountPath: m.MountPath, ReadOnly: seen[j].ReadOnly, RecursiveReadOnly: seen[j].RecursiveReadOnly,
				})
				break
			}
		}
	}
	return statuses
}
