package admissionregistration

import (
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/client-go/util/jsonpath"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// ValidatingAdmissionPolicy is the row of validatingadmissionpolicies.
func ValidatingAdmissionPolicy() *kinds.Kind {
	return &kinds.Kind{
		GVK:        admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
		Resource:   "validatingadmissionpolicies",
		Singular:   "validatingadmissionpolicy",
		Categories: []string{"api-extensions"},
		Path:       "validatingadmissionpolicies",
		Type: &object.Type{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy",
			New: func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
		},
		New:     func() kinds.Object { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
		NewList: func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyList{} },

		Default: func(obj kinds.Object) {
			p := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy)
			defaultFailurePolicy(&p.Spec.FailurePolicy)
			defaultMatchResources(p.Spec.MatchConstraints)
		},
		PrepareCreate: func(obj kinds.Object) {
			obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Status = admissionregistrationv1.ValidatingAdmissionPolicyStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Status = old.(*admissionregistrationv1.ValidatingAdmissionPolicy).Status
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateValidatingPolicy(obj.(*admissionregistrationv1.ValidatingAdmissionPolicy), nil)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateValidatingPolicy(obj.(*admissionregistrationv1.ValidatingAdmissionPolicy), old.(*admissionregistrationv1.ValidatingAdmissionPolicy))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Validations", "Validations indicates the number of validation rules defined in this configuration"),
			column.Text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			p := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy)
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKindCell(p.Spec.ParamKind), column.Since(p.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec = old.(*admissionregistrationv1.ValidatingAdmissionPolicy).DeepCopy().Spec
				metav1.ResetObjectMetaForStatus(obj, old)
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				return validateValidatingPolicyStatus(&obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Status, field.NewPath("status"))
			},
		}},
	}
}

func commonOfValidating(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) *policy {
	p := &policy{spec.ParamKind, spec.MatchConstraints, spec.FailurePolicy, spec.MatchConditions, spec.Variables, nil}
	for _, v := range spec.Validations {
		p.expressions = append(p.expressions, v.Expression, v.MessageExpression)
	}
	for _, a := range spec.AuditAnnotations {
		p.expressions = append(p.expressions, strings.TrimSpace(a.ValueExpression))
	}
	return p
}

func validateValidatingPolicy(p, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), &p.Spec
	var before *policy
	if old != nil {
		before = commonOfValidating(&old.Spec)
	}
	common := commonOfValidating(spec)
	c, err := common.compiler(before)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	errs := common.validate(before, c, path)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const detail = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), detail), field.Required(path.Child("auditAnnotations"), detail))
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], c, path.Child("validations").Index(i))...)
	}
	return append(errs, validateAuditAnnotations(p.Name, spec.AuditAnnotations, c, path.Child("auditAnnotations"))...)
}

func validateValidation(v *admissionregistrationv1.Validation, c *compiler, path *field.Path) field.ErrorList {
	errs := c.require(v.Expression, condition, path.Child("expression"), "expression is not specified")
	if v.MessageExpression != "" {
		messages := c.with(func(names *plugincel.OptionalVariableDeclarations) { names.HasAuthorizer = false })
		if strings.TrimSpace(v.MessageExpression) == "" {
			errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
		} else {
			errs = append(errs, messages.check(v.MessageExpression, text, path.Child("messageExpression"))...)
		}
	}
	message := strings.TrimSpace(v.Message)
	switch {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "message must be non-empty if specified"))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "message must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, oneOf(*v.Reason, path.Child("reason"), metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
			metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnauthorized)...)
	}
	return errs
}

const (
	maxAuditAnnotations = 20
	// maxAuditExpression is less than a value may be long: what joins strings makes longer ones.
	maxAuditExpression = 5 * 1024
)

func validateAuditAnnotations(policyName string, annotations []admissionregistrationv1.AuditAnnotation, c *compiler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(annotations) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(path, annotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	keys := sets.New[string]()
	for i, a := range annotations {
		path := path.Index(i)
		if policyName == "" {
			errs = append(errs, field.Invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, validate.QualifiedName(policyName+"/"+a.Key, path.Child("key"))...)
		}
		expression := strings.TrimSpace(a.ValueExpression)
		if len(expression) > maxAuditExpression {
			errs = append(errs, field.Required(path.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", maxAuditExpression)))
		} else {
			errs = append(errs, c.require(expression, optionalText, path.Child("valueExpression"), "valueExpression is not specified")...)
		}
		if keys.Has(a.Key) {
			errs = append(errs, field.Duplicate(path.Child("key"), a.Key))
		}
		keys.Insert(a.Key)
	}
	return errs
}

func validateValidatingPolicyStatus(status *admissionregistrationv1.ValidatingAdmissionPolicyStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t := status.TypeChecking; t != nil {
		for i, w := range t.ExpressionWarnings {
			path := path.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(path.Child("warning"), ""))
			}
			ref := strings.TrimSpace(w.FieldRef)
			if ref == "" {
				errs = append(errs, field.Required(path.Child("fieldRef"), ""))
			} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
				errs = append(errs, field.Invalid(path.Child("fieldRef"), ref, fmt.Sprintf("invalid JSONPath: %v", err)))
			}
		}
	}
	return append(errs, metavalidation.ValidateConditions(status.Conditions, path.Child("conditions"))...)
}
