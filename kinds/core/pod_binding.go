package core

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

var bindingResource = schema.GroupResource{Resource: "pods/binding"}

// bindPod assigns a pod to the node that a Binding names, merges the binding's labels and annotations into it and
// notes in its conditions that it is scheduled. Everything that stands against it is a Conflict.
func bindPod(obj kinds.Object, body runtime.Object) error {
	pod, binding := obj.(*corev1.Pod), body.(*corev1.Binding)
	if errs := validateBinding(binding); len(errs) > 0 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Binding").GroupKind(), pod.Name, errs)
	}
	if why := refuseBinding(pod, binding); why != "" {
		return apierrors.NewConflict(bindingResource, pod.Name, errors.New(why))
	}
	pod.Spec.NodeName = binding.Target.Name
	pod.Annotations = merged(pod.Annotations, binding.Annotations)
	pod.Labels = merged(pod.Labels, binding.Labels)
	pod.Status.NominatedNodeName = "" // it has served its purpose
	setPodCondition(&pod.Status, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation,
	})
	return nil
}

// patchedBinding recognizes a patch that gives a pod without a node one: that is a binding.
func patchedBinding(obj, old kinds.Object) (string, runtime.Object) {
	pod := obj.(*corev1.Pod)
	node := pod.Spec.NodeName
	if node == "" || old.(*corev1.Pod).Spec.NodeName != "" {
		return "", nil
	}
	pod.Spec.NodeName = ""
	return "binding", &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

func validateBinding(binding *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	target := field.NewPath("target")
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	return errs
}

// refuseBinding says what keeps the pod from being bound, "" for nothing.
func refuseBinding(pod *corev1.Pod, binding *corev1.Binding) string {
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", binding.UID, pod.UID)
	case binding.ResourceVersion != "" && binding.ResourceVersion != pod.ResourceVersion:
		return fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", binding.ResourceVersion, pod.ResourceVersion)
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Sprintf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return ""
}

func merged(into, from map[string]string) map[string]string {
	if into == nil && len(from) > 0 {
		into = make(map[string]string, len(from))
	}
	maps.Copy(into, from)
	return into
}

// setPodCondition puts a condition in its place. The transition time changes with the status only.
func setPodCondition(status *corev1.PodStatus, c corev1.PodCondition) {
	c.LastTransitionTime = metav1.Now()
	for i := range status.Conditions {
		if old := &status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}
