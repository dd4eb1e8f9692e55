package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

func validateNode(obj kinds.Object) field.ErrorList {
	node := obj.(*corev1.Node)
	errs := validateNodeCommon(node)
	return append(errs, validatePodCIDRs(node.Spec.PodCIDRs, nil, field.NewPath("spec", "podCIDRs"))...)
}

// validateNodeUpdate checks a changed node. What a cloud or a controller gives a node once, its pod CIDRs and its
// provider's id, stays as it is.
func validateNodeUpdate(obj, old kinds.Object) field.ErrorList {
	node, oldNode := obj.(*corev1.Node), old.(*corev1.Node)
	spec, oldSpec, path := &node.Spec, &oldNode.Spec, field.NewPath("spec")
	errs := validateNodeCommon(node)
	if len(oldSpec.PodCIDRs) > 0 && !slices.Equal(spec.PodCIDRs, oldSpec.PodCIDRs) {
		errs = append(errs, field.Forbidden(path.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`))
	} else {
		errs = append(errs, validatePodCIDRs(spec.PodCIDRs, oldSpec.PodCIDRs, path.Child("podCIDRs"))...)
	}
	if oldSpec.ProviderID != "" && spec.ProviderID != oldSpec.ProviderID {
		errs = append(errs, field.Forbidden(path.Child("providerID"), `node updates may not change providerID except from "" to valid`))
	}
	if spec.DoNotUseExternalID != oldSpec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(path.Child("externalID"), "may not be updated"))
	}
	return errs
}

// validateNodeStatusUpdate applies the rules of an update: the spec is the old one, the status must be in order.
func validateNodeStatusUpdate(obj, old kinds.Object) field.ErrorList {
	return validateNodeUpdate(obj, old)
}

// validateNodeCommon has the rules for new and changed nodes. A node may be created with its status.
func validateNodeCommon(node *corev1.Node) field.ErrorList {
	// Upstream reports taints below metadata.
	errs := validateTaints(node.Spec.Taints, field.NewPath("metadata", "taints"))
	status := field.NewPath("status")
	for _, list := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"capacity", node.Status.Capacity}, {"allocatable", node.Status.Allocatable}} {
		for _, name := range slices.Sorted(maps.Keys(list.resources)) {
			errs = append(errs, podspec.ResourceQuantity(name, list.resources[name], status.Child(list.name, string(name)))...)
		}
	}
	seen := sets.New[corev1.NodeAddress]()
	for i, address := range node.Status.Addresses {
		if seen.Has(address) {
			errs = append(errs, field.Duplicate(status.Child("addresses").Index(i), address))
		}
		seen.Insert(address)
	}
	//lint:ignore SA1019 stored objects may have it
	if source := node.Spec.ConfigSource; source != nil {
		errs = append(errs, validateConfigSource(source, false, field.NewPath("spec", "configSource"))...)
	}
	if config := node.Status.Config; config != nil {
		for _, s := range []struct {
			name   string
			source *corev1.NodeConfigSource
		}{{"assigned", config.Assigned}, {"active", config.Active}, {"lastKnownGood", config.LastKnownGood}} {
			if s.source != nil {
				errs = append(errs, validateConfigSource(s.source, true, status.Child("config", s.name))...)
			}
		}
	}
	return errs
}

// validateTaints wants each key and effect at most once.
func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := sets.New[identity]()
	for i, taint := range taints {
		at := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
		if texts := validation.IsValidLabelValue(taint.Value); len(texts) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), taint.Value, strings.Join(texts, ";")))
		}
		errs = append(errs, validate.OneOf(taint.Effect, at.Child("effect"), podspec.TaintEffects...)...)
		id := identity{taint.Key, taint.Effect}
		if seen.Has(id) {
			duplicate := field.Duplicate(at, taint)
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
		}
		seen.Insert(id)
	}
	return errs
}

// validatePodCIDRs wants valid ranges, at most one of each address family.
func validatePodCIDRs(cidrs, old []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen, stored := sets.New[string](), validate.StoredOf(old)
	for i, cidr := range cidrs {
		errs = append(errs, validate.LegacyCIDR(path.Index(i), cidr, stored)...)
		if seen.Has(cidr) {
			errs = append(errs, field.Duplicate(path.Index(i), cidr))
		}
		seen.Insert(cidr)
	}
	if len(cidrs) > 1 {
		if dual, err := netutils.IsDualStackCIDRStrings(cidrs); err == nil && (!dual || len(cidrs) > 2) {
			errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

// validateConfigSource checks a reference to a kubelet's configuration in a config map, a feature that is gone; objects
// that use it are not. In a status the reference must be to one version of the map, in a spec it must not.
func validateConfigSource(source *corev1.NodeConfigSource, inStatus bool, path *field.Path) field.ErrorList {
	m := source.ConfigMap
	if m == nil {
		return field.ErrorList{field.Invalid(path, source, "exactly one reference subfield must be non-nil")}
	}
	var errs field.ErrorList
	at := path.Child("configMap")
	for _, f := range []struct{ name, value string }{{"uid", string(m.UID)}, {"resourceVersion", m.ResourceVersion}} {
		switch {
		case inStatus && f.value == "":
			errs = append(errs, field.Required(at.Child(f.name), f.name+" must be set in status"))
		case !inStatus && f.value != "":
			errs = append(errs, field.Forbidden(at.Child(f.name), f.name+" must not be set in spec"))
		}
	}
	for _, f := range []struct {
		name, value string
		check       func(string) []string
	}{
		{"namespace", m.Namespace, func(s string) []string { return apivalidation.ValidateNamespaceName(s, false) }},
		{"name", m.Name, func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, false) }},
		{"kubeletConfigKey", m.KubeletConfigKey, validation.IsConfigMapKey},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(at.Child(f.name), f.name+" must be set"))
		} else {
			errs = append(errs, validate.Each(f.value, at.Child(f.name), f.check)...)
		}
	}
	return errs
}

func nodeWarnings(obj, old kinds.Object) []string {
	spec := &obj.(*corev1.Node).Spec
	var warnings []string
	//lint:ignore SA1019 this is who tells people that it is
	if spec.ConfigSource != nil {
		// KEP-281 was never finished and the feature has been removed.
		warnings = append(warnings, "spec.configSource: the feature is removed")
	}
	if spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused")
	}
	if old == nil || !slices.Equal(spec.PodCIDRs, old.(*corev1.Node).Spec.PodCIDRs) {
		for i, cidr := range spec.PodCIDRs {
			warnings = append(warnings, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), cidr)...)
		}
	}
	return warnings
}
