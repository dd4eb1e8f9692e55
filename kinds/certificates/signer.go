package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSignerName wants <domain>/<path>, each of labels with dots between them. The limit leaves room for
// <domain>/<namespace>.<name>.
func validateSignerName(name string, path *field.Path) field.ErrorList {
	const maxBytes = validation.DNS1123SubdomainMaxLength + 1 + validation.DNS1123LabelMaxLength + 1 + validation.DNS1123SubdomainMaxLength
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, rest, found := strings.Cut(name, "/")
	if !found || strings.Contains(rest, "/") {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path, "", validation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, firstBadLabel(domain, path, validation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, firstBadLabel(rest, path, validation.IsDNS1123Subdomain)...)
	if len(name) > maxBytes {
		errs = append(errs, field.TooLong(path, "", maxBytes))
	}
	return errs
}

// firstBadLabel returns the errors of the first label that check refuses.
func firstBadLabel(text string, path *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for label := range strings.SplitSeq(text, ".") {
		for _, why := range check(label) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("validating label %q: %s", label, why)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}

// isKubernetesSigner is true for signers whose names are reserved.
func isKubernetesSigner(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}
