package cri

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"

	"vigil/kubelet"
)

// Labels and annotations of sandboxes and containers, upstream's (pkg/kubelet/kuberuntime/labels.go).
const (
	podNameLabel       = "io.kubernetes.pod.name"
	podNamespaceLabel  = "io.kubernetes.pod.namespace"
	podUIDLabel        = "io.kubernetes.pod.uid"
	containerNameLabel = "io.kubernetes.container.name"

	podDeletionGraceAnnotation    = "io.kubernetes.pod.deletionGracePeriod"
	podTerminationGraceAnnotation = "io.kubernetes.pod.terminationGracePeriod"
	hashAnnotation                = "io.kubernetes.container.hash"
	restartCountAnnotation        = "io.kubernetes.container.restartCount"
	messagePathAnnotation         = "io.kubernetes.container.terminationMessagePath"
	messagePolicyAnnotation       = "io.kubernetes.container.terminationMessagePolicy"
	preStopAnnotation             = "io.kubernetes.container.preStopHandler"
	portsAnnotation               = "io.kubernetes.container.ports"
	typeAnnotation                = "io.kubernetes.container.type"

	// imageAnnotation is our own: the image as the spec had it, which runtimes report as they like.
	imageAnnotation = "vigil.dev/requested-image"
)

func podLabels(pod *corev1.Pod) map[string]string {
	labels := make(map[string]string, len(pod.Labels)+3)
	maps.Copy(labels, pod.Labels)
	labels[podNameLabel], labels[podNamespaceLabel], labels[podUIDLabel] = pod.Name, pod.Namespace, string(pod.UID)
	return labels
}

func containerLabels(pod *corev1.Pod, c *corev1.Container) map[string]string {
	return map[string]string{
		podNameLabel: pod.Name, podNamespaceLabel: pod.Namespace, podUIDLabel: string(pod.UID), containerNameLabel: c.Name,
	}
}

func containerAnnotations(pod *corev1.Pod, c *corev1.Container, options kubelet.ContainerOptions) map[string]string {
	annotations := map[string]string{
		hashAnnotation:          strconv.FormatUint(hashContainer(c), 16),
		restartCountAnnotation:  strconv.Itoa(int(options.Attempt)),
		messagePathAnnotation:   c.TerminationMessagePath,
		messagePolicyAnnotation: string(c.TerminationMessagePolicy),
		typeAnnotation:          containerType(pod, c.Name),
		imageAnnotation:         c.Image,
	}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		annotations[podDeletionGraceAnnotation] = strconv.FormatInt(*grace, 10)
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		annotations[podTerminationGraceAnnotation] = strconv.FormatInt(*grace, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		annotations[preStopAnnotation] = asJSON(c.Lifecycle.PreStop)
	}
	if len(c.Ports) > 0 {
		annotations[portsAnnotation] = asJSON(c.Ports)
	}
	return annotations
}

// asJSON encodes API types, which cannot fail.
func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err))
	}
	return string(data)
}

func containerType(pod *corev1.Pod, name string) string {
	switch {
	case slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }):
		return "init"
	case slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name }):
		return "ephemeral"
	}
	return "container"
}

// hashContainer is upstream's HashContainer: of the fields whose change restarts a container.
func hashContainer(c *corev1.Container) uint64 {
	hash := fnv.New32a()
	fmt.Fprint(hash, dump.ForHash([]byte(asJSON(map[string]string{"name": c.Name, "image": c.Image}))))
	return uint64(hash.Sum32())
}
