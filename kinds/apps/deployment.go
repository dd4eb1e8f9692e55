package apps

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// Deployment is the row of deployments.
func Deployment() *kinds.Kind {
	return &kinds.Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("Deployment"),
		Resource:   "deployments",
		Singular:   "deployment",
		ShortNames: []string{"deploy"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "deployments",
		Type: &object.Type{
			APIVersion: "apps/v1", Kind: "Deployment", Namespaced: true,
			New: func() runtime.Object { return &appsv1.Deployment{} },
		},

		New:     func() kinds.Object { return &appsv1.Deployment{} },
		NewList: func() runtime.Object { return &appsv1.DeploymentList{} },

		Default:        defaultDeployment,
		Drop:           podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec { return &obj.(*appsv1.Deployment).Spec.Template.Spec }, "spec", "template", "spec"),
		PrepareCreate:  func(obj kinds.Object) { obj.(*appsv1.Deployment).Status = appsv1.DeploymentStatus{} },
		PrepareUpdate:  func(obj, old kinds.Object) { obj.(*appsv1.Deployment).Status = old.(*appsv1.Deployment).Status },
		HasGeneration:  true,
		SameMetadata:   kinds.SameAnnotations, // its controller copies them
		Validate:       validateDeployment,
		ValidateUpdate: validateDeploymentUpdate,
		Warnings:       deploymentWarnings,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Ready", "How many replicas are ready, and how many are wanted."),
			column.Text("Up-to-date", appsv1.DeploymentStatus{}.SwaggerDoc()["updatedReplicas"]),
			column.Text("Available", appsv1.DeploymentStatus{}.SwaggerDoc()["availableReplicas"]),
			column.Age(),
			column.Wide(column.Text("Containers", "The names of the template's containers.")),
			column.Wide(column.Text("Images", "The images of the template's containers.")),
			column.Wide(column.Text("Selector", appsv1.DeploymentSpec{}.SwaggerDoc()["selector"])),
		},
		Row: deploymentRow,

		Subresources: []kinds.Subresource{
			scaleSubresource(func(obj kinds.Object) scalable {
				d := obj.(*appsv1.Deployment)
				return scalable{replicas: &d.Spec.Replicas, current: d.Status.Replicas, selector: d.Spec.Selector}
			}),
			{
				Name: "status", Verbs: []string{"get", "patch", "update"},
				Prepare: func(obj, old kinds.Object) {
					d, oldD := obj.(*appsv1.Deployment), old.(*appsv1.Deployment)
					d.Spec, d.Labels = oldD.Spec, oldD.Labels
				},
				Validate: validateDeploymentStatusUpdate,
			},
		},
	}
}

func defaultDeployment(obj kinds.Object) {
	spec := &obj.(*appsv1.Deployment).Spec
	if spec.Replicas == nil {
		spec.Replicas = ptr.To[int32](1)
	}
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if spec.Strategy.RollingUpdate == nil {
			spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		rolling := spec.Strategy.RollingUpdate
		if rolling.MaxUnavailable == nil {
			rolling.MaxUnavailable = ptr.To(intstr.FromString("25%"))
		}
		if rolling.MaxSurge == nil {
			rolling.MaxSurge = ptr.To(intstr.FromString("25%"))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To[int32](10)
	}
	if spec.ProgressDeadlineSeconds == nil {
		spec.ProgressDeadlineSeconds = ptr.To[int32](600)
	}
	podspec.DefaultTemplate(&spec.Template)
}

func deploymentRow(obj kinds.Object, now time.Time) []any {
	d := obj.(*appsv1.Deployment)
	names, images := column.Containers(d.Spec.Template.Spec.Containers)
	selector := "<invalid>"
	if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
		selector = s.String()
	}
	return []any{
		d.Name,
		fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, ptr.Deref(d.Spec.Replicas, 0)),
		int64(d.Status.UpdatedReplicas),
		int64(d.Status.AvailableReplicas),
		column.Since(d.CreationTimestamp, now),
		names, images, selector,
	}
}
