package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

const (
	maxUIDBytes         = 128
	maxStubRequestBytes = 10 << 10
)

func validatePodRequest(spec *certificatesv1.PodCertificateRequestSpec, path *field.Path) field.ErrorList {
	errs := validateSignerName(spec.SignerName, path.Child("signerName"))
	errs = append(errs, validateUserAnnotations(spec.UnverifiedUserAnnotations, path.Child("unverifiedUserAnnotations"))...)
	errs = append(errs, validate.Name(spec.PodName, path.Child("podName"))...)
	errs = append(errs, validateUID(string(spec.PodUID), path.Child("podUID"))...)
	errs = append(errs, validate.Name(spec.ServiceAccountName, path.Child("serviceAccountName"))...)
	errs = append(errs, validateUID(string(spec.ServiceAccountUID), path.Child("serviceAccountUID"))...)
	errs = append(errs, validate.Name(string(spec.NodeName), path.Child("nodeName"))...)
	errs = append(errs, validateUID(string(spec.NodeUID), path.Child("nodeUID"))...)

	at := path.Child("maxExpirationSeconds")
	if spec.MaxExpirationSeconds == nil {
		return append(errs, field.Required(at, "must be set"))
	}
	most := int32(maxMaxExpirationSeconds)
	if isKubernetesSigner(spec.SignerName) {
		most = kubernetesMaxExpirationSeconds
	}
	if s := *spec.MaxExpirationSeconds; s < minMaxExpirationSeconds || s > most {
		errs = append(errs, field.Invalid(at, s, fmt.Sprintf("must be in the range [%d, %d]", minMaxExpirationSeconds, most)))
	}
	return append(errs, validateStubRequest(spec.StubPKCS10Request, path.Child("stubPKCS10Request"))...)
}

// validateUserAnnotations is stricter than the rule of annotations: keys have a domain.
func validateUserAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	total := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		errs = append(errs, validation.IsDomainPrefixedKey(path, strings.ToLower(key))...)
		total += len(key) + len(annotations[key])
	}
	if total > apivalidation.TotalAnnotationSizeLimitB {
		errs = append(errs, field.TooLong(path, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

func validateUID(uid string, path *field.Path) field.ErrorList {
	switch {
	case uid == "":
		return field.ErrorList{field.Invalid(path, uid, "must not be empty")}
	case len(uid) > maxUIDBytes:
		return field.ErrorList{field.TooLong(path, uid, maxUIDBytes)}
	}
	return nil
}

// validateStubRequest wants a PKCS#10 request that its key has signed, with a key of a known sort.
func validateStubRequest(der []byte, path *field.Path) field.ErrorList {
	invalid := func(value any, text string) field.ErrorList { return field.ErrorList{field.Invalid(path, value, text)} }
	if len(der) > maxStubRequestBytes {
		return field.ErrorList{field.TooLong(path, der, maxStubRequestBytes)}
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return invalid(der, "must be a valid PKCS#10 CSR")
	}
	if err := request.CheckSignature(); err != nil {
		return invalid(field.OmitValueType{}, "could not verify the signature of the PKCS#10 CSR")
	}
	switch key := request.PublicKey.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if !slices.Contains([]elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}, key.Curve) {
			return invalid("curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
		}
		return nil
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return invalid(fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
		return nil
	}
	return invalid(der, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
}
