package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/kinds/scale"
	"vigil/kinds/validate"
	"vigil/object"
)

// ReplicationController is the row of replication controllers, what replica sets were before selectors had operators.
func ReplicationController() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("ReplicationController"),
		Resource:   "replicationcontrollers",
		Singular:   "replicationcontroller",
		ShortNames: []string{"rc"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "controllers",
		Type: &object.Type{
			APIVersion: "v1", Kind: "ReplicationController", Namespaced: true,
			New:    func() runtime.Object { return &corev1.ReplicationController{} },
			Fields: []object.Field{{Label: "status.replicas", Proto: []int32{statusField, 1}, Default: "0"}},
		},
		UnknownField: kinds.UnknownField,
		New:          func() kinds.Object { return &corev1.ReplicationController{} },
		NewList:      func() runtime.Object { return &corev1.ReplicationControllerList{} },

		Default: func(obj kinds.Object) { defaultReplicationController(obj.(*corev1.ReplicationController)) },
		Drop: podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec {
			if template := obj.(*corev1.ReplicationController).Spec.Template; template != nil {
				return &template.Spec
			}
			return &corev1.PodSpec{} // validation will say that there is none
		}, "spec", "template", "spec"),
		PrepareCreate: func(obj kinds.Object) {
			obj.(*corev1.ReplicationController).Status = corev1.ReplicationControllerStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*corev1.ReplicationController).Status = *old.(*corev1.ReplicationController).Status.DeepCopy()
		},
		HasGeneration: true,
		Dependents:    kinds.Dependents{Orphan: true},
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateReplicationController(obj.(*corev1.ReplicationController), nil)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateReplicationController(obj.(*corev1.ReplicationController), old.(*corev1.ReplicationController).Spec.Template)
		},
		Warnings: replicationControllerWarnings,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Desired", corev1.ReplicationControllerSpec{}.SwaggerDoc()["replicas"]),
			column.Integer("Current", corev1.ReplicationControllerStatus{}.SwaggerDoc()["replicas"]),
			column.Integer("Ready", corev1.ReplicationControllerStatus{}.SwaggerDoc()["readyReplicas"]),
			column.Age(),
			column.Wide(column.Text("Containers", "The names of the template's containers.")),
			column.Wide(column.Text("Images", "The images of the template's containers.")),
			column.Wide(column.Text("Selector", corev1.ReplicationControllerSpec{}.SwaggerDoc()["selector"])),
		},
		Row: replicationControllerRow,

		Subresources: []kinds.Subresource{
			scale.Subresource(func(obj kinds.Object) scale.Parts {
				rc := obj.(*corev1.ReplicationController)
				return scale.Parts{
					Replicas: &rc.Spec.Replicas, Current: rc.Status.Replicas,
					Selector: &metav1.LabelSelector{MatchLabels: rc.Spec.Selector},
				}
			}),
			{
				Name: "status", Verbs: []string{"get", "patch", "update"},
				Prepare: func(obj, old kinds.Object) {
					obj.(*corev1.ReplicationController).Spec = *old.(*corev1.ReplicationController).Spec.DeepCopy()
				},
				Validate: func(obj, _ kinds.Object) field.ErrorList {
					return validateReplicationControllerStatus(&obj.(*corev1.ReplicationController).Status)
				},
			},
		},
	}
}

// defaultReplicationController takes selector and labels from the template where they are not given.
func defaultReplicationController(rc *corev1.ReplicationController) {
	if t := rc.Spec.Template; t != nil {
		podspec.DefaultTemplate(t)
		if len(rc.Spec.Selector) == 0 && t.Labels != nil {
			rc.Spec.Selector = copied(t.Labels)
		}
		if len(rc.Labels) == 0 && t.Labels != nil {
			rc.Labels = copied(t.Labels)
		}
	}
	if rc.Spec.Replicas == nil {
		one := int32(1)
		rc.Spec.Replicas = &one
	}
}

func validateReplicationController(rc *corev1.ReplicationController, oldTemplate *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validate.NonNegative(int64(rc.Spec.MinReadySeconds), path.Child("minReadySeconds"))
	selector := labels.SelectorFromValidatedSet(rc.Spec.Selector)
	if selector.Empty() {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	if rc.Spec.Replicas == nil {
		errs = append(errs, field.Required(path.Child("replicas"), ""))
	}
	errs = append(errs, validate.NonNegativePtr(rc.Spec.Replicas, path.Child("replicas"))...)

	t, path := rc.Spec.Template, path.Child("template")
	if t == nil {
		return append(errs, field.Required(path, ""))
	}
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	var opts podspec.Options
	if oldTemplate != nil {
		opts.Old, opts.OldAnnotations = &oldTemplate.Spec, oldTemplate.Annotations
	}
	errs = append(errs, podspec.ValidateTemplate(t, path, opts)...)
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicationController is not Supported"))
	}
	return errs
}

func validateReplicationControllerStatus(s *corev1.ReplicationControllerStatus) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	for _, c := range []struct {
		name     string
		value    int64
		notAbove int32
	}{
		{"replicas", int64(s.Replicas), s.Replicas},
		{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas), s.Replicas},
		{"readyReplicas", int64(s.ReadyReplicas), s.Replicas},
		{"availableReplicas", int64(s.AvailableReplicas), s.Replicas},
	} {
		errs = append(errs, validate.NonNegative(c.value, path.Child(c.name))...)
		if c.value > int64(c.notAbove) {
			errs = append(errs, field.Invalid(path.Child(c.name), c.value, "cannot be greater than status.replicas"))
		}
	}
	errs = append(errs, validate.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), int64(s.AvailableReplicas), "cannot be greater than readyReplicas"))
	}
	return errs
}

func replicationControllerWarnings(obj, old kinds.Object) []string {
	t := obj.(*corev1.ReplicationController).Spec.Template
	if t == nil || old != nil && equality.Semantic.DeepEqual(t, old.(*corev1.ReplicationController).Spec.Template) {
		return nil
	}
	return podspec.WarningsForTemplate(t, field.NewPath("spec", "template"))
}

func replicationControllerRow(obj kinds.Object, now time.Time) []any {
	rc := obj.(*corev1.ReplicationController)
	var desired int64
	if rc.Spec.Replicas != nil {
		desired = int64(*rc.Spec.Replicas)
	}
	var names, images string
	if rc.Spec.Template != nil {
		names, images = column.Containers(rc.Spec.Template.Spec.Containers)
	}
	return []any{
		rc.Name, desired, int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas),
		column.Since(rc.CreationTimestamp, now), names, images, labels.FormatLabels(rc.Spec.Selector),
	}
}

// copied returns a map of its own: what is defaulted is not shared within an object.
func copied(m map[string]string) map[string]string { return labels.Merge(m, nil) }
