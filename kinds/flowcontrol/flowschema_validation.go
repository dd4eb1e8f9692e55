package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"vigil/kinds/validate"
)

func validateFlowSchema(f *flowcontrolv1.FlowSchema) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateFlowSchemaSpec(f.Name, &f.Spec, path)
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		if fixed.Name == f.Name && !equality.Semantic.DeepEqual(f.Spec, fixed.Spec) {
			errs = append(errs, field.Invalid(path, f.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", f.Name)))
		}
	}
	return append(errs, validateFlowSchemaStatus(&f.Status, field.NewPath("status"))...)
}

func validateFlowSchemaSpec(name string, spec *flowcontrolv1.FlowSchemaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	precedence := path.Child("matchingPrecedence")
	switch p := spec.MatchingPrecedence; {
	case p <= 0:
		errs = append(errs, field.Invalid(precedence, p, "must be a positive value"))
	case p > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		errs = append(errs, field.Invalid(precedence, p, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	case p == 1 && name != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, p, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	methods := []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
	if m := spec.DistinguisherMethod; m != nil && !slices.Contains(methods, m.Type) {
		errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), m.Type, methods))
	}
	level := path.Child("priorityLevelConfiguration", "name")
	if n := spec.PriorityLevelConfiguration.Name; n == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		errs = append(errs, validate.Name(n, level)...)
	}
	for i := range spec.Rules {
		errs = append(errs, validateRule(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func validateRule(r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, validateSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, validateResourceRule(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, validateNonResourceRule(&r.NonResourceRules[i], path.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

// validateSubject wants just the member that the kind says.
func validateSubject(s *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	members := []struct {
		kind   flowcontrolv1.SubjectKind
		member string
		given  bool
		check  func(path *field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil, func(path *field.Path) field.ErrorList {
			return validateAccount(s.ServiceAccount, path)
		}},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil, func(path *field.Path) field.ErrorList {
			return requireName(s.User.Name, path)
		}},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil, func(path *field.Path) field.ErrorList {
			return requireName(s.Group.Name, path)
		}},
	}
	var errs, others field.ErrorList
	known := false
	for _, m := range members {
		at := path.Child(m.member)
		switch {
		case m.kind == s.Kind && !m.given:
			known = true
			errs = append(errs, field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", m.member, m.kind)))
		case m.kind == s.Kind:
			known = true
			errs = append(errs, m.check(at)...)
		case m.given:
			others = append(others, field.Forbidden(at, fmt.Sprintf("%s is forbidden when subject kind is not '%s'", m.member, m.kind)))
		}
	}
	if !known {
		return field.ErrorList{field.NotSupported(path.Child("kind"), s.Kind, []flowcontrolv1.SubjectKind{
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser,
		})}
	}
	return append(errs, others...)
}

func requireName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "")}
	}
	return nil
}

func validateAccount(s *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := requireName(s.Name, path)
	if s.Name != "" && s.Name != flowcontrolv1.NameAll {
		errs = append(errs, validate.Name(s.Name, path.Child("name"))...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, validate.Each(s.Namespace, path.Child("namespace"), namespaceName)...)
}

func namespaceName(name string) []string { return apivalidation.ValidateNamespaceName(name, false) }

// verbs are those that requests can have, sorted.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func validateVerbs(list []string, path *field.Path) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(path, "verbs must contain at least one value")}
	case slices.Contains(list, "*"):
		return notBesideAll(list, path, "verbs")
	case !sets.New(verbs...).HasAll(list...):
		return field.ErrorList{field.NotSupported(path, list, verbs)}
	}
	return nil
}

func notBesideAll(list []string, path *field.Path, what string) field.ErrorList {
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(path, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateResourceRule(r *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	errs = append(errs, notBesideAll(r.APIGroups, path.Child("apiGroups"), "api groups")...)
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	errs = append(errs, notBesideAll(r.Resources, path.Child("resources"), "resources")...)
	at := path.Child("namespaces")
	switch {
	case len(r.Namespaces) == 0 && !r.ClusterScope:
		errs = append(errs, field.Required(at, "resource rules that are not cluster scoped must supply at least one namespace"))
	case slices.Contains(r.Namespaces, "*"):
		errs = append(errs, notBesideAll(r.Namespaces, at, "namespaces")...)
	default:
		for i, namespace := range r.Namespaces {
			for _, why := range namespaceName(namespace) {
				errs = append(errs, field.Invalid(at.Index(i), namespace, "each member of this list must be '*' or a DNS-1123 label; "+why))
			}
		}
	}
	return errs
}

func validateNonResourceRule(r *flowcontrolv1.NonResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := validateVerbs(r.Verbs, path.Child("verbs"))
	at := path.Child("nonResourceURLs")
	switch {
	case len(r.NonResourceURLs) == 0:
		errs = append(errs, field.Required(at, "nonResourceURLs must contain at least one value"))
	case slices.Contains(r.NonResourceURLs, "*"):
		errs = append(errs, notBesideAll(r.NonResourceURLs, at, "non-resource URLs")...)
	default:
		for i, url := range r.NonResourceURLs {
			if why := wrongURL(url); why != "" {
				errs = append(errs, field.Invalid(at.Index(i), url, why))
			}
		}
	}
	return errs
}

// wrongURL says what is wrong with a path, "" when nothing is. A star may stand at the end, for all that is below.
func wrongURL(path string) string {
	stars := strings.Count(path, "*")
	switch {
	case path == "/":
	case path == "":
		return "must not be empty"
	case path[0] != '/':
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

func validateFlowSchemaStatus(status *flowcontrolv1.FlowSchemaStatus, path *field.Path) field.ErrorList {
	var types []string
	for _, c := range status.Conditions {
		types = append(types, string(c.Type))
	}
	return validateConditionTypes(types, path.Child("conditions"))
}

func validateConditionTypes(types []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, t := range types {
		at := path.Index(i).Child("type")
		if seen.Has(t) {
			errs = append(errs, field.Duplicate(at, t))
		}
		seen.Insert(t)
		if t == "" {
			errs = append(errs, field.Required(at, "must not be empty"))
		}
	}
	return errs
}
