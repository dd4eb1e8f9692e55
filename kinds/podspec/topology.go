package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// checkTopologySpread checks the constraints on how pods are spread over nodes; there is at most one for each topology
// key and action.
func (c *checker) checkTopologySpread(path *field.Path) {
	constraints := c.spec.TopologySpreadConstraints
	for i := range constraints {
		s, at := &constraints[i], path.Index(i)
		if s.MaxSkew <= 0 {
			c.add(field.Invalid(at.Child("maxSkew"), s.MaxSkew, textNotPositive))
		}
		if s.TopologyKey == "" {
			c.add(field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		c.add(notSupportedIn(at.Child("whenUnsatisfiable"), s.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		for _, other := range constraints[i+1:] {
			if s.TopologyKey == other.TopologyKey && s.WhenUnsatisfiable == other.WhenUnsatisfiable {
				c.add(field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", s.TopologyKey, s.WhenUnsatisfiable)))
				break
			}
		}
		if s.MinDomains != nil {
			if *s.MinDomains <= 0 {
				c.add(field.Invalid(at.Child("minDomains"), *s.MinDomains, textNotPositive))
			}
			if s.WhenUnsatisfiable != corev1.DoNotSchedule {
				c.add(field.Invalid(at.Child("minDomains"), *s.MinDomains,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, s.WhenUnsatisfiable)))
			}
		}
		c.checkInclusion(s.NodeAffinityPolicy, at.Child("nodeAffinityPolicy"))
		c.checkInclusion(s.NodeTaintsPolicy, at.Child("nodeTaintsPolicy"))
		c.checkSpreadKeys(s, at.Child("matchLabelKeys"))
	}
	if !c.tolerate.spreadSelectors {
		c.checkSpreadSelectors(path)
	}
}

func (c *checker) checkInclusion(policy *corev1.NodeInclusionPolicy, path *field.Path) {
	if policy != nil {
		c.add(notSupportedIn(path, *policy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
	}
}

// checkSpreadSelectors has the one rule on spreading that came late.
func (c *checker) checkSpreadSelectors(path *field.Path) {
	for i, s := range c.spec.TopologySpreadConstraints {
		c.add(validate.LabelSelector(s.LabelSelector, path.Index(i).Child("labelSelector"))...)
	}
}

// checkSpreadKeys rejects keys that the selector has too. In pods, where the keys have been merged into the selector,
// only a second requirement tells.
func (c *checker) checkSpreadKeys(s *corev1.TopologySpreadConstraint, path *field.Path) {
	if len(s.MatchLabelKeys) == 0 {
		return
	}
	selected := sets.New[string]()
	if s.LabelSelector == nil {
		c.add(field.Forbidden(path, "must not be specified when labelSelector is not set"))
	} else {
		for key := range s.LabelSelector.MatchLabels {
			selected.Insert(key)
		}
		merged := sets.New[string]()
		for _, r := range s.LabelSelector.MatchExpressions {
			if c.opts.Pod && !merged.Has(r.Key) {
				merged.Insert(r.Key)
				continue
			}
			selected.Insert(r.Key)
		}
	}
	for i, key := range s.MatchLabelKeys {
		c.add(metav1validation.ValidateLabelName(key, path.Index(i))...)
		if selected.Has(key) {
			c.add(field.Invalid(path.Index(i), key, "exists in both matchLabelKeys and labelSelector"))
		}
	}
}
