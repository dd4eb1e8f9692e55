package podspec

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"

	textWeight           = "must be in the range 1-100"
	textSelectorOperator = "not a valid selector operator"
)

func (c *checker) checkAffinity(path *field.Path) {
	a := c.spec.Affinity
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		at := path.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			c.add(ValidateNodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, c.tolerate.affinityValues, at.Child(requiredTerms))...)
		}
		for i, term := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child(preferredTerms).Index(i)
			if term.Weight < 1 || term.Weight > 100 {
				c.add(field.Invalid(at.Child("weight"), term.Weight, textWeight))
			}
			// Bad values do no harm here: the term matches no node, and that is only a preference.
			c.add(validateNodeSelectorTerm(&term.Preference, true, at.Child("preference"))...)
		}
	}
	if p := a.PodAffinity; p != nil {
		c.checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		c.checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

// ValidateNodeSelector checks a selector of nodes. With anyValue label values may have any form.
func ValidateNodeSelector(selector *corev1.NodeSelector, anyValue bool, path *field.Path) field.ErrorList {
	at := path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range selector.NodeSelectorTerms {
		errs = append(errs, validateNodeSelectorTerm(&selector.NodeSelectorTerms[i], anyValue, at.Index(i))...)
	}
	return errs
}

func validateNodeSelectorTerm(term *corev1.NodeSelectorTerm, anyValue bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range term.MatchExpressions {
		errs = append(errs, validateNodeRequirement(&term.MatchExpressions[i], anyValue, path.Child("matchExpressions").Index(i))...)
	}
	for i := range term.MatchFields {
		errs = append(errs, validateNodeFieldRequirement(&term.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

func validateNodeRequirement(r *corev1.NodeSelectorRequirement, anyValue bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, textSelectorOperator))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	if !anyValue {
		for i, value := range r.Values {
			errs = append(errs, validate.Each(value, values.Index(i), validation.IsValidLabelValue)...)
		}
	}
	return errs
}

// validateNodeFieldRequirement checks a requirement on a field of a node; its name is the only one there is.
func validateNodeFieldRequirement(r *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, textSelectorOperator))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range r.Values {
		errs = append(errs, validate.Name(value, path.Child("values").Index(i))...)
	}
	return errs
}

func (c *checker) checkPodTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) {
	for i := range required {
		c.checkPodTerm(&required[i], path.Child(requiredTerms).Index(i))
	}
	for i := range preferred {
		at := path.Child(preferredTerms).Index(i)
		if w := preferred[i].Weight; w < 1 || w > 100 {
			c.add(field.Invalid(at.Child("weight"), w, textWeight))
		}
		c.checkPodTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))
	}
}

func (c *checker) checkPodTerm(t *corev1.PodAffinityTerm, path *field.Path) {
	opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: c.tolerate.selectorValues}
	c.add(metav1validation.ValidateLabelSelector(t.LabelSelector, opts, path.Child("labelSelector"))...)
	c.add(metav1validation.ValidateLabelSelector(t.NamespaceSelector, opts, path.Child("namespaceSelector"))...)
	for _, name := range t.Namespaces {
		c.add(validate.Each(name, path.Child("namespace"), func(name string) []string { return apivalidation.ValidateNamespaceName(name, false) })...)
	}
	c.checkLabelKeys(t.MatchLabelKeys, t.LabelSelector, path.Child("matchLabelKeys"))
	c.checkLabelKeys(t.MismatchLabelKeys, t.LabelSelector, path.Child("mismatchLabelKeys"))
	c.checkMergedKeys(t.MatchLabelKeys, t.LabelSelector, path)
	mismatch := sets.New(t.MismatchLabelKeys...)
	for i, key := range t.MatchLabelKeys {
		if mismatch.Has(key) {
			c.add(field.Invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	if t.TopologyKey == "" {
		c.add(field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	c.add(metav1validation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

func (c *checker) checkLabelKeys(keys []string, selector *metav1.LabelSelector, path *field.Path) {
	if len(keys) > 0 && selector == nil {
		c.add(field.Forbidden(path, "must not be specified when labelSelector is not set"))
		return
	}
	for i, key := range keys {
		c.add(metav1validation.ValidateLabelName(key, path.Index(i))...)
	}
}

// checkMergedKeys rejects keys that the client's selector had already. The requirements that MergeMatchLabelKeys added
// are in the selector by now, behind the client's, so a key is bad when it is there twice.
func (c *checker) checkMergedKeys(keys []string, selector *metav1.LabelSelector, path *field.Path) {
	if selector == nil {
		return
	}
	index := map[string]int{}
	for i, key := range keys {
		index[key] = i
	}
	seen := sets.New[string]()
	for key := range selector.MatchLabels {
		seen.Insert(key)
	}
	for _, r := range selector.MatchExpressions {
		if i, ok := index[r.Key]; ok && seen.Has(r.Key) {
			c.add(field.Invalid(path.Index(i), r.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		seen.Insert(r.Key)
	}
}

// checkPodAffinitySelectors and checkRequiredNodeAffinityValues have the rules on affinity that came late.
func (c *checker) checkPodAffinitySelectors() {
	a := c.spec.Affinity
	if a == nil {
		return
	}
	check := func(t *corev1.PodAffinityTerm) {
		c.add(validate.LabelSelector(t.LabelSelector, nil)...)
		c.add(validate.LabelSelector(t.NamespaceSelector, nil)...)
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			check(&required[i])
		}
		for i := range preferred {
			check(&preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (c *checker) checkRequiredNodeAffinityValues() {
	if a := c.spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		c.add(ValidateNodeSelector(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, false, nil)...)
	}
}
