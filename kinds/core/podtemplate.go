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
	"vigil/object"
)

// PodTemplate is the row of pod templates that stand by themselves.
func PodTemplate() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("PodTemplate"),
		Resource:   "podtemplates",
		Singular:   "podtemplate",
		Namespaced: true,
		Path:       "podtemplates",
		Type: &object.Type{
			APIVersion: "v1", Kind: "PodTemplate", Namespaced: true,
			New: func() runtime.Object { return &corev1.PodTemplate{} },
		},
		New:     func() kinds.Object { return &corev1.PodTemplate{} },
		NewList: func() runtime.Object { return &corev1.PodTemplateList{} },

		Default:       func(obj kinds.Object) { podspec.DefaultTemplate(&obj.(*corev1.PodTemplate).Template) },
		Drop:          podspec.DropFrom(func(obj kinds.Object) *corev1.PodSpec { return &obj.(*corev1.PodTemplate).Template.Spec }, "template", "spec"),
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return podspec.ValidateTemplate(&obj.(*corev1.PodTemplate).Template, field.NewPath("template"), podspec.Options{})
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			before := &old.(*corev1.PodTemplate).Template
			return podspec.ValidateTemplate(&obj.(*corev1.PodTemplate).Template, field.NewPath("template"),
				podspec.Options{Old: &before.Spec, OldAnnotations: before.Annotations})
		},
		Warnings: func(obj, old kinds.Object) []string {
			t := &obj.(*corev1.PodTemplate).Template
			if old != nil && equality.Semantic.DeepEqual(t, &old.(*corev1.PodTemplate).Template) {
				return nil
			}
			return podspec.WarningsForTemplate(t, field.NewPath("template"))
		},

		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Containers", "The names of the template's containers."),
			column.Text("Images", "The images of the template's containers."),
			column.Text("Pod Labels", "The labels of the template."),
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			t := obj.(*corev1.PodTemplate)
			names, images := column.Containers(t.Template.Spec.Containers)
			return []any{t.Name, names, images, labels.FormatLabels(t.Template.Labels)}
		},
	}
}
