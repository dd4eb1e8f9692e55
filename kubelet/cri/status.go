package cri

import (
	"encoding/json"
	"math"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// What the runtime shows, in the kubelet's terms.

func toSandbox(prefix string, s *runtimeapi.PodSandboxStatus) *sandbox {
	live := s.State == runtimeapi.PodSandboxState_SANDBOX_READY
	host := s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	made := &sandbox{bare: s.Id, attempt: s.GetMetadata().GetAttempt(), live: live, handler: s.RuntimeHandler}
	made.Sandbox = kubelet.Sandbox{ID: prefix + s.Id, Created: time.Unix(0, s.CreatedAt)}
	if ip := s.GetNetwork().GetIp(); ip != "" {
		made.IPs = append(made.IPs, ip)
		for _, more := range s.Network.AdditionalIps {
			made.IPs = append(made.IPs, more.Ip)
		}
	}
	made.Ready = live && (host || len(made.IPs) > 0)
	return made
}

// netns finds the path of a sandbox's network namespace in what containerd and CRI-O tell when asked to be verbose.
func netns(info map[string]string) string {
	var detail struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if json.Unmarshal([]byte(info["info"]), &detail) != nil {
		return ""
	}
	for _, n := range detail.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" {
			return n.Path
		}
	}
	return ""
}

// toContainer reads the termination message of a container that has ended, so it is called once for each state.
func (r *Runtime) toContainer(prefix, sandbox string, s *runtimeapi.ContainerStatus) *container {
	c := &container{bare: s.Id, sandbox: sandbox, images: []string{s.ImageId}}
	if s.ImageId == "" { // of a runtime from before there was that field
		c.images[0] = s.ImageRef
	}
	for _, m := range s.Mounts {
		if image := m.GetImage().GetImage(); image != "" {
			c.images = append(c.images, image)
		}
	}
	c.Container = kubelet.Container{
		ID: prefix + s.Id, SandboxID: prefix + sandbox, Name: s.Labels[containerNameLabel], Requested: requested(s), Image: s.GetImage().GetImage(), ImageID: s.ImageRef,
		Attempt: int32(s.GetMetadata().GetAttempt()), Created: time.Unix(0, s.CreatedAt), LogPath: s.LogPath,
		User: toUser(s.User), Mounts: toMounts(s.Mounts), Resources: toResources(s.GetResources().GetLinux()),
	}
	if c.ImageID == "" {
		c.ImageID = s.ImageId
	}
	switch s.State {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		c.State = kubelet.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		c.State, c.Started = kubelet.ContainerRunning, time.Unix(0, s.StartedAt)
	default:
		c.State, c.Reason, c.Message, c.ExitCode = kubelet.ContainerExited, s.Reason, s.Message, s.ExitCode
		if s.StartedAt > 0 {
			c.Started = time.Unix(0, s.StartedAt)
		}
		if s.FinishedAt > 0 {
			c.Finished = time.Unix(0, s.FinishedAt)
		}
		if left := r.terminationMessage(s); left != "" {
			if c.Message != "" {
				c.Message += ": "
			}
			c.Message += left
		}
	}
	return c
}

// requested is the image as the spec had it.
func requested(s *runtimeapi.ContainerStatus) string {
	if image := s.Annotations[imageAnnotation]; image != "" {
		return image
	}
	if image := s.GetImage().GetUserSpecifiedImage(); image != "" {
		return image
	}
	return s.GetImage().GetImage()
}

func toUser(user *runtimeapi.ContainerUser) *corev1.ContainerUser {
	if user.GetLinux() == nil {
		return nil
	}
	return &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{
		UID: user.Linux.Uid, GID: user.Linux.Gid, SupplementalGroups: user.Linux.SupplementalGroups,
	}}
}

// toMounts tells of each mount where it is and whether it can be written; which volume it shows only the pod's spec knows.
func toMounts(mounts []*runtimeapi.Mount) []corev1.VolumeMountStatus {
	if len(mounts) == 0 {
		return nil
	}
	statuses := make([]corev1.VolumeMountStatus, 0, len(mounts))
	for _, m := range mounts {
		status := corev1.VolumeMountStatus{MountPath: path.Clean(m.ContainerPath), ReadOnly: m.Readonly}
		if m.Readonly {
			mode := corev1.RecursiveReadOnlyDisabled
			if m.RecursiveReadOnly {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			status.RecursiveReadOnly = &mode
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// toResources turns shares and quotas back. Memory requests leave no trace in a container.
func toResources(linux *runtimeapi.LinuxContainerResources) *corev1.ResourceRequirements {
	if linux == nil {
		return nil
	}
	resources := &corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if linux.CpuShares > minShares {
		resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Ceil(float64(linux.CpuShares)*1000/1024)), resource.DecimalSI)
	}
	if linux.CpuQuota > 0 && linux.CpuPeriod > 0 {
		resources.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(linux.CpuQuota*1000/linux.CpuPeriod, resource.DecimalSI)
	}
	if linux.MemoryLimitInBytes > 0 {
		resources.Limits[corev1.ResourceMemory] = *resource.NewQuantity(linux.MemoryLimitInBytes, resource.BinarySI)
	}
	return resources
}
