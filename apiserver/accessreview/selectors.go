package accessreview

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"vigil/apiserver/authz"
)

// selectors takes into attr what a question says about fields and labels. What cannot be read is left out, which makes the question a
// wider one, and told with upstream's texts.
func selectors(attr *authz.Attributes, resource *authorizationv1.ResourceAttributes) (problems []string) {
	tell := func(what string, some bool) {
		how := " ignored due to parse error"
		if some {
			how = " partially" + how
		}
		problems = append(problems, "spec.resourceAttributes."+what+how)
	}
	if s := resource.FieldSelector; s != nil {
		var ok bool
		if attr.Fields, ok = fieldSelector(s); !ok {
			tell("fieldSelector", attr.Fields != nil)
		}
	}
	if s := resource.LabelSelector; s != nil {
		var ok bool
		if attr.Labels, ok = labelSelector(s); !ok {
			tell("labelSelector", attr.Labels != nil)
		}
	}
	return problems
}

// fieldSelector returns nil if nothing is selected by fields; ok is false if something was left out.
func fieldSelector(s *authorizationv1.FieldSelectorAttributes) (out fields.Selector, ok bool) {
	if s.RawSelector != "" {
		parsed, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, false
		}
		return parsed, true
	}
	ok = true
	var terms []fields.Selector
	for _, r := range s.Requirements {
		switch {
		case r.Operator == metav1.FieldSelectorOpIn && len(r.Values) == 1:
			terms = append(terms, fields.OneTermEqualSelector(r.Key, r.Values[0]))
		case r.Operator == metav1.FieldSelectorOpNotIn && len(r.Values) == 1:
			terms = append(terms, fields.OneTermNotEqualSelector(r.Key, r.Values[0]))
		default: // several values cannot be said yet
			ok = false
		}
	}
	if len(terms) == 0 {
		return nil, ok
	}
	return fields.AndSelectors(terms...), ok
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
	metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// labelSelector is fieldSelector for labels.
func labelSelector(s *authorizationv1.LabelSelectorAttributes) (out labels.Selector, ok bool) {
	if s.RawSelector != "" {
		parsed, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, false
		}
		return parsed, true
	}
	ok = true
	var terms []labels.Requirement
	for _, r := range s.Requirements {
		requirement, err := labels.NewRequirement(r.Key, labelOperators[r.Operator], r.Values)
		if err != nil {
			ok = false
			continue
		}
		terms = append(terms, *requirement)
	}
	if len(terms) == 0 {
		return nil, ok
	}
	return labels.NewSelector().Add(terms...), ok
}
