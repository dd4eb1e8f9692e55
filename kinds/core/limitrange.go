package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// LimitRange is the row of limit ranges. They have no columns of their own.
func LimitRange() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("LimitRange"),
		Resource:   "limitranges",
		Singular:   "limitrange",
		ShortNames: []string{"limits"},
		Namespaced: true,
		Path:       "limitranges",
		Type: &object.Type{
			APIVersion: "v1", Kind: "LimitRange", Namespaced: true,
			New: func() runtime.Object { return &corev1.LimitRange{} },
		},
		New:     func() kinds.Object { return &corev1.LimitRange{} },
		NewList: func() runtime.Object { return &corev1.LimitRangeList{} },

		Default:  func(obj kinds.Object) { defaultLimitRange(obj.(*corev1.LimitRange)) },
		Validate: func(obj kinds.Object) field.ErrorList { return validateLimitRange(obj.(*corev1.LimitRange)) },

		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,
	}
}

// defaultLimitRange fills in what containers get by default: as limit the greatest that is allowed, as request the limit,
// or else the least that is allowed.
func defaultLimitRange(r *corev1.LimitRange) {
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundUp(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		complete(&item.Default, item.Max)
		complete(&item.DefaultRequest, item.Default)
		complete(&item.DefaultRequest, item.Min)
	}
}

// complete takes from source what list does not have. A list that is there stays there, if only empty.
func complete(list *corev1.ResourceList, source corev1.ResourceList) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	for name, quantity := range source {
		if _, ok := (*list)[name]; !ok {
			(*list)[name] = quantity.DeepCopy()
		}
	}
}
