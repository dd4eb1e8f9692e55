package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// parse reads the PEM of a request.
func parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// What a request for a kubelet lacks, in upstream's words.
var (
	errOrganization  = errors.New("subject organization is not system:nodes")
	errCommonName    = errors.New("subject common name does not begin with system:node:")
	errDNSOrIP       = errors.New("DNS or IP subjectAltName is required")
	errNoDNS         = errors.New("DNS subjectAltNames are not allowed")
	errNoEmail       = errors.New("Email subjectAltNames are not allowed")
	errNoIP          = errors.New("IP subjectAltNames are not allowed")
	errNoURI         = errors.New("URI subjectAltNames are not allowed")
	errClientUsages  = errors.New("usages did not match [digital signature client auth] or [digital signature key encipherment client auth]")
	errServingUsages = errors.New("usages did not match [digital signature server auth] or [digital signature key encipherment server auth]")
)

// kubeletClient says what keeps a request from being one for a kubelet's client certificate, nil when it is one.
func kubeletClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(req.Subject.Organization, []string{"system:nodes"}):
		return errOrganization
	case len(req.DNSNames) > 0:
		return errNoDNS
	case len(req.EmailAddresses) > 0:
		return errNoEmail
	case len(req.IPAddresses) > 0:
		return errNoIP
	case len(req.URIs) > 0:
		return errNoURI
	case !strings.HasPrefix(req.Subject.CommonName, "system:node:"):
		return errCommonName
	case !kubeletUsages(usages, certificatesv1.UsageClientAuth):
		return errClientUsages
	}
	return nil
}

// kubeletServing says what keeps a request from being one for a kubelet's serving certificate, nil when it is one.
func kubeletServing(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(req.Subject.Organization, []string{"system:nodes"}):
		return errOrganization
	case len(req.DNSNames) == 0 && len(req.IPAddresses) == 0:
		return errDNSOrIP
	case len(req.EmailAddresses) > 0:
		return errNoEmail
	case len(req.URIs) > 0:
		return errNoURI
	case !strings.HasPrefix(req.Subject.CommonName, "system:node:"):
		return errCommonName
	case !kubeletUsages(usages, certificatesv1.UsageServerAuth):
		return errServingUsages
	}
	return nil
}

// kubeletUsages says whether usages are those for auth: with key encipherment, as RSA keys need it, or without.
func kubeletUsages(usages []certificatesv1.KeyUsage, auth certificatesv1.KeyUsage) bool {
	has := map[certificatesv1.KeyUsage]bool{}
	for _, u := range usages {
		if u != auth && u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment {
			return false
		}
		has[u] = true
	}
	return has[auth] && has[certificatesv1.UsageDigitalSignature]
}

// apiClient says what keeps a request from being one for a client certificate of the API server, nil when it is one.
func apiClient(usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}
