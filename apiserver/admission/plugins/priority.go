package plugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// Priority turns the name of a pod's priority class into its priority, and lets at most one class be the default.
type Priority struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (Priority) Name() string { return "Priority" }

// Handles implements admission.Plugin.
func (Priority) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	resource := k.GroupResource()
	return subresource == "" && op != admission.Delete && (resource == pods || resource == priorityClasses)
}

// Admit implements admission.Mutator.
func (p Priority) Admit(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	if old, ok := a.Old.(*corev1.Pod); ok { // what was decided at its creation stays
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = old.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
		return nil
	}
	var priority int32
	policy := corev1.PreemptLowerPriority
	class, err := p.classOf(ctx, a, pod)
	if err != nil {
		return err
	}
	if class != nil {
		pod.Spec.PriorityClassName, priority = class.Name, class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if have := pod.Spec.Priority; have != nil && *have != priority {
		return admission.Forbidden(a, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *have, priority))
	}
	if have := pod.Spec.PreemptionPolicy; have != nil && *have != policy {
		return admission.Forbidden(a, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *have, policy))
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	return nil
}

// classOf is the class that a pod names, else the default one, else nil.
func (p Priority) classOf(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) (*schedulingv1.PriorityClass, error) {
	name := pod.Spec.PriorityClassName
	if name == "" {
		return p.byDefault(ctx)
	}
	obj, err := admission.Find(ctx, p.Reader, priorityClasses, "", name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, admission.Forbidden(a, fmt.Errorf("no PriorityClass with name %v was found", name))
	case err != nil:
		return nil, fmt.Errorf("failed to get PriorityClass with name %s: %w", name, err)
	}
	return obj.(*schedulingv1.PriorityClass), nil
}

// byDefault is the class of pods that name none, nil when there is none; of several the least.
func (p Priority) byDefault(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	list, err := p.Reader.List(ctx, priorityClasses, "")
	if err != nil {
		return nil, fmt.Errorf("failed to get default priority class: %w", err)
	}
	var found *schedulingv1.PriorityClass
	for _, obj := range list {
		if class := obj.(*schedulingv1.PriorityClass); class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found, nil
}

// Validate implements admission.Validator.
func (p Priority) Validate(ctx context.Context, a *admission.Attributes) error {
	class, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	now, err := p.byDefault(ctx)
	if err != nil || now == nil || a.Operation == admission.Update && now.Name == class.Name {
		return err
	}
	return admission.Forbidden(a, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", now.Name))
}
