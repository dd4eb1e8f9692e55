package admissionregistration

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"vigil/kinds/column"
	"vigil/kinds/validate"
)

// policy is what validating and mutating policies have in common.
type policy struct {
	paramKind        *admissionregistrationv1.ParamKind
	matchConstraints *admissionregistrationv1.MatchResources
	failurePolicy    *admissionregistrationv1.FailurePolicyType
	matchConditions  []admissionregistrationv1.MatchCondition
	variables        []admissionregistrationv1.Variable
	expressions      []string // of everything else
}

// compiler returns what checks the policy's expressions; those of old, which may be nil, were good when they came.
func (p *policy) compiler(old *policy) (*compiler, error) {
	c := &compiler{Compiler: plain(), names: plugincel.OptionalVariableDeclarations{HasParams: p.paramKind != nil, HasAuthorizer: true}, stored: sets.New[string]()}
	if len(p.variables) > 0 {
		composing, err := plugincel.NewCompositedCompiler(environments())
		if err != nil {
			return nil, fmt.Errorf("make compiler of expressions: %w", err)
		}
		c.Compiler = composing
	}
	if old != nil {
		c.stored.Insert(old.expressions...)
		for _, m := range old.matchConditions {
			c.stored.Insert(m.Expression)
		}
		for _, v := range old.variables {
			c.stored.Insert(v.Expression)
		}
	}
	return c, nil
}

func defaultFailurePolicy(p **admissionregistrationv1.FailurePolicyType) {
	if *p == nil {
		*p = new(admissionregistrationv1.Fail)
	}
}

func defaultMatchResources(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		m.MatchPolicy = new(admissionregistrationv1.Equivalent)
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range m.ResourceRules {
		defaultRule(&m.ResourceRules[i].Rule)
	}
	for i := range m.ExcludeResourceRules {
		defaultRule(&m.ExcludeResourceRules[i].Rule)
	}
}

// validate checks the common part. Match conditions that are the same in old, which may be nil, were good when they came.
func (p *policy) validate(old *policy, c *compiler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.failurePolicy == nil {
		errs = append(errs, field.Required(path.Child("failurePolicy"), ""))
	} else {
		errs = append(errs, oneOf(*p.failurePolicy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	}
	if p.paramKind != nil {
		errs = append(errs, validateParamKind(p.paramKind, path.Child("paramKind"))...)
	}
	if p.matchConstraints == nil {
		errs = append(errs, field.Required(path.Child("matchConstraints"), ""))
	} else {
		errs = append(errs, validateMatchResources(p.matchConstraints, path.Child("matchConstraints"))...)
		if len(p.matchConstraints.ResourceRules) == 0 {
			errs = append(errs, field.Required(path.Child("matchConstraints", "resourceRules"), ""))
		}
	}
	same := old != nil && equality.Semantic.DeepEqual(p.paramKind, old.paramKind) && equality.Semantic.DeepEqual(p.matchConditions, old.matchConditions)
	if !same {
		conditions := &compiler{Compiler: plain(), names: c.names, stored: c.stored}
		errs = append(errs, validateMatchConditions(p.matchConditions, conditions, path.Child("matchConditions"))...)
	}
	for i, v := range p.variables {
		errs = append(errs, validateVariable(&v, c, path.Child("variables").Index(i))...)
	}
	return errs
}

func validateVariable(v *admissionregistrationv1.Variable, c *compiler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case strings.TrimSpace(v.Name) == "":
		errs = append(errs, field.Required(path.Child("name"), "name is not specified"))
	case !isIdentifier(v.Name):
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, "name is not a valid CEL identifier"))
	}
	return append(errs, c.variable(v.Name, v.Expression, path.Child("expression"))...)
}

func validateParamKind(k *admissionregistrationv1.ParamKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("apiVersion")
	if k.APIVersion == "" {
		errs = append(errs, field.Required(at, ""))
	} else if gv, err := schema.ParseGroupVersion(k.APIVersion); err != nil {
		errs = append(errs, field.Invalid(at, k.APIVersion, err.Error()))
	} else {
		if gv.Group != "" {
			if why := validation.IsDNS1123Subdomain(gv.Group); len(why) > 0 {
				errs = append(errs, field.Invalid(at, gv.Group, strings.Join(why, ",")))
			}
		}
		if gv.Version == "" {
			errs = append(errs, field.Invalid(at, k.APIVersion, "version must be specified"))
		} else if why := validation.IsDNS1035Label(gv.Version); len(why) > 0 {
			errs = append(errs, field.Invalid(at, gv.Version, strings.Join(why, ",")))
		}
	}
	if k.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	} else if why := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(why) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(why, ",")))
	}
	return errs
}

func validateMatchResources(m *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(path.Child("matchPolicy"), ""))
	} else {
		errs = append(errs, oneOf(*m.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	errs = append(errs, requireSelector(m.NamespaceSelector, path.Child("namespaceSelector"))...)
	errs = append(errs, requireSelector(m.ObjectSelector, path.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func requireSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return validate.LabelSelector(selector, path)
}

// validateBinding checks what the bindings of both sorts of policies have in common. The path of matchResources is
// upstream's.
func validateBinding(policyName string, ref *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policyName == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		errs = append(errs, validate.Name(policyName, path.Child("policyName"))...)
	}
	errs = append(errs, validateParamRef(ref, path.Child("paramRef"))...)
	return append(errs, validateMatchResources(match, path.Child("matchResouces"))...)
}

func validateParamRef(ref *admissionregistrationv1.ParamRef, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	const both = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if ref.Name != "" {
		errs = append(errs, validate.Each(ref.Name, path.Child("name"), content.IsPathSegmentName)...)
		if ref.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), both))
		}
	}
	errs = append(errs, validate.LabelSelector(ref.Selector, path.Child("selector"))...)
	switch {
	case ref.Selector != nil && ref.Name != "":
		errs = append(errs, field.Forbidden(path.Child("selector"), both))
	case ref.Selector == nil && ref.Name == "":
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	action := ref.ParameterNotFoundAction
	if action == nil || *action == "" {
		return append(errs, field.Required(path.Child("parameterNotFoundAction"), ""))
	}
	return append(errs, oneOf(*action, path.Child("parameterNotFoundAction"), admissionregistrationv1.DenyAction, admissionregistrationv1.AllowAction)...)
}

// paramKindCell and paramRefCell are table cells.
func paramKindCell(k *admissionregistrationv1.ParamKind) string {
	if k == nil {
		return column.Unset
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRefCell(ref *admissionregistrationv1.ParamRef) string {
	switch {
	case ref == nil:
		return column.Unset
	case ref.Name == "":
		return metav1.FormatLabelSelector(ref.Selector)
	case ref.Namespace == "":
		return "*/" + ref.Name
	}
	return fmt.Sprintf("%s/%s", ref.Namespace, ref.Name)
}
