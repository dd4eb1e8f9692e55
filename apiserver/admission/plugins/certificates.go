package plugins

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"vigil/apiserver/admission"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/kinds"
)

// signers lets those who may do a verb with a signer do it: by its name, or by domain/* for all of a domain.
type signers struct{ config *Config }

func (s signers) may(ctx context.Context, a *admission.Attributes, verb, signer string) (bool, error) {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		allowed, err := s.config.may(ctx, &authz.Attributes{
			User: a.User, Verb: verb, Group: "certificates.k8s.io", Version: "*", Resource: "signers", Name: name,
		})
		if err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

func (s signers) check(ctx context.Context, a *admission.Attributes, verb, signer, refusal string) error {
	allowed, err := s.may(ctx, a, verb, signer)
	if err != nil {
		return err
	}
	if !allowed {
		return admission.Forbidden(a, fmt.Errorf(refusal, signer))
	}
	return nil
}

// CertificateApproval lets only those approve or deny a request who may approve for its signer.
type CertificateApproval struct{ signers }

// Name implements admission.Plugin.
func (CertificateApproval) Name() string { return "CertificateApproval" }

// Handles implements admission.Plugin.
func (CertificateApproval) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == requests && subresource == "approval" && op == admission.Update
}

// Validate implements admission.Validator.
func (p CertificateApproval) Validate(ctx context.Context, a *admission.Attributes) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	return p.check(ctx, a, "approve", old.Spec.SignerName, "user not permitted to approve requests with signerName %q")
}

// CertificateSigning lets only those put a certificate into a request, or say that there will be none, who may sign for its signer.
type CertificateSigning struct{ signers }

// Name implements admission.Plugin.
func (CertificateSigning) Name() string { return "CertificateSigning" }

// Handles implements admission.Plugin.
func (CertificateSigning) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == requests && subresource == "status" && op == admission.Update
}

// Validate implements admission.Validator.
func (p CertificateSigning) Validate(ctx context.Context, a *admission.Attributes) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	request, is := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || !is || bytes.Equal(old.Status.Certificate, request.Status.Certificate) && equality.Semantic.DeepEqual(old.Status.Conditions, request.Status.Conditions) {
		return nil
	}
	return p.check(ctx, a, "sign", old.Spec.SignerName, "user not permitted to sign requests with signerName %q")
}

// ClusterTrustBundleAttest lets only those publish the roots of a signer who may attest for it.
type ClusterTrustBundleAttest struct {
	on
	signers
}

// Name implements admission.Plugin.
func (ClusterTrustBundleAttest) Name() string { return "ClusterTrustBundleAttest" }

// Validate implements admission.Validator.
func (p ClusterTrustBundleAttest) Validate(ctx context.Context, a *admission.Attributes) error {
	bundle, ok := a.Object.(*certificatesv1.ClusterTrustBundle)
	if !ok || bundle.Spec.SignerName == "" {
		return nil
	}
	if old, ok := a.Old.(*certificatesv1.ClusterTrustBundle); ok && equality.Semantic.DeepEqual(old, bundle) {
		return nil // a change of nothing needs no right
	}
	return p.check(ctx, a, "attest", bundle.Spec.SignerName, "user not permitted to attest for signerName %q")
}

// CertificateSubjectRestriction lets nobody ask for a client certificate of system:masters.
type CertificateSubjectRestriction struct{ on }

// Name implements admission.Plugin.
func (CertificateSubjectRestriction) Name() string { return "CertificateSubjectRestriction" }

// Validate implements admission.Validator.
func (CertificateSubjectRestriction) Validate(_ context.Context, a *admission.Attributes) error {
	request, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || request.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	parsed, err := parseRequest(request.Spec.Request)
	if err != nil {
		return admission.Forbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(parsed.Subject.Organization, authn.GroupMasters) {
		return admission.Forbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed", request.Spec.SignerName, authn.GroupMasters))
	}
	return nil
}

func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
