package plugins

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// RuntimeClass gives pods the overhead, node selector and tolerations of their runtime class, which must exist.
type RuntimeClass struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (RuntimeClass) Name() string { return "RuntimeClass" }

// Handles implements admission.Plugin.
func (RuntimeClass) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == pods && subresource == "" && op == admission.Create
}

// classOf is the class that a pod names, nil when it names none.
func (p RuntimeClass) classOf(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	if pod.Spec.RuntimeClassName == nil {
		return nil, nil //nolint:nilnil // having none is usual
	}
	obj, err := admission.Find(ctx, p.Reader, runtimeClasses, "", *pod.Spec.RuntimeClassName)
	if apierrors.IsNotFound(err) {
		return nil, admission.Forbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName))
	}
	if err != nil {
		return nil, err
	}
	return obj.(*nodev1.RuntimeClass), nil
}

const otherOverhead = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

// Admit implements admission.Mutator.
func (p RuntimeClass) Admit(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	class, err := p.classOf(ctx, a, pod)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if pod.Spec.Overhead != nil && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.Refuse(a, otherOverhead)
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, want := range class.Scheduling.NodeSelector {
		if have, ok := pod.Spec.NodeSelector[key]; ok && have != want {
			return admission.Forbidden(a, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, want, key, have))
		}
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = maps.Clone(class.Scheduling.NodeSelector)
	} else {
		maps.Copy(pod.Spec.NodeSelector, class.Scheduling.NodeSelector)
	}
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}

// Validate implements admission.Validator.
func (p RuntimeClass) Validate(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	class, err := p.classOf(ctx, a, pod)
	if err != nil {
		return err
	}
	switch {
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.Refuse(a, otherOverhead)
		}
	case pod.Spec.Overhead != nil:
		return admission.Refuse(a, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}
