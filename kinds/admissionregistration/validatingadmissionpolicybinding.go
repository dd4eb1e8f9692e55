package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// ValidatingAdmissionPolicyBinding is the row of validatingadmissionpolicybindings: where and with which parameters a policy applies.
func ValidatingAdmissionPolicyBinding() *kinds.Kind {
	return &kinds.Kind{
		GVK:        admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
		Resource:   "validatingadmissionpolicybindings",
		Singular:   "validatingadmissionpolicybinding",
		Categories: []string{"api-extensions"},
		Path:       "validatingadmissionpolicybindings",
		Type: &object.Type{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding",
			New: func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{} },
		},
		New:     func() kinds.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{} },
		NewList: func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{} },

		Default: func(obj kinds.Object) {
			defaultMatchResources(obj.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec.MatchResources)
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateValidatingBinding(&obj.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec, field.NewPath("spec"))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
			column.Text("ParamRef", "ParamRef indicates the param resource which sets the configration param"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			b := obj.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
			return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), column.Since(b.CreationTimestamp, now)}
		},
	}
}

func validateValidatingBinding(spec *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec, path *field.Path) field.ErrorList {
	errs := validateBinding(spec.PolicyName, spec.ParamRef, spec.MatchResources, path)
	return append(errs, validateActions(spec.ValidationActions, path.Child("validationActions"))...)
}

func validateActions(actions []admissionregistrationv1.ValidationAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[admissionregistrationv1.ValidationAction]()
	for i, a := range actions {
		errs = append(errs, oneOf(a, path.Index(i), admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)...)
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
		seen.Insert(a)
	}
	if seen.HasAll(admissionregistrationv1.Deny, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(actions) == 0 {
		errs = append(errs, field.Required(path, "at least one validation action is required"))
	}
	return errs
}
