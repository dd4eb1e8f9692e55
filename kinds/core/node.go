package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/object"
)

// Node is the row of nodes.
func Node() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Node"),
		Resource:   "nodes",
		Singular:   "node",
		ShortNames: []string{"no"},
		Path:       "minions", // the name of nodes in etcd since before v1
		Type: &object.Type{
			APIVersion: "v1", Kind: "Node",
			New: func() runtime.Object { return &corev1.Node{} },
			Fields: []object.Field{
				{Label: "spec.unschedulable", Proto: []int32{specField, 4}, Default: "false"},
			},
		},
		UnknownField:     kinds.UnknownField,
		NoNamespaceField: true,

		New:     func() kinds.Object { return &corev1.Node{} },
		NewList: func() runtime.Object { return &corev1.NodeList{} },

		Default:        defaultNode,
		PrepareUpdate:  func(obj, old kinds.Object) { obj.(*corev1.Node).Status = old.(*corev1.Node).Status },
		Validate:       validateNode,
		ValidateUpdate: validateNodeUpdate,
		Warnings:       nodeWarnings,

		UnconditionalUpdate: true,

		Columns: nodeColumns,
		Row:     nodeRow,

		Connections: map[string]kinds.Connection{
			"proxy": {Kind: "NodeProxyOptions", Verbs: anyMethod},
		},
		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare:  func(obj, old kinds.Object) { obj.(*corev1.Node).Spec = old.(*corev1.Node).Spec },
			Validate: validateNodeStatusUpdate,
		}},
	}
}

// defaultNode offers all of a node's capacity unless it says otherwise, and keeps the single pod CIDR and the first of
// the list the same; the single one wins.
func defaultNode(obj kinds.Object) {
	node := obj.(*corev1.Node)
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		podspec.RoundUp(list)
	}
	if node.Status.Allocatable == nil && node.Status.Capacity != nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	switch spec := &node.Spec; {
	case spec.PodCIDR == "" && len(spec.PodCIDRs) > 0:
		spec.PodCIDR = spec.PodCIDRs[0]
	case spec.PodCIDR != "" && (len(spec.PodCIDRs) == 0 || spec.PodCIDRs[0] != spec.PodCIDR):
		spec.PodCIDRs = []string{spec.PodCIDR}
	}
}
