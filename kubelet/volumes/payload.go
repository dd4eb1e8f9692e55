package volumes

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"vigil/kubelet/volumes/internal/contents"
)

// mode is the mode of a file: its own, or the volume's default.
func mode(own *int32, byDefault *int32, otherwise int32) os.FileMode {
	switch {
	case own != nil:
		return os.FileMode(*own)
	case byDefault != nil:
		return os.FileMode(*byDefault)
	}
	return os.FileMode(otherwise)
}

// keyed makes a payload of the keys of an object: all, or those that items name.
func keyed(what string, data map[string][]byte, items []corev1.KeyToPath, byDefault *int32, optional bool) (contents.Payload, error) {
	p := make(contents.Payload, len(data))
	if len(items) == 0 {
		for key, value := range data {
			p[key] = contents.File{Data: value, Mode: mode(nil, byDefault, corev1.ConfigMapVolumeSourceDefaultMode)}
		}
		return p, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent %s key: %s", what, item.Key)
		}
		p[item.Path] = contents.File{Data: value, Mode: mode(item.Mode, byDefault, corev1.ConfigMapVolumeSourceDefaultMode)}
	}
	return p, nil
}

func configMapPayload(c *corev1.ConfigMap, items []corev1.KeyToPath, byDefault *int32, optional bool) (contents.Payload, error) {
	data := make(map[string][]byte, len(c.Data)+len(c.BinaryData))
	for key, value := range c.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, c.BinaryData)
	return keyed("config", data, items, byDefault, optional)
}

func secretPayload(s *corev1.Secret, items []corev1.KeyToPath, byDefault *int32, optional bool) (contents.Payload, error) {
	return keyed("secret", s.Data, items, byDefault, optional)
}

// downwardPayload makes a payload of what a pod says about itself.
func downwardPayload(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, byDefault *int32, allocatable func() corev1.ResourceList) (contents.Payload, error) {
	p := make(contents.Payload, len(items))
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = fieldValue(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = resourceValue(pod, item.ResourceFieldRef, allocatable)
		}
		if err != nil {
			return nil, err
		}
		p[item.Path] = contents.File{Data: []byte(value), Mode: mode(item.Mode, byDefault, corev1.DownwardAPIVolumeSourceDefaultMode)}
	}
	return p, nil
}

// fieldValue is what a field of a pod is as text (pkg/fieldpath).
func fieldValue(pod *corev1.Pod, path string) (string, error) {
	if of, key, ok := subscript(path); ok {
		switch of {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", of)
	}
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
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.labels['KEY'].
func subscript(path string) (of, key string, ok bool) {
	if !strings.HasSuffix(path, "']") {
		return "", "", false
	}
	of, key, ok = strings.Cut(strings.TrimSuffix(path, "']"), "['")
	return of, key, ok && of != ""
}

// lines has a line KEY="VALUE" for each entry, sorted.
func lines(m map[string]string) string {
	var b strings.Builder
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(key + "=" + strconv.Quote(m[key]))
	}
	return b.String()
}

// resourceValue is what a container requests or is limited to, in units of the divisor, rounded up. Where there is no limit it is what
// the node has.
func resourceValue(pod *corev1.Pod, ref *corev1.ResourceFieldSelector, allocatable func() corev1.ResourceList) (string, error) {
	var container *corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == ref.ContainerName }); i >= 0 {
			container = &list[i]
			break
		}
	}
	if container == nil {
		return "", fmt.Errorf("container %s not found", ref.ContainerName)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var q resource.Quantity
	switch kind {
	case "limits":
		q = quantityOf(container.Resources.Limits, name)
		if q.IsZero() {
			q = unlimited(pod, name, allocatable)
		}
	case "requests":
		q = quantityOf(container.Resources.Requests, name)
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
	default:
		if !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
			return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(corev1.ResourceCPU) {
		return strconv.FormatInt(ceil(q.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceil(q.Value(), divisor.Value()), 10), nil
}

// unlimited is what a container without a limit may use: the pod's limit, or the node's allocatable.
func unlimited(pod *corev1.Pod, name string, allocatable func() corev1.ResourceList) resource.Quantity {
	if resourcehelper.IsPodLevelLimitsSet(pod) {
		if q := quantityOf(pod.Spec.Resources.Limits, name); !q.IsZero() {
			return q
		}
	}
	if allocatable == nil {
		return resource.Quantity{}
	}
	return quantityOf(allocatable(), name)
}

func quantityOf(list corev1.ResourceList, name string) resource.Quantity {
	return list[corev1.ResourceName(name)]
}

func ceil(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return (a + b - 1) / b
}
