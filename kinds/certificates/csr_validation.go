package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

const (
	legacySigner         = "kubernetes.io/legacy-unknown"
	minExpirationSeconds = 600

	certificateBlock = "CERTIFICATE"
	requestBlock     = "CERTIFICATE REQUEST"
)

// approvals are the conditions that /approval alone may set, terminal those that are never taken away.
var (
	approvals = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}
	terminal  = append(slices.Clone(approvals), certificatesv1.CertificateFailed)
)

// usages are the key usages there are, in the order in which errors list them.
var usages = slices.Sorted(slices.Values([]certificatesv1.KeyUsage{
	certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment,
	certificatesv1.UsageKeyEncipherment, certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign, certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly,
	certificatesv1.UsageAny, certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping, certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC,
	certificatesv1.UsageNetscapeSGC,
}))

// csrTolerance is what a validation lets pass because the stored request has it.
type csrTolerance struct {
	legacySigner, unknownUsages, repeatedUsages            bool
	approvedAndDenied, repeatedConditions, emptyConditions bool
	anyCertificate                                         bool
}

func csrToleranceOf(csr, old *certificatesv1.CertificateSigningRequest) csrTolerance {
	if old == nil {
		return csrTolerance{}
	}
	types := sets.New[certificatesv1.RequestConditionType]()
	for _, c := range old.Status.Conditions {
		types.Insert(c.Type)
	}
	return csrTolerance{
		legacySigner:       old.Spec.SignerName == legacySigner,
		unknownUsages:      slices.ContainsFunc(old.Spec.Usages, func(u certificatesv1.KeyUsage) bool { return !slices.Contains(usages, u) }),
		repeatedUsages:     sets.New(old.Spec.Usages...).Len() < len(old.Spec.Usages),
		approvedAndDenied:  types.HasAll(approvals...),
		repeatedConditions: types.Len() < len(old.Status.Conditions),
		emptyConditions:    types.Has(""),
		anyCertificate:     bytes.Equal(csr.Status.Certificate, old.Status.Certificate) || checkCertificates(old.Status.Certificate) != nil,
	}
}

// validateCSR checks a request; old is nil on create.
func validateCSR(csr, old *certificatesv1.CertificateSigningRequest) field.ErrorList {
	tolerate := csrToleranceOf(csr, old)
	errs := validateCSRSpec(&csr.Spec, tolerate, field.NewPath("spec"))
	errs = append(errs, validateCSRConditions(csr.Status.Conditions, tolerate, field.NewPath("status", "conditions"))...)
	if !tolerate.anyCertificate {
		if err := checkCertificates(csr.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
		}
	}
	return errs
}

func validateCSRSpec(spec *certificatesv1.CertificateSigningRequestSpec, tolerate csrTolerance, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := checkRequest(spec.Request); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), spec.Request, err.Error()))
	}
	at := path.Child("usages")
	if len(spec.Usages) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	for i, u := range spec.Usages {
		if !tolerate.unknownUsages && !slices.Contains(usages, u) {
			errs = append(errs, field.NotSupported(at.Index(i), u, usages))
		}
	}
	seen := sets.New[certificatesv1.KeyUsage]()
	for i, u := range spec.Usages {
		if !tolerate.repeatedUsages && seen.Has(u) {
			errs = append(errs, field.Duplicate(at.Index(i), u))
		}
		seen.Insert(u)
	}
	if spec.SignerName == legacySigner && !tolerate.legacySigner {
		errs = append(errs, field.Invalid(path.Child("signerName"), spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, validateSignerName(spec.SignerName, path.Child("signerName"))...)
	}
	if s := spec.ExpirationSeconds; s != nil && *s < minExpirationSeconds {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

func validateCSRConditions(conditions []certificatesv1.CertificateSigningRequestCondition, tolerate csrTolerance, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[certificatesv1.RequestConditionType]()
	for i, c := range conditions {
		at := path.Index(i)
		if c.Type == "" && !tolerate.emptyConditions {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(terminal, c.Type) {
			statuses = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		switch {
		case c.Status == "":
			errs = append(errs, field.Required(at.Child("status"), ""))
		case !slices.Contains(statuses, c.Status):
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, statuses))
		}
		if !tolerate.approvedAndDenied && slices.Contains(approvals, c.Type) {
			if other := approvals[1-slices.Index(approvals, c.Type)]; seen.Has(other) {
				errs = append(errs, field.Invalid(at.Child("type"), c.Type, "Approved and Denied conditions are mutually exclusive"))
			}
		}
		if !tolerate.repeatedConditions && seen.Has(c.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen.Insert(c.Type)
	}
	return errs
}

// csrDoor says through which resource a request is changed.
type csrDoor int

const (
	throughMain csrDoor = iota
	throughApproval
	throughStatus
)

// validateCSRUpdate: approval and denial come through /approval, the certificate comes once through /status, and what
// was decided stays decided.
func validateCSRUpdate(obj, was kinds.Object, door csrDoor) field.ErrorList {
	csr, old := obj.(*certificatesv1.CertificateSigningRequest), was.(*certificatesv1.CertificateSigningRequest)
	errs := validateCSR(csr, old)
	path := field.NewPath("status", "conditions")
	for _, t := range terminal {
		if len(conditionsOf(csr, t)) < len(conditionsOf(old, t)) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	if door != throughApproval {
		for _, t := range approvals {
			switch now, before := conditionsOf(csr, t), conditionsOf(old, t); {
			case len(now) < len(before): // has been said above
			case len(now) > len(before):
				errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", t)))
			case !equality.Semantic.DeepEqual(before, now):
				errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t, cmp.Diff(before, now))))
			}
		}
	}
	if !bytes.Equal(csr.Status.Certificate, old.Status.Certificate) {
		path := field.NewPath("status", "certificate")
		switch {
		case door != throughStatus:
			errs = append(errs, field.Forbidden(path, "updates may not set certificate content"))
		case len(old.Status.Certificate) > 0:
			errs = append(errs, field.Forbidden(path, "updates may not modify existing certificate content"))
		}
	}
	return errs
}

func conditionsOf(csr *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var found []certificatesv1.CertificateSigningRequestCondition
	for _, c := range csr.Status.Conditions {
		if c.Type == t {
			found = append(found, c)
		}
	}
	return found
}

// checkRequest wants a PEM-encoded PKCS#10 request with a good signature.
func checkRequest(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != requestBlock {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	return request.CheckSignature()
}

// checkCertificates wants one or more PEM-encoded certificates and no other blocks. No text at all is fine.
func checkCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	blocks := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		blocks++
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}
