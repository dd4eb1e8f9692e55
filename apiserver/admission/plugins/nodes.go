package plugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// TaintNodesByCondition keeps pods off new nodes until they have said that they are ready.
type TaintNodesByCondition struct{ on }

// Name implements admission.Plugin.
func (TaintNodesByCondition) Name() string { return "TaintNodesByCondition" }

// Admit implements admission.Mutator.
func (TaintNodesByCondition) Admit(_ context.Context, a *admission.Attributes) error {
	node, ok := a.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}

// PodTopologyLabels copies the zone and region of a node to the pods that are bound to it.
type PodTopologyLabels struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (PodTopologyLabels) Name() string { return "PodTopologyLabels" }

// Handles implements admission.Plugin.
func (PodTopologyLabels) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == pods && op == admission.Create && (subresource == "binding" || subresource == "")
}

// Admit implements admission.Mutator.
func (p PodTopologyLabels) Admit(ctx context.Context, a *admission.Attributes) error {
	switch obj := a.Object.(type) {
	case *corev1.Binding:
		if obj.Target.Kind == "" || obj.Target.Kind == "Node" {
			return p.copyLabels(ctx, obj.Target.Name, &obj.Labels)
		}
	case *corev1.Pod:
		if obj.Spec.NodeName != "" {
			return p.copyLabels(ctx, obj.Spec.NodeName, &obj.Labels)
		}
	}
	return nil
}

func (p PodTopologyLabels) copyLabels(ctx context.Context, name string, into *map[string]string) error {
	obj, err := p.Reader.Get(ctx, nodes, "", name)
	if apierrors.IsNotFound(err) {
		return nil // a pod may be bound to a node that comes later
	}
	if err != nil {
		return err
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, ok := obj.GetLabels()[key]
		if !ok {
			continue
		}
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[key] = value
	}
	return nil
}
