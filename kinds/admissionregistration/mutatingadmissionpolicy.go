package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// MutatingAdmissionPolicy is the row of mutatingadmissionpolicies.
func MutatingAdmissionPolicy() *kinds.Kind {
	return &kinds.Kind{
		GVK:        admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"),
		Resource:   "mutatingadmissionpolicies",
		Singular:   "mutatingadmissionpolicy",
		Categories: []string{"api-extensions"},
		Path:       "mutatingadmissionpolicies",
		Type: &object.Type{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy",
			New: func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicy{} },
		},
		New:     func() kinds.Object { return &admissionregistrationv1.MutatingAdmissionPolicy{} },
		NewList: func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyList{} },

		Default: func(obj kinds.Object) {
			p := obj.(*admissionregistrationv1.MutatingAdmissionPolicy)
			defaultFailurePolicy(&p.Spec.FailurePolicy)
			defaultMatchResources(p.Spec.MatchConstraints)
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateMutatingPolicy(&obj.(*admissionregistrationv1.MutatingAdmissionPolicy).Spec, nil)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateMutatingPolicy(&obj.(*admissionregistrationv1.MutatingAdmissionPolicy).Spec, &old.(*admissionregistrationv1.MutatingAdmissionPolicy).Spec)
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Mutations", "Mutations indicates the number of mutations rules defined in this configuration"),
			column.Text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			p := obj.(*admissionregistrationv1.MutatingAdmissionPolicy)
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKindCell(p.Spec.ParamKind), column.Since(p.CreationTimestamp, now)}
		},
	}
}

func commonOfMutating(spec *admissionregistrationv1.MutatingAdmissionPolicySpec) *policy {
	p := &policy{spec.ParamKind, spec.MatchConstraints, spec.FailurePolicy, spec.MatchConditions, spec.Variables, nil}
	for _, m := range spec.Mutations {
		if m.JSONPatch != nil {
			p.expressions = append(p.expressions, m.JSONPatch.Expression)
		}
		if m.ApplyConfiguration != nil {
			p.expressions = append(p.expressions, m.ApplyConfiguration.Expression)
		}
	}
	return p
}

func validateMutatingPolicy(spec, old *admissionregistrationv1.MutatingAdmissionPolicySpec) field.ErrorList {
	path := field.NewPath("spec")
	var before *policy
	if old != nil {
		before = commonOfMutating(old)
	}
	common := commonOfMutating(spec)
	c, err := common.compiler(before)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	errs := common.validate(before, c, path)
	c = c.with(func(names *plugincel.OptionalVariableDeclarations) { names.HasPatchTypes = true })
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range spec.Mutations {
		errs = append(errs, validateMutation(&spec.Mutations[i], c, path.Child("mutations").Index(i))...)
	}
	if spec.ReinvocationPolicy == "" {
		return append(errs, field.Required(path.Child("reinvocationPolicy"), ""))
	}
	return append(errs, oneOf(spec.ReinvocationPolicy, path.Child("reinvocationPolicy"),
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
}

func validateMutation(m *admissionregistrationv1.Mutation, c *compiler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	jsonPatch, apply := path.Child("jsonPatch"), path.Child("applyConfiguration")
	switch m.PatchType {
	case "":
		return field.ErrorList{field.Required(path.Child("patchType"), "")}
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(jsonPatch, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, c.require(m.JSONPatch.Expression, jsonPatches, jsonPatch.Child("expression"), "expression is not specified")...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, c.require(m.ApplyConfiguration.Expression, configuration, apply.Child("expression"), "expression is not specified")...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(jsonPatch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		return oneOf(m.PatchType, path.Child("patchType"), admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)
	}
	return errs
}
