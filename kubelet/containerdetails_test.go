package kubelet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestBoundMessages(t *testing.T) {
	ended := func(bytes int) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{Message: strings.Repeat("x", bytes)}
	}
	status := corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended(5000)}}},
		ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: ended(3072)}, LastTerminationState: corev1.ContainerState{Terminated: ended(4096)}}, {},
		},
		EphemeralContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: ended(10)}}},
	}
	boundMessages(&status)
	got := []int{
		len(status.InitContainerStatuses[0].State.Terminated.Message), len(status.ContainerStatuses[0].State.Terminated.Message),
		len(status.ContainerStatuses[0].LastTerminationState.Terminated.Message), len(status.EphemeralContainerStatuses[0].State.Terminated.Message),
	}
	if diff := cmp.Diff([]int{3072, 3072, 3072, 10}, got); diff != "" {
		t.Error(diff)
	}
	boundMessages(&corev1.PodStatus{}) // of a pod without containers
}

func TestVolumeMountStatuses(t *testing.T) {
	c := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data/"}, {Name: "config", MountPath: "/etc/app", ReadOnly: true}, {Name: "lost", MountPath: "/lost"}}}
	seen := []corev1.VolumeMountStatus{
		{MountPath: "/etc/hosts"}, {MountPath: "/etc/app", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled)}, {MountPath: "/data"},
	}
	want := []corev1.VolumeMountStatus{
		{Name: "data", MountPath: "/data/"}, {Name: "config", MountPath: "/etc/app", ReadOnly: true, RecursiveReadOnly: new(corev1.RecursiveReadOnlyEnabled)},
	}
	if diff := cmp.Diff(want, volumeMountStatuses(c, seen)); diff != "" {
		t.Error(diff)
	}
	if got := volumeMountStatuses(c, nil); got != nil {
		t.Errorf("of a runtime that shows none: %v", got)
	}
}
