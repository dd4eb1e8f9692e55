package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Add returns a with b added.
func Add(a, b corev1.ResourceList) corev1.ResourceList {
	sum := make(corev1.ResourceList, len(a)+len(b))
	for name, quantity := range a {
		sum[name] = quantity.DeepCopy()
	}
	for name, quantity := range b {
		have := sum[name]
		have.Add(quantity)
		sum[name] = have
	}
	return sum
}

// Subtract returns a without b, as far below zero as need be.
func Subtract(a, b corev1.ResourceList) corev1.ResourceList {
	rest := make(corev1.ResourceList, len(a)+len(b))
	for name, quantity := range a {
		rest[name] = quantity.DeepCopy()
	}
	for name, quantity := range b {
		have := rest[name]
		have.Sub(quantity)
		rest[name] = have
	}
	return rest
}

// Only returns what of a list has one of the names.
func Only(list corev1.ResourceList, names []corev1.ResourceName) corev1.ResourceList {
	some := corev1.ResourceList{}
	for _, name := range names {
		if quantity, ok := list[name]; ok {
			some[name] = quantity
		}
	}
	return some
}

// WithoutZeros returns what of a list is not zero.
func WithoutZeros(list corev1.ResourceList) corev1.ResourceList {
	some := corev1.ResourceList{}
	for name, quantity := range list {
		if !quantity.IsZero() {
			some[name] = quantity
		}
	}
	return some
}

// Exceeding names what is more in a than in b, sorted. What b does not name is not bounded.
func Exceeding(a, b corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name, quantity := range a {
		if bound, ok := b[name]; ok && quantity.Cmp(bound) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Equal says that both lists name the same and as much of it.
func Equal(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Names are the names of a list, sorted.
func Names(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// Text writes a list for errors: "cpu=2,pods=1".
func Text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range Names(list) {
		quantity := list[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	return strings.Join(parts, ",")
}

// TextOfNames writes names for errors: "cpu,pods".
func TextOfNames(names []corev1.ResourceName) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = string(name)
	}
	return strings.Join(parts, ",")
}

func one() resource.Quantity { return *Number(1) }

// Number is a plain number as an amount.
func Number(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// None is nothing of each of the names.
func None(names []corev1.ResourceName) corev1.ResourceList {
	list := make(corev1.ResourceList, len(names))
	for _, name := range names {
		list[name] = *Number(0)
	}
	return list
}
