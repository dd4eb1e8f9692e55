package podspec

import (
	"fmt"
	"math"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// updatable names what an update of a pod may change, as the error says it.
const updatable = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// ValidateUpdate checks what changed between old and spec, those of a pod: nearly everything is fixed once the pod
// exists. A gated pod, which the scheduler has not looked at yet, may still narrow where it can go.
func ValidateUpdate(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	u := &update{checker: &checker{spec: spec}, old: old}
	if !u.checkImages(spec.Containers, old.Containers, path.Child("containers")) ||
		!u.checkImages(spec.InitContainers, old.InitContainers, path.Child("initContainers")) ||
		!u.checkDeadline(path.Child("activeDeadlineSeconds")) {
		return u.errs
	}
	u.checkTolerations(path.Child("tolerations"))
	u.checkSchedulingGates(path.Child("schedulingGates"))
	if equality.Semantic.DeepEqual(spec, old) {
		return u.errs
	}
	// What may change is put back; any difference that stays is one too many.
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.SchedulingGates = old.SchedulingGates
	rest.Tolerations = old.Tolerations
	if negative(old.TerminationGracePeriodSeconds) && rest.TerminationGracePeriodSeconds != nil && *rest.TerminationGracePeriodSeconds == 1 {
		rest.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
	if len(old.SchedulingGates) > 0 {
		u.checkNarrowing(rest, path)
	}
	if !equality.Semantic.DeepEqual(rest, old) {
		u.add(field.Forbidden(path, fmt.Sprintf("pod updates may not change fields other than %s\n%v", updatable, cmp.Diff(*old, *rest))))
	}
	return u.errs
}

type update struct {
	*checker
	old *corev1.PodSpec
}

func negative(n *int64) bool { return n != nil && *n < 0 }

// checkImages says false when containers were added or removed; nothing else can be compared then.
func (u *update) checkImages(containers, old []corev1.Container, path *field.Path) bool {
	if len(containers) != len(old) {
		u.add(field.Forbidden(path, "pod updates may not add or remove containers"))
		return false
	}
	for i, c := range containers {
		if c.Image == "" {
			u.add(field.Required(path.Index(i).Child("image"), ""))
		}
		if strings.TrimSpace(c.Image) != c.Image {
			u.add(field.Invalid(path.Index(i).Child("image"), c.Image, "must not have leading or trailing whitespace"))
		}
	}
	return true
}

// checkDeadline lets the deadline be set once and then only come nearer. It says false when that makes all else moot.
func (u *update) checkDeadline(path *field.Path) bool {
	now, before := u.spec.ActiveDeadlineSeconds, u.old.ActiveDeadlineSeconds
	switch {
	case now == nil && before != nil:
		u.add(field.Invalid(path, now, "must not update from a positive integer to nil value"))
	case now == nil:
	case *now < 0 || *now > math.MaxInt32:
		u.add(field.Invalid(path, *now, validation.InclusiveRangeError(0, math.MaxInt32)))
		return false
	case before != nil && *before < *now:
		u.add(field.Invalid(path, *now, "must be less than or equal to previous value"))
		return false
	}
	return true
}

// checkTolerations wants every old toleration to be there still, but for its seconds.
func (u *update) checkTolerations(path *field.Path) {
	kept := make(map[corev1.Toleration]bool, len(u.spec.Tolerations))
	for _, now := range u.spec.Tolerations {
		now.TolerationSeconds = nil
		kept[now] = true
	}
	for _, before := range u.old.Tolerations {
		before.TolerationSeconds = nil
		if !kept[before] {
			u.add(field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds"))
			return
		}
	}
}

func (u *update) checkSchedulingGates(path *field.Path) {
	known := make(map[string]bool, len(u.old.SchedulingGates))
	for _, before := range u.old.SchedulingGates {
		known[before.Name] = true
	}
	for i, gate := range u.spec.SchedulingGates {
		if !known[gate.Name] {
			u.add(field.Forbidden(path.Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name)))
		}
	}
}

// checkNarrowing lets a gated pod add to its node selector and to the terms of its required node affinity (KEP-3838),
// and puts both back in rest.
func (u *update) checkNarrowing(rest *corev1.PodSpec, path *field.Path) {
	for key, value := range u.old.NodeSelector {
		if now, ok := rest.NodeSelector[key]; !ok || now != value {
			u.add(field.Invalid(path.Child("nodeSelector"), rest.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	rest.NodeSelector = u.old.NodeSelector

	before, now := nodeAffinity(u.old), nodeAffinity(rest)
	if equality.Semantic.DeepEqual(before, now) {
		return
	}
	u.checkNarrowedAffinity(now, before, path.Child("affinity", "nodeAffinity", requiredTerms, "nodeSelectorTerms"))
	if rest.Affinity == nil {
		rest.Affinity = &corev1.Affinity{}
	}
	rest.Affinity.NodeAffinity = before
	if *rest.Affinity == (corev1.Affinity{}) && u.old.Affinity == nil {
		rest.Affinity = nil
	}
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity
}

func nodeTerms(a *corev1.NodeAffinity) []corev1.NodeSelectorTerm {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// checkNarrowedAffinity compares term by term: terms are alternatives, so one more would widen the choice, while one
// more requirement in a term narrows it.
func (u *update) checkNarrowedAffinity(now, before *corev1.NodeAffinity, path *field.Path) {
	oldTerms, terms := nodeTerms(before), nodeTerms(now)
	if len(oldTerms) == 0 {
		return
	}
	if len(oldTerms) != len(terms) {
		u.add(field.Invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
		return
	}
	for i := range oldTerms {
		if !narrows(&terms[i], &oldTerms[i]) {
			u.add(field.Invalid(path.Index(i), terms[i], "only additions are allowed (no mutations or deletions)"))
		}
	}
}

// narrows says whether term has all of old's requirements in their places. An empty term matches nothing and must stay
// empty.
func narrows(term, old *corev1.NodeSelectorTerm) bool {
	if len(old.MatchExpressions) == 0 && len(old.MatchFields) == 0 {
		return len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
	}
	return hasPrefix(term.MatchExpressions, old.MatchExpressions) && hasPrefix(term.MatchFields, old.MatchFields)
}

func hasPrefix(list, prefix []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(prefix) && (len(prefix) == 0 || equality.Semantic.DeepEqual(list[:len(prefix)], prefix))
}
