// Package downward reads what a pod may be told of itself: its fields and its containers' resources (fieldRef and
// resourceFieldRef of environments and volumes).
package downward

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field returns the field of a pod that a fieldRef names: "metadata.name", "metadata.labels['app']", "status.podIP". Addresses are those of its
// status.
func Field(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName", "spec.host":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		ips := make([]string, len(pod.Status.HostIPs))
		for i, ip := range pod.Status.HostIPs {
			ips[i] = ip.IP
		}
		return strings.Join(ips, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		ips := make([]string, len(pod.Status.PodIPs))
		for i, ip := range pod.Status.PodIPs {
			ips[i] = ip.IP
		}
		return strings.Join(ips, ","), nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	return "", fmt.Errorf("field label not supported: %s", path)
}

// lines shows a map as the downward API does: sorted, key="quoted value", a line each without a last newline.
func lines(m map[string]string) string {
	var out strings.Builder
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(key + "=" + strconv.Quote(m[key]))
	}
	return out.String()
}

// subscript finds key in "of['key']".
func subscript(path, of string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(path, of+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// Resource returns the request or limit of a container that a resourceFieldRef names, in units of its divisor, rounded up. own is
// the container that asks; nil when the reference names one. A limit that is not there is the pod's, or else
// what the node has.
func Resource(pod *corev1.Pod, own *corev1.Container, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	of := own
	if ref.ContainerName != "" {
		if of = container(pod, ref.ContainerName); of == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	resourceName := corev1.ResourceName(name)
	known := resourceName == corev1.ResourceCPU || resourceName == corev1.ResourceMemory || resourceName == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if of == nil || !known || kind != "limits" && kind != "requests" {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	var quantity resource.Quantity
	if kind == "requests" {
		quantity = of.Resources.Requests[resourceName]
	} else if limit, ok := of.Resources.Limits[resourceName]; ok && !limit.IsZero() {
		quantity = limit
	} else if !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		quantity = allocatable[resourceName]
		if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Name(resourceName, resource.DecimalSI).IsZero() {
			quantity = pod.Spec.Resources.Limits[resourceName]
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if resourceName == corev1.ResourceCPU {
		return strconv.FormatInt(ceil(quantity.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceil(quantity.Value(), divisor.Value()), 10), nil
}

func ceil(a, b int64) int64 {
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return nil
}
