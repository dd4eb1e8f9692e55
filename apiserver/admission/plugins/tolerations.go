package plugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/utils/ptr"
	"vigil/apiserver/admission"

	"vigil/kinds"
)

// DefaultTolerationSeconds lets pods stay for a while on a node that is not ready or cannot be reached, unless they say otherwise.
type DefaultTolerationSeconds struct{ NotReady, Unreachable int64 }

func defaultTolerationSeconds(c *Config) admission.Plugin {
	return DefaultTolerationSeconds{NotReady: ptr.Deref(c.NotReadyTolerationSeconds, 300), Unreachable: ptr.Deref(c.UnreachableTolerationSeconds, 300)}
}

// Name implements admission.Plugin.
func (DefaultTolerationSeconds) Name() string { return "DefaultTolerationSeconds" }

// Handles implements admission.Plugin.
func (DefaultTolerationSeconds) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == pods && subresource == "" && op != admission.Delete
}

// Admit implements admission.Mutator.
func (p DefaultTolerationSeconds) Admit(_ context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	tolerate := func(key string, seconds int64) {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	tolerate(corev1.TaintNodeNotReady, p.NotReady)
	tolerate(corev1.TaintNodeUnreachable, p.Unreachable)
	return nil
}

// mergeTolerations is first and second without those that another of them includes.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var merged []corev1.Toleration
	for i := range all {
		included := slices.ContainsFunc(merged, func(t corev1.Toleration) bool { return includes(&t, &all[i]) }) ||
			slices.ContainsFunc(all[i+1:], func(t corev1.Toleration) bool {
				return includes(&t, &all[i]) && !sameToleration(&t, &all[i])
			})
		if !included {
			merged = append(merged, all[i])
		}
	}
	return merged
}

// sameToleration compares two tolerations without reflection: of n tolerations each is compared with each.
func sameToleration(a, b *corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect && ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
}

// includes says that wide tolerates all that narrow does.
func includes(wide, narrow *corev1.Toleration) bool {
	switch {
	case sameToleration(wide, narrow):
		return true
	case narrow.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists),
		narrow.Effect != wide.Effect && wide.Effect != "":
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds):
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return narrow.Operator == corev1.TolerationOpEqual && narrow.Value == wide.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
