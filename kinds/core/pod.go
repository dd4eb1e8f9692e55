package core

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/object"
)

// Protobuf field numbers of messages that every kind has, and of pods.
const (
	specField   = 2
	statusField = 3
)

// Pod is the row of pods. What its streaming subresources (log, exec, attach, portforward, proxy) do belongs to the
// node and is served beside the table.
func Pod() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Pod"),
		Resource:   "pods",
		Singular:   "pod",
		ShortNames: []string{"po"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "pods",
		Type: &object.Type{
			APIVersion: "v1", Kind: "Pod", Namespaced: true,
			New: func() runtime.Object { return &corev1.Pod{} },
			Fields: []object.Field{
				{Label: "spec.nodeName", Proto: []int32{specField, 10}},
				{Label: "spec.host", Proto: []int32{specField, 10}}, // the name of nodeName before v1
				{Label: "spec.restartPolicy", Proto: []int32{specField, 3}},
				{Label: "spec.schedulerName", Proto: []int32{specField, 19}},
				{Label: "spec.serviceAccountName", Proto: []int32{specField, 8}},
				{Label: "spec.hostNetwork", Proto: []int32{specField, 11}, Default: "false"},
				{Label: "status.phase", Proto: []int32{statusField, 1}},
				{Label: "status.podIP", Proto: []int32{statusField, 6}},
				{Label: "status.podIPs", Proto: []int32{statusField, 12, 1}},
				{Label: "status.nominatedNodeName", Proto: []int32{statusField, 11}},
			},
		},
		UnknownField: kinds.UnknownField,
		Indexes:      []string{"spec.nodeName"},

		New:     func() kinds.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },

		Default:        func(obj kinds.Object) { podspec.DefaultPod(obj.(*corev1.Pod)) },
		Drop:           podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec { return &obj.(*corev1.Pod).Spec }, "spec"),
		PrepareCreate:  preparePodCreate,
		PrepareUpdate:  preparePodUpdate,
		HasGeneration:  true,
		Validate:       validatePod,
		ValidateUpdate: validatePodUpdate,
		Warnings:       podWarnings,

		UnconditionalUpdate: true,
		ReturnsDeleted:      true,
		Graceful:            gracefulPod,

		Columns:       podColumns,
		Row:           podRow,
		RowConditions: podRowConditions,

		Subresources: []kinds.Subresource{
			{
				Name: "binding", GVK: corev1.SchemeGroupVersion.WithKind("Binding"), Verbs: []string{"create"},
				NewView: func() runtime.Object { return &corev1.Binding{} },
				Action:  bindPod,
			},
			{
				Name: "ephemeralcontainers", Verbs: []string{"get", "patch", "update"},
				Prepare: preparePodEphemeralContainers, Validate: validatePodEphemeralContainersUpdate,
			},
			{
				Name: "eviction", GVK: policyv1.SchemeGroupVersion.WithKind("Eviction"), Verbs: []string{"create"},
				NewView: func() runtime.Object { return &policyv1.Eviction{} },
			},
			{
				Name: "resize", Verbs: []string{"get", "patch", "update"},
				Prepare: preparePodResize, Validate: validatePodResize,
			},
			{
				Name: "status", Verbs: []string{"get", "patch", "update"},
				Prepare: preparePodStatus, Validate: validatePodStatusUpdate,
			},
		},
		Connections: map[string]kinds.Connection{
			"attach":      {Kind: "PodAttachOptions", Verbs: stream},
			"exec":        {Kind: "PodExecOptions", Verbs: stream},
			"log":         {Kind: "Pod", Verbs: []string{"get"}},
			"portforward": {Kind: "PodPortForwardOptions", Verbs: stream},
			"proxy":       {Kind: "PodProxyOptions", Verbs: anyMethod},
		},
		PatchAction: patchedBinding,
	}
}

// The verbs of subresources through which bytes flow.
var (
	stream    = []string{"create", "get"}
	anyMethod = []string{"create", "delete", "get", "patch", "update"}
)

// preparePodCreate gives a new pod its first status and takes label keys into the selectors that ask for it.
func preparePodCreate(obj kinds.Object) {
	pod := obj.(*corev1.Pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: podspec.QOSClass(&pod.Spec)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Reason:  corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	podspec.MergeMatchLabelKeys(&pod.Spec, pod.Labels)
}

func preparePodUpdate(obj, old kinds.Object) {
	obj.(*corev1.Pod).Status = old.(*corev1.Pod).Status
}

// gracefulPod grants the grace period asked for, else the pod's own; none to a pod that runs nowhere or no longer.
func gracefulPod(obj kinds.Object, opts *metav1.DeleteOptions) (seconds int64, graceful bool) {
	pod := obj.(*corev1.Pod)
	switch {
	case opts != nil && opts.GracePeriodSeconds != nil:
		seconds = *opts.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0, true
	}
	if seconds < 0 {
		seconds = 1
	}
	return seconds, true
}
