package authentication

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"vigil/kinds/kindtest"
)

func TestTokenRequest(t *testing.T) {
	token := TokenSubresource()
	const webhook = `boundObjectRef: {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, name: w}, audiences: [a]`
	for _, tc := range []struct {
		name, spec string
		want       []string
	}{
		{"empty", `{}`, nil},
		{"short", `{expirationSeconds: 599}`, []string{"spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"}},
		{"long", `{expirationSeconds: 4294967297}`, []string{"spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"}},
		{"attestations", `{attestations: {a: [b]}}`, []string{
			`spec.attestations: Invalid value: {"a":["b"]}: attestations may only be specified with a webhook bound object reference`}},
		{"webhook", `{` + webhook + `, attestations: {admissionReviewAPIGroups: ["*"]}}`, nil},
		{"webhook without", `{` + strings.Replace(webhook, "[a]", "[a, b]", 1) + `}`, []string{
			`spec.audiences: Invalid value: ["a","b"]: must be length 1 when bound to a webhook config`,
			"spec.attestations: Invalid value: null: webhook bound requests require exactly one admissionReviewAPIGroups attestation"}},
		{"webhook of others", `{` + webhook + `, attestations: {a: [b]}}`, []string{
			`spec.attestations[a]: Unsupported value: "a": supported values: "admissionReviewAPIGroups"`}},
		{"webhook of many", `{` + webhook + `, attestations: {admissionReviewAPIGroups: [a, b]}}`, []string{
			`spec.attestations[admissionReviewAPIGroups]: Invalid value: ["a","b"]: must specify a single value`}},
		{"webhook of core", `{` + webhook + `, attestations: {admissionReviewAPIGroups: [""]}}`, []string{
			`spec.attestations[admissionReviewAPIGroups][0]: Invalid value: "": may not be an empty string`}},
		{"webhook of no group", `{` + webhook + `, attestations: {admissionReviewAPIGroups: [A]}}`, []string{
			`spec.attestations[admissionReviewAPIGroups][0]: Invalid value: "A": must specify a valid API Group: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			request := token.NewView().(*authenticationv1.TokenRequest)
			kindtest.Over[authenticationv1.TokenRequest](t, `spec: `+tc.spec)(request)
			token.DefaultBody(request)
			kindtest.Errors(t, token.ValidateBody(request), tc.want...)
			if tc.name == "empty" && *request.Spec.ExpirationSeconds != 3600 {
				t.Errorf("good for %d s by default", *request.Spec.ExpirationSeconds)
			}
		})
	}
}
