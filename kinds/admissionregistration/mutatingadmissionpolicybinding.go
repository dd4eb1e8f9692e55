package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// MutatingAdmissionPolicyBinding is the row of mutatingadmissionpolicybindings: where and with which parameters a policy applies.
func MutatingAdmissionPolicyBinding() *kinds.Kind {
	return &kinds.Kind{
		GVK:        admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"),
		Resource:   "mutatingadmissionpolicybindings",
		Singular:   "mutatingadmissionpolicybinding",
		Categories: []string{"api-extensions"},
		Path:       "mutatingadmissionpolicybindings",
		Type: &object.Type{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicyBinding",
			New: func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBinding{} },
		},
		New:     func() kinds.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBinding{} },
		NewList: func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBindingList{} },

		Default: func(obj kinds.Object) {
			defaultMatchResources(obj.(*admissionregistrationv1.MutatingAdmissionPolicyBinding).Spec.MatchResources)
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateMutatingBinding(&obj.(*admissionregistrationv1.MutatingAdmissionPolicyBinding).Spec, field.NewPath("spec"))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
			column.Text("ParamRef", "ParamRef indicates the param resource which sets the configration param"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			b := obj.(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
			return []any{b.Name, b.Spec.PolicyName, paramRefCell(b.Spec.ParamRef), column.Since(b.CreationTimestamp, now)}
		},
	}
}

func validateMutatingBinding(spec *admissionregistrationv1.MutatingAdmissionPolicyBindingSpec, path *field.Path) field.ErrorList {
	return validateBinding(spec.PolicyName, spec.ParamRef, spec.MatchResources, path)
}
