package apps

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// DaemonSet is the row of daemon sets.
func DaemonSet() *kinds.Kind {
	return &kinds.Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		Resource:   "daemonsets",
		Singular:   "daemonset",
		ShortNames: []string{"ds"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "daemonsets",
		Type: &object.Type{
			APIVersion: "apps/v1", Kind: "DaemonSet", Namespaced: true,
			New: func() runtime.Object { return &appsv1.DaemonSet{} },
		},

		New:     func() kinds.Object { return &appsv1.DaemonSet{} },
		NewList: func() runtime.Object { return &appsv1.DaemonSetList{} },

		Default: defaultDaemonSet,
		Drop:    podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec { return &obj.(*appsv1.DaemonSet).Spec.Template.Spec }, "spec", "template", "spec"),
		PrepareCreate: func(obj kinds.Object) {
			ds := obj.(*appsv1.DaemonSet)
			ds.Status = appsv1.DaemonSetStatus{}
			setTemplateGeneration(ds, 1)
		},
		PrepareUpdate:  prepareDaemonSetUpdate,
		HasGeneration:  true,
		Validate:       validateDaemonSet,
		ValidateUpdate: validateDaemonSetUpdate,
		Warnings:       daemonSetWarnings,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Desired", daemonSetStatusDoc["desiredNumberScheduled"]),
			column.Integer("Current", daemonSetStatusDoc["currentNumberScheduled"]),
			column.Integer("Ready", daemonSetStatusDoc["numberReady"]),
			column.Integer("Up-to-date", daemonSetStatusDoc["updatedNumberScheduled"]),
			column.Integer("Available", daemonSetStatusDoc["numberAvailable"]),
			column.Text("Node Selector", "The labels that a node must have for the template's pods."),
			column.Age(),
			column.Wide(column.Text("Containers", "The names of the template's containers.")),
			column.Wide(column.Text("Images", "The images of the template's containers.")),
			column.Wide(column.Text("Selector", appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])),
		},
		Row: daemonSetRow,

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				ds, oldDS := obj.(*appsv1.DaemonSet), old.(*appsv1.DaemonSet)
				ds.Spec = oldDS.Spec
				setTemplateGeneration(ds, templateGeneration(oldDS))
			},
			Validate: validateDaemonSetStatusUpdate,
		}},
	}
}

var daemonSetStatusDoc = appsv1.DaemonSetStatus{}.SwaggerDoc()

func defaultDaemonSet(obj kinds.Object) {
	spec := &obj.(*appsv1.DaemonSet).Spec
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if spec.UpdateStrategy.RollingUpdate == nil {
			spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
		rolling := spec.UpdateStrategy.RollingUpdate
		if rolling.MaxUnavailable == nil {
			rolling.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		}
		if rolling.MaxSurge == nil {
			rolling.MaxSurge = ptr.To(intstr.FromInt32(0))
		}
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To[int32](10)
	}
	podspec.DefaultTemplate(&spec.Template)
}

// prepareDaemonSetUpdate keeps the status, and counts changes of the template.
func prepareDaemonSetUpdate(obj, old kinds.Object) {
	ds, oldDS := obj.(*appsv1.DaemonSet), old.(*appsv1.DaemonSet)
	ds.Status = oldDS.Status
	generation := templateGeneration(oldDS)
	if !equality.Semantic.DeepEqual(ds.Spec.Template, oldDS.Spec.Template) {
		generation++
	}
	setTemplateGeneration(ds, generation)
}

// templateGeneration reads the counter that was a field of the spec before apps/v1. 0 when it is not there or damaged.
func templateGeneration(ds *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setTemplateGeneration(ds *appsv1.DaemonSet, n int64) {
	if ds.Annotations == nil {
		ds.Annotations = map[string]string{}
	}
	ds.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func daemonSetRow(obj kinds.Object, now time.Time) []any {
	ds := obj.(*appsv1.DaemonSet)
	names, images := column.Containers(ds.Spec.Template.Spec.Containers)
	return []any{
		ds.Name,
		int64(ds.Status.DesiredNumberScheduled),
		int64(ds.Status.CurrentNumberScheduled),
		int64(ds.Status.NumberReady),
		int64(ds.Status.UpdatedNumberScheduled),
		int64(ds.Status.NumberAvailable),
		labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector),
		column.Since(ds.CreationTimestamp, now),
		names, images, metav1.FormatLabelSelector(ds.Spec.Selector),
	}
}
