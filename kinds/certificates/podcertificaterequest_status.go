package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxChainBytes   = 100 << 10
	minCertLifetime = time.Hour
	clockSkew       = 5 * time.Minute  // between the start of a certificate and now
	refreshMargin   = 10 * time.Minute // between a refresh and both ends of a certificate
)

// outcomes are the conditions that end a request.
var outcomes = []string{
	certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
	certificatesv1.PodCertificateRequestConditionTypeFailed,
}

// validatePodRequestStatus: a request ends once, as issued, denied or failed, and its status is fixed before and after
// that. One that is issued carries a chain whose first certificate is for the requested key and for the time stated.
func validatePodRequestStatus(request, old *certificatesv1.PodCertificateRequest, now time.Time) field.ErrorList {
	path := field.NewPath("status")
	errs := validateOutcomes(request.Status.Conditions, path.Child("conditions"))
	errs = append(errs, metav1validation.ValidateConditions(request.Status.Conditions, path.Child("conditions"))...)
	if len(errs) > 0 {
		return errs
	}
	refuse := func(allowed certificatesv1.PodCertificateRequestStatus, text string) field.ErrorList {
		if equality.Semantic.DeepEqual(request.Status, allowed) {
			return nil
		}
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, text)}
	}
	switch outcome := outcomeOf(request); {
	case outcomeOf(old) != "":
		return refuse(old.Status, "immutable after PodCertificateRequest is issued, denied, or failed")
	case outcome == certificatesv1.PodCertificateRequestConditionTypeIssued:
		return validateIssued(request, old, now, path)
	case outcome != "":
		return refuse(certificatesv1.PodCertificateRequestStatus{Conditions: request.Status.Conditions},
			"non-condition status fields must be empty when denying or failing the PodCertificateRequest")
	}
	return refuse(old.Status, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
}

func outcomeOf(request *certificatesv1.PodCertificateRequest) string {
	for _, c := range request.Status.Conditions {
		if c.Status == metav1.ConditionTrue && slices.Contains(outcomes, c.Type) {
			return c.Type
		}
	}
	return ""
}

// validateOutcomes wants at most one condition, one that ends a request, and that it is True. The dot before an index
// in the paths is upstream's.
func validateOutcomes(conditions []metav1.Condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := 0
	for i, c := range conditions {
		at := path.Child(fmt.Sprintf("[%d]", i))
		if !slices.Contains(outcomes, c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, outcomes))
			continue
		}
		if known++; known > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return errs
}

// validateIssued checks the chain and the times of a request that is being issued. The first thing wrong is the only
// one that it names, except among names in the certificate and missing times.
func validateIssued(request, old *certificatesv1.PodCertificateRequest, now time.Time, path *field.Path) field.ErrorList {
	at, chain := path.Child("certificateChain"), request.Status.CertificateChain
	leaf, rest, errs := leafOf(chain, at)
	if len(errs) > 0 {
		return errs
	}
	errs = validateLeafNames(leaf, at)
	if !isFor(leaf, old.Spec.StubPKCS10Request) {
		return append(errs, field.Invalid(at, chain, "leaf certificate was not issued to the requested public key"))
	}
	if errs = append(errs, validateTimes(&request.Status, leaf, now, path)...); len(errs) > 0 {
		return errs
	}
	switch lifetime := leaf.NotAfter.Sub(leaf.NotBefore); {
	case lifetime < minCertLifetime:
		return field.ErrorList{field.Invalid(at, lifetime, "leaf certificate lifetime must be >= 1 hour")}
	case request.Spec.MaxExpirationSeconds != nil && lifetime > time.Duration(*request.Spec.MaxExpirationSeconds)*time.Second:
		return field.ErrorList{field.Invalid(at, lifetime,
			fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%v)", *request.Spec.MaxExpirationSeconds))}
	}
	if errs := validateRefresh(&request.Status, path.Child("beginRefreshAt")); len(errs) > 0 {
		return errs
	}
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			return field.ErrorList{field.Invalid(at, chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")}
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return field.ErrorList{field.Invalid(at, chain, "intermediate certificate does not parse as valid X.509")}
		}
	}
	return nil
}

// leafOf returns the first certificate of a chain, and what follows it.
func leafOf(chain string, path *field.Path) (*x509.Certificate, []byte, field.ErrorList) {
	invalid := func(text string) (*x509.Certificate, []byte, field.ErrorList) {
		return nil, nil, field.ErrorList{field.Invalid(path, chain, text)}
	}
	if len(chain) > maxChainBytes {
		return nil, nil, field.ErrorList{field.TooLong(path, chain, maxChainBytes)}
	}
	block, rest := pem.Decode([]byte(chain))
	switch {
	case block == nil:
		return invalid("issued certificate chain must contain at least one certificate")
	case block.Type != certificateBlock:
		return invalid("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return invalid("leaf certificate does not parse as valid X.509")
	}
	return leaf, rest, nil
}

func validateLeafNames(leaf *x509.Certificate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(path, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(path, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(path, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(path, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

// isFor says whether a certificate has the key of a request.
func isFor(leaf *x509.Certificate, der []byte) bool {
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return false
	}
	key, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(leaf.PublicKey)
}

// validateTimes compares the stated times with the certificate's, and its start with the clock.
func validateTimes(status *certificatesv1.PodCertificateRequestStatus, leaf *x509.Certificate, now time.Time, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	const consistent = "must be present and consistent with the issued certificate"
	if status.NotBefore == nil {
		errs = append(errs, field.Required(path.Child("notBefore"), consistent))
	}
	if status.NotAfter == nil {
		errs = append(errs, field.Required(path.Child("notAfter"), consistent))
	}
	if status.BeginRefreshAt == nil {
		errs = append(errs, field.Required(path.Child("beginRefreshAt"), "must be present and in the range [notbefore+10min, notafter-10min]"))
	}
	if len(errs) > 0 {
		return errs
	}
	switch start, end := status.NotBefore.Time, status.NotAfter.Time; {
	case !start.Equal(leaf.NotBefore):
		return field.ErrorList{field.Invalid(path.Child("notBefore"), start, "must be set to the NotBefore time encoded in the leaf certificate")}
	case start.Sub(now).Abs() >= clockSkew:
		return field.ErrorList{field.Invalid(path.Child("notBefore"), start, "must be set to within 5 minutes of kube-apiserver's current time")}
	case !end.Equal(leaf.NotAfter):
		return field.ErrorList{field.Invalid(path.Child("notAfter"), end, "must be set to the NotAfter time encoded in the leaf certificate")}
	}
	return nil
}

// validateRefresh checks the time of the refresh; all times are there.
func validateRefresh(status *certificatesv1.PodCertificateRequestStatus, path *field.Path) field.ErrorList {
	switch at := status.BeginRefreshAt.Time; {
	case at.Before(status.NotBefore.Add(refreshMargin)):
		return field.ErrorList{field.Invalid(path, at, "must be at least 10 minutes after status.notBefore")}
	case at.After(status.NotAfter.Add(-refreshMargin)):
		return field.ErrorList{field.Invalid(path, at, "must be at least 10 minutes before status.notAfter")}
	}
	return nil
}
