package volumes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestEmptyDir_Size has the least of what bounds a volume in memory.
func TestEmptyDir_Size(t *testing.T) {
	limited := func(limits ...string) *corev1.Pod {
		pod := &corev1.Pod{}
		for _, limit := range limits {
			c := corev1.Container{}
			if limit != "" {
				c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		return pod
	}
	whole := limited("", "")
	whole.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}
	for _, test := range []struct {
		pod         *corev1.Pod
		limit, node string
		want        string // "": no bound
	}{
		{limited(""), "", "", ""},
		{limited(""), "", "8Gi", "8Gi"},
		{limited("1Gi", "2Gi"), "", "8Gi", "3Gi"},
		{limited("1Gi", ""), "", "8Gi", "8Gi"}, // one container has no limit, so the pod has none
		{whole, "", "8Gi", "3Gi"},
		{limited("1Gi"), "100Mi", "8Gi", "100Mi"},
		{limited("1Gi"), "4Gi", "8Gi", "1Gi"},
		{limited(""), "4Gi", "", "4Gi"},
		{limited("16Gi"), "", "8Gi", "8Gi"},
	} {
		e := &emptyDir{}
		if test.node != "" {
			e.allocatable = func() corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(test.node)}
			}
		}
		var limit *resource.Quantity
		if test.limit != "" {
			limit = new(resource.MustParse(test.limit))
		}
		got := ""
		if size := e.size(test.pod, limit); size != nil {
			got = size.String()
		}
		if got != test.want {
			t.Errorf("limit %q on a node with %q: %q, want %q", test.limit, test.node, got, test.want)
		}
	}
}

func TestPageSize(t *testing.T) {
	requests := func(sizes ...corev1.ResourceName) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
		for _, size := range sizes {
			c.Resources.Requests[size] = resource.MustParse("4Mi")
		}
		return c
	}
	for _, test := range []struct {
		medium     corev1.StorageMedium
		containers []corev1.Container
		want       string
		bad        bool
	}{
		{medium: "HugePages-2Mi", want: "2097152"},
		{medium: "HugePages-1Gi", want: "1073741824"},
		{medium: "HugePages-huge", bad: true},
		{medium: "HugePages", containers: []corev1.Container{requests("hugepages-2Mi"), requests("hugepages-2Mi", "cpu")}, want: "2097152"},
		{medium: "HugePages", containers: []corev1.Container{requests("cpu")}, bad: true},
		{medium: "HugePages", containers: []corev1.Container{requests("hugepages-2Mi", "hugepages-1Gi")}, bad: true},
	} {
		v := &Volume{
			Pod:  &corev1.Pod{Spec: corev1.PodSpec{Containers: test.containers}},
			Spec: &corev1.Volume{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: test.medium}}},
		}
		got, err := pageSize(v)
		if got != test.want || (err != nil) != test.bad {
			t.Errorf("%s: %q, %v; want %q", test.medium, got, err, test.want)
		}
	}
}
