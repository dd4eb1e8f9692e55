package admissionregistration

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"vigil/kinds/validate"
)

// hook is what validating and mutating webhooks have in common: pointers to the fields of one.
type hook struct {
	name              *string
	client            *admissionregistrationv1.WebhookClientConfig
	rules             []admissionregistrationv1.RuleWithOperations
	failurePolicy     **admissionregistrationv1.FailurePolicyType
	matchPolicy       **admissionregistrationv1.MatchPolicyType
	namespaceSelector **metav1.LabelSelector
	objectSelector    **metav1.LabelSelector
	sideEffects       *admissionregistrationv1.SideEffectClass
	timeoutSeconds    **int32
	reviewVersions    []string
	matchConditions   []admissionregistrationv1.MatchCondition
	reinvocation      **admissionregistrationv1.ReinvocationPolicyType // nil on validating ones
}

func (h *hook) setDefaults() {
	if *h.failurePolicy == nil {
		*h.failurePolicy = new(admissionregistrationv1.Fail)
	}
	if *h.matchPolicy == nil {
		*h.matchPolicy = new(admissionregistrationv1.Equivalent)
	}
	for _, selector := range []**metav1.LabelSelector{h.namespaceSelector, h.objectSelector} {
		if *selector == nil {
			*selector = &metav1.LabelSelector{}
		}
	}
	if *h.timeoutSeconds == nil {
		*h.timeoutSeconds = new(int32(10))
	}
	if h.reinvocation != nil && *h.reinvocation == nil {
		*h.reinvocation = new(admissionregistrationv1.NeverReinvocationPolicy)
	}
	for i := range h.rules {
		defaultRule(&h.rules[i].Rule)
	}
	if s := h.client.Service; s != nil && s.Port == nil {
		s.Port = new(int32(443))
	}
}

// lenience are the rules that came after the kind: what breaks one already may go on to do so.
type lenience struct {
	sideEffects, reviewVersions, repeatedNames, selectors bool
	matchConditions                                       bool // nothing about them has changed
	compiler                                              *compiler
}

var (
	noSideEffects  = []string{"None", "NoneOnDryRun"}
	anySideEffects = []string{"None", "NoneOnDryRun", "Some", "Unknown"}
	reviewVersions = []string{"v1", "v1beta1"}
)

// lenienceFor finds out what the stored hooks, none of a new object, break.
func lenienceFor(hooks, old []hook) lenience {
	l := lenience{compiler: &compiler{
		Compiler: plain(), names: plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, stored: sets.New[string](),
	}}
	names := sets.New[string]()
	for _, h := range old {
		if h.sideEffects == nil || !slices.Contains(noSideEffects, string(*h.sideEffects)) {
			l.sideEffects = true
		}
		if len(h.reviewVersions) > 0 && !slices.ContainsFunc(h.reviewVersions, isReviewVersion) {
			l.reviewVersions = true
		}
		if names.Has(*h.name) {
			l.repeatedNames = true
		}
		names.Insert(*h.name)
		for _, c := range h.matchConditions {
			l.compiler.stored.Insert(c.Expression)
		}
		for _, selector := range []*metav1.LabelSelector{*h.namespaceSelector, *h.objectSelector} {
			if selector != nil && len(metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, nil)) > 0 {
				l.selectors = true
			}
		}
	}
	l.matchConditions = slices.EqualFunc(hooks, old, func(a, b hook) bool {
		return equality.Semantic.DeepEqual(a.matchConditions, b.matchConditions)
	})
	return l
}

func isReviewVersion(v string) bool { return slices.Contains(reviewVersions, v) }

func validateHooks(hooks []hook, l lenience) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range hooks {
		path, h := field.NewPath("webhooks").Index(i), &hooks[i]
		errs = append(errs, h.validate(l, path)...)
		if !l.repeatedNames && *h.name != "" && names.Has(*h.name) {
			errs = append(errs, field.Duplicate(path.Child("name"), *h.name))
		}
		names.Insert(*h.name)
	}
	return errs
}

func (h *hook) validate(l lenience, path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), *h.name)
	for i := range h.rules {
		errs = append(errs, validateRule(&h.rules[i], path.Child("rules").Index(i))...)
	}
	if p := *h.failurePolicy; p != nil {
		errs = append(errs, oneOf(*p, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	}
	if p := *h.matchPolicy; p != nil {
		errs = append(errs, oneOf(*p, path.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	errs = append(errs, h.validateSideEffects(l, path.Child("sideEffects"))...)
	if t := *h.timeoutSeconds; t != nil && (*t > 30 || *t < 1) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	options := metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: l.selectors}
	if *h.namespaceSelector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(*h.namespaceSelector, options, path.Child("namespaceSelector"))...)
	}
	if *h.objectSelector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(*h.objectSelector, options, path.Child("objectSelector"))...)
	}
	if r := h.reinvocation; r != nil && *r != nil {
		errs = append(errs, oneOf(**r, path.Child("reinvocationPolicy"), admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
	}
	errs = append(errs, validateClient(h.client, path.Child("clientConfig"))...)
	if !l.matchConditions {
		errs = append(errs, validateMatchConditions(h.matchConditions, l.compiler, path.Child("matchConditions"))...)
	}
	return append(errs, validateReviewVersions(h.reviewVersions, l, path.Child("admissionReviewVersions"))...)
}

func (h *hook) validateSideEffects(l lenience, path *field.Path) field.ErrorList {
	allowed := noSideEffects
	if l.sideEffects {
		allowed = anySideEffects
	}
	switch {
	case h.sideEffects == nil:
		return field.ErrorList{field.Required(path, "must specify one of "+strings.Join(allowed, ", "))}
	case !slices.Contains(allowed, string(*h.sideEffects)):
		return field.ErrorList{field.NotSupported(path, *h.sideEffects, allowed)}
	}
	return nil
}

func validateReviewVersions(versions []string, l lenience, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+strings.Join(reviewVersions, ", "))}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range versions {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, validate.Each(v, path.Index(i), validation.IsDNS1035Label)...)
	}
	if !l.reviewVersions && !slices.ContainsFunc(versions, isReviewVersion) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+strings.Join(reviewVersions, ", ")))
	}
	return errs
}

func validateClient(c *admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case c.URL != nil:
		return validate.WebhookURL(*c.URL, path.Child("url"))
	}
	port := int32(0)
	if c.Service.Port != nil {
		port = *c.Service.Port
	}
	return validate.WebhookService(c.Service.Namespace, c.Service.Name, c.Service.Path, port, path.Child("service"))
}

const maxMatchConditions = 64

func validateMatchConditions(conditions []admissionregistrationv1.MatchCondition, compiler *compiler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxMatchConditions))
	}
	names := sets.New[string]()
	for i, c := range conditions {
		path := path.Index(i)
		errs = append(errs, compiler.require(strings.TrimSpace(c.Expression), condition, path.Child("expression"), "")...)
		if c.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
			continue
		}
		errs = append(errs, validate.QualifiedName(c.Name, path.Child("name"))...)
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		}
		names.Insert(c.Name)
	}
	return errs
}
