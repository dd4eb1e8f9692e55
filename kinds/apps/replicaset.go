package apps

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// ReplicaSet is the row of replica sets.
func ReplicaSet() *kinds.Kind {
	return &kinds.Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		Resource:   "replicasets",
		Singular:   "replicaset",
		ShortNames: []string{"rs"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "replicasets",
		Type: &object.Type{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Namespaced: true,
			New: func() runtime.Object { return &appsv1.ReplicaSet{} },
			Fields: []object.Field{
				{Label: "status.replicas", Proto: []int32{3, 1}, Default: "0"},
			},
		},

		New:     func() kinds.Object { return &appsv1.ReplicaSet{} },
		NewList: func() runtime.Object { return &appsv1.ReplicaSetList{} },

		Default:        defaultReplicaSet,
		Drop:           podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec { return &obj.(*appsv1.ReplicaSet).Spec.Template.Spec }, "spec", "template", "spec"),
		PrepareCreate:  func(obj kinds.Object) { obj.(*appsv1.ReplicaSet).Status = appsv1.ReplicaSetStatus{} },
		PrepareUpdate:  func(obj, old kinds.Object) { obj.(*appsv1.ReplicaSet).Status = old.(*appsv1.ReplicaSet).Status },
		HasGeneration:  true,
		Validate:       validateReplicaSet,
		ValidateUpdate: validateReplicaSetUpdate,
		Warnings:       replicaSetWarnings,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Desired", appsv1.ReplicaSetSpec{}.SwaggerDoc()["replicas"]),
			column.Integer("Current", appsv1.ReplicaSetStatus{}.SwaggerDoc()["replicas"]),
			column.Integer("Ready", appsv1.ReplicaSetStatus{}.SwaggerDoc()["readyReplicas"]),
			column.Age(),
			column.Wide(column.Text("Containers", "The names of the template's containers.")),
			column.Wide(column.Text("Images", "The images of the template's containers.")),
			column.Wide(column.Text("Selector", appsv1.ReplicaSetSpec{}.SwaggerDoc()["selector"])),
		},
		Row: replicaSetRow,

		Subresources: []kinds.Subresource{
			scaleSubresource(func(obj kinds.Object) scalable {
				rs := obj.(*appsv1.ReplicaSet)
				return scalable{replicas: &rs.Spec.Replicas, current: rs.Status.Replicas, selector: rs.Spec.Selector}
			}),
			{
				Name: "status", Verbs: []string{"get", "patch", "update"},
				Prepare:  func(obj, old kinds.Object) { obj.(*appsv1.ReplicaSet).Spec = old.(*appsv1.ReplicaSet).Spec },
				Validate: validateReplicaSetStatusUpdate,
			},
		},
	}
}

func defaultReplicaSet(obj kinds.Object) {
	spec := &obj.(*appsv1.ReplicaSet).Spec
	if spec.Replicas == nil {
		spec.Replicas = ptr.To[int32](1)
	}
	podspec.DefaultTemplate(&spec.Template)
}

func replicaSetRow(obj kinds.Object, now time.Time) []any {
	rs := obj.(*appsv1.ReplicaSet)
	names, images := column.Containers(rs.Spec.Template.Spec.Containers)
	return []any{
		rs.Name,
		int64(ptr.Deref(rs.Spec.Replicas, 0)),
		int64(rs.Status.Replicas),
		int64(rs.Status.ReadyReplicas),
		column.Since(rs.CreationTimestamp, now),
		names, images, metav1.FormatLabelSelector(rs.Spec.Selector),
	}
}
