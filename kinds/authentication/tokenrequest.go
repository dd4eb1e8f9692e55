package authentication

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

// Bounds of a token's life in seconds.
const (
	defaultTokenSeconds = 60 * 60
	minTokenSeconds     = 10 * 60
	maxTokenSeconds     = 1 << 32
)

// TokenSubresource is the subresource of service accounts that issues tokens. A write.Hook answers it.
func TokenSubresource() kinds.Subresource {
	return kinds.Subresource{
		Name:        "token",
		GVK:         authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"),
		Verbs:       []string{"create"},
		NewView:     func() runtime.Object { return &authenticationv1.TokenRequest{} },
		DefaultBody: func(body runtime.Object) { defaultTokenRequest(body.(*authenticationv1.TokenRequest)) },
		ValidateBody: func(body runtime.Object) field.ErrorList {
			return validateTokenRequest(body.(*authenticationv1.TokenRequest))
		},
	}
}

func defaultTokenRequest(r *authenticationv1.TokenRequest) {
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = new(int64(defaultTokenSeconds))
	}
}

func validateTokenRequest(r *authenticationv1.TokenRequest) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if seconds := *r.Spec.ExpirationSeconds; seconds < minTokenSeconds {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
	} else if seconds > maxTokenSeconds {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if isWebhook(r.Spec.BoundObjectRef) {
		if len(r.Spec.Audiences) != 1 {
			errs = append(errs, field.Invalid(path.Child("audiences"), r.Spec.Audiences, "must be length 1 when bound to a webhook config"))
		}
		return append(errs, validateAttestations(r.Spec.Attestations, path.Child("attestations"))...)
	}
	if len(r.Spec.Attestations) > 0 {
		return field.ErrorList{field.Invalid(path.Child("attestations"), r.Spec.Attestations, "attestations may only be specified with a webhook bound object reference")}
	}
	return errs
}

// isWebhook says whether a token is to be bound to the configuration of a webhook.
func isWebhook(ref *authenticationv1.BoundObjectReference) bool {
	return ref != nil && ref.APIVersion == admissionregistrationv1.SchemeGroupVersion.String() &&
		(ref.Kind == "ValidatingWebhookConfiguration" || ref.Kind == "MutatingWebhookConfiguration")
}

func validateAttestations(attestations map[string]authenticationv1.AttestationValue, path *field.Path) field.ErrorList {
	if len(attestations) != 1 {
		return field.ErrorList{field.Invalid(path, attestations, "webhook bound requests require exactly one admissionReviewAPIGroups attestation")}
	}
	const known = authenticationv1.AttestationAdmissionReviewAPIGroups
	for key, values := range attestations {
		path = path.Key(key)
		switch {
		case key != known:
			return field.ErrorList{field.NotSupported(path, key, []string{known})}
		case len(values) != 1:
			return field.ErrorList{field.Invalid(path, values, "must specify a single value")}
		}
		return validateAttestedGroup(values[0], path.Index(0))
	}
	return nil
}

// validateAttestedGroup accepts "*" and the name of a group. The core group has none that could be told from "all".
func validateAttestedGroup(group string, path *field.Path) field.ErrorList {
	switch group {
	case "":
		return field.ErrorList{field.Invalid(path, group, "may not be an empty string")}
	case "*":
		return nil
	}
	var errs field.ErrorList
	for _, why := range validation.IsDNS1123Subdomain(group) {
		errs = append(errs, field.Invalid(path, group, "must specify a valid API Group: "+why))
	}
	return errs
}
