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

// MutatingWebhookConfiguration is the row of mutatingwebhookconfigurations.
func MutatingWebhookConfiguration() *kinds.Kind {
	return &kinds.Kind{
		GVK:        admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		Resource:   "mutatingwebhookconfigurations",
		Singular:   "mutatingwebhookconfiguration",
		Categories: []string{"api-extensions"},
		Path:       "mutatingwebhookconfigurations",
		Type: &object.Type{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration",
			New: func() runtime.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
		},
		New:     func() kinds.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
		NewList: func() runtime.Object { return &admissionregistrationv1.MutatingWebhookConfigurationList{} },

		Default: func(obj kinds.Object) {
			hooks := mutatingHooks(obj)
			for i := range hooks {
				hooks[i].setDefaults()
			}
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			hooks := mutatingHooks(obj)
			return validateHooks(hooks, lenienceFor(hooks, nil))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			hooks := mutatingHooks(obj)
			return validateHooks(hooks, lenienceFor(hooks, mutatingHooks(old)))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			c := obj.(*admissionregistrationv1.MutatingWebhookConfiguration)
			return []any{c.Name, int64(len(c.Webhooks)), column.Since(c.CreationTimestamp, now)}
		},
	}
}

func mutatingHooks(obj kinds.Object) []hook {
	c := obj.(*admissionregistrationv1.MutatingWebhookConfiguration)
	hooks := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		hooks[i] = hook{
			name: &h.Name, client: &h.ClientConfig, rules: h.Rules, failurePolicy: &h.FailurePolicy, matchPolicy: &h.MatchPolicy,
			namespaceSelector: &h.NamespaceSelector, objectSelector: &h.ObjectSelector, sideEffects: h.SideEffects,
			timeoutSeconds: &h.TimeoutSeconds, reviewVersions: h.AdmissionReviewVersions, matchConditions: h.MatchConditions,
			reinvocation: &h.ReinvocationPolicy,
		}
	}
	return hooks
}
