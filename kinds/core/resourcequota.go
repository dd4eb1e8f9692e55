package core

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// ResourceQuota is the row of resource quotas.
func ResourceQuota() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
		Resource:   "resourcequotas",
		Singular:   "resourcequota",
		ShortNames: []string{"quota"},
		Namespaced: true,
		Path:       "resourcequotas",
		Type: &object.Type{
			APIVersion: "v1", Kind: "ResourceQuota", Namespaced: true,
			New: func() runtime.Object { return &corev1.ResourceQuota{} },
		},
		New:     func() kinds.Object { return &corev1.ResourceQuota{} },
		NewList: func() runtime.Object { return &corev1.ResourceQuotaList{} },

		Default: func(obj kinds.Object) {
			q := obj.(*corev1.ResourceQuota)
			roundUp(q.Spec.Hard)
			roundUp(q.Status.Hard)
			roundUp(q.Status.Used)
		},
		PrepareCreate: func(obj kinds.Object) { obj.(*corev1.ResourceQuota).Status = corev1.ResourceQuotaStatus{} },
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*corev1.ResourceQuota).Status = *old.(*corev1.ResourceQuota).Status.DeepCopy()
		},
		Validate: func(obj kinds.Object) field.ErrorList { return validateQuota(&obj.(*corev1.ResourceQuota).Spec) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateQuotaUpdate(&obj.(*corev1.ResourceQuota).Spec, &old.(*corev1.ResourceQuota).Spec)
		},

		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Request", "What may be requested and counted, as resource: used/hard."),
			column.Text("Limit", "What limits may add up to, as resource: used/hard."),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			q := obj.(*corev1.ResourceQuota)
			requests, limits := quotaCells(&q.Status)
			return []any{q.Name, requests, limits, column.Since(q.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*corev1.ResourceQuota).Spec = *old.(*corev1.ResourceQuota).Spec.DeepCopy()
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				return validateQuotaStatus(&obj.(*corev1.ResourceQuota).Status)
			},
		}},
	}
}

func quotaCells(s *corev1.ResourceQuotaStatus) (requests, limits string) {
	var texts [2][]string
	for _, name := range slices.Sorted(maps.Keys(s.Hard)) {
		hard, used := s.Hard[name], s.Used[name]
		i := 0
		if strings.HasPrefix(string(name), "limits") {
			i = 1
		}
		texts[i] = append(texts[i], string(name)+": "+used.String()+"/"+hard.String())
	}
	return strings.Join(texts[0], ", "), strings.Join(texts[1], ", ")
}

// roundUp brings quantities to what the API stores.
func roundUp(list corev1.ResourceList) { podspec.RoundUp(list) }
