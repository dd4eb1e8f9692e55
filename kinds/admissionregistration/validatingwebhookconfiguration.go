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

// ValidatingWebhookConfiguration is the row of validatingwebhookconfigurations.
func ValidatingWebhookConfiguration() *kinds.Kind {
	return &kinds.Kind{
		GVK:        admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
		Resource:   "validatingwebhookconfigurations",
		Singular:   "validatingwebhookconfiguration",
		Categories: []string{"api-extensions"},
		Path:       "validatingwebhookconfigurations",
		Type: &object.Type{
			APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration",
			New: func() runtime.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
		},
		New:     func() kinds.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
		NewList: func() runtime.Object { return &admissionregistrationv1.ValidatingWebhookConfigurationList{} },

		Default: func(obj kinds.Object) {
			hooks := validatingHooks(obj)
			for i := range hooks {
				hooks[i].setDefaults()
			}
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			hooks := validatingHooks(obj)
			return validateHooks(hooks, lenienceFor(hooks, nil))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			hooks := validatingHooks(obj)
			return validateHooks(hooks, lenienceFor(hooks, validatingHooks(old)))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			c := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration)
			return []any{c.Name, int64(len(c.Webhooks)), column.Since(c.CreationTimestamp, now)}
		},
	}
}

func validatingHooks(obj kinds.Object) []hook {
	c := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	hooks := make([]hook, len(c.Webhooks))
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		hooks[i] = hook{
			name: &h.Name, client: &h.ClientConfig, rules: h.Rules, failurePolicy: &h.FailurePolicy, matchPolicy: &h.MatchPolicy,
			namespaceSelector: &h.NamespaceSelector, objectSelector: &h.ObjectSelector, sideEffects: h.SideEffects,
			timeoutSeconds: &h.TimeoutSeconds, reviewVersions: h.AdmissionReviewVersions, matchConditions: h.MatchConditions,
		}
	}
	return hooks
}
