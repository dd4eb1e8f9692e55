package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// StatefulSet is the row of stateful sets.
func StatefulSet() *kinds.Kind {
	return &kinds.Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		Resource:   "statefulsets",
		Singular:   "statefulset",
		ShortNames: []string{"sts"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "statefulsets",
		Type: &object.Type{
			APIVersion: "apps/v1", Kind: "StatefulSet", Namespaced: true,
			New: func() runtime.Object { return &appsv1.StatefulSet{} },
			Complete: func(obj runtime.Object) {
				claims := obj.(*appsv1.StatefulSet).Spec.VolumeClaimTemplates
				for i := range claims {
					completeClaimTemplate(&claims[i])
				}
			},
		},

		New:     func() kinds.Object { return &appsv1.StatefulSet{} },
		NewList: func() runtime.Object { return &appsv1.StatefulSetList{} },

		Default:        defaultStatefulSet,
		Drop:           podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec { return &obj.(*appsv1.StatefulSet).Spec.Template.Spec }, "spec", "template", "spec"),
		PrepareCreate:  func(obj kinds.Object) { obj.(*appsv1.StatefulSet).Status = appsv1.StatefulSetStatus{} },
		PrepareUpdate:  func(obj, old kinds.Object) { obj.(*appsv1.StatefulSet).Status = old.(*appsv1.StatefulSet).Status },
		HasGeneration:  true,
		ValidateName:   apivalidation.NameIsDNSLabel, // pods are named after it
		Validate:       validateStatefulSet,
		ValidateUpdate: validateStatefulSetUpdate,
		Warnings:       statefulSetWarnings,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Ready", "Number of the pod with ready state"),
			column.Age(),
			column.Wide(column.Text("Containers", "Names of each container in the template.")),
			column.Wide(column.Text("Images", "Images referenced by each container in the template.")),
		},
		Row: statefulSetRow,

		Subresources: []kinds.Subresource{
			scaleSubresource(func(obj kinds.Object) scalable {
				s := obj.(*appsv1.StatefulSet)
				return scalable{replicas: &s.Spec.Replicas, current: s.Status.Replicas, selector: s.Spec.Selector}
			}),
			{
				Name: "status", Verbs: []string{"get", "patch", "update"},
				Prepare:  func(obj, old kinds.Object) { obj.(*appsv1.StatefulSet).Spec = old.(*appsv1.StatefulSet).Spec },
				Validate: validateStatefulSetStatusUpdate,
			},
		},
	}
}

func defaultStatefulSet(obj kinds.Object) {
	spec := &obj.(*appsv1.StatefulSet).Spec
	if spec.PodManagementPolicy == "" {
		spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		if rolling.Partition == nil {
			rolling.Partition = ptr.To[int32](0)
		}
		if rolling.MaxUnavailable == nil {
			rolling.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		}
	}
	if spec.PersistentVolumeClaimRetentionPolicy == nil {
		spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	retention := spec.PersistentVolumeClaimRetentionPolicy
	if retention.WhenDeleted == "" {
		retention.WhenDeleted = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if retention.WhenScaled == "" {
		retention.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	if spec.Replicas == nil {
		spec.Replicas = ptr.To[int32](1)
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To[int32](10)
	}
	podspec.DefaultTemplate(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		defaultClaimTemplate(&spec.VolumeClaimTemplates[i])
	}
}

// completeClaimTemplate writes kind and version, which clients have always seen there and protobuf has no place for.
func completeClaimTemplate(claim *corev1.PersistentVolumeClaim) {
	if claim.APIVersion == "" {
		claim.APIVersion = "v1"
	}
	if claim.Kind == "" {
		claim.Kind = "PersistentVolumeClaim"
	}
}

// defaultClaimTemplate completes a template of claims as if it were a claim.
func defaultClaimTemplate(claim *corev1.PersistentVolumeClaim) {
	completeClaimTemplate(claim)
	podspec.DefaultClaimSpec(&claim.Spec)
	podspec.RoundUp(claim.Status.Capacity)
	podspec.RoundUp(claim.Status.AllocatedResources)
	if claim.Status.Phase == "" {
		claim.Status.Phase = corev1.ClaimPending
	}
}

func statefulSetRow(obj kinds.Object, now time.Time) []any {
	s := obj.(*appsv1.StatefulSet)
	names, images := column.Containers(s.Spec.Template.Spec.Containers)
	return []any{
		s.Name,
		fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, ptr.Deref(s.Spec.Replicas, 0)),
		column.Since(s.CreationTimestamp, now),
		names, images,
	}
}
