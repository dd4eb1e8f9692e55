package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

const maxTrustBundleBytes = 1 << 20

// omitted stands for data that errors do not repeat.
const omitted = "<value omitted>"

// ClusterTrustBundle is the row of cluster trust bundles (KEP-3257).
func ClusterTrustBundle() *kinds.Kind {
	return &kinds.Kind{
		GVK:      certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
		Resource: "clustertrustbundles",
		Singular: "clustertrustbundle",
		Path:     "clustertrustbundles",
		Type: &object.Type{
			APIVersion: "certificates.k8s.io/v1", Kind: "ClusterTrustBundle",
			New:    func() runtime.Object { return &certificatesv1.ClusterTrustBundle{} },
			Fields: []object.Field{{Label: "spec.signerName", Proto: []int32{2, 1}}},
		},
		UnknownField:     kinds.UnknownField,
		NoNamespaceField: true,
		New:              func() kinds.Object { return &certificatesv1.ClusterTrustBundle{} },
		NewList:          func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },

		// What names are good depends on the signer: see validateBundle.
		ValidateName: func(string, bool) []string { return nil },
		Validate: func(obj kinds.Object) field.ErrorList {
			bundle := obj.(*certificatesv1.ClusterTrustBundle)
			return append(validateBundle(bundle), validateAnchors(bundle.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			bundle, was := obj.(*certificatesv1.ClusterTrustBundle), old.(*certificatesv1.ClusterTrustBundle)
			errs := validateBundle(bundle)
			if bundle.Spec.TrustBundle != was.Spec.TrustBundle {
				errs = append(errs, validateAnchors(bundle.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
			}
			return append(errs, validate.Immutable(bundle.Spec.SignerName, was.Spec.SignerName, field.NewPath("spec", "signerName"))...)
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			bundle := obj.(*certificatesv1.ClusterTrustBundle)
			return []any{bundle.Name, column.Or(bundle.Spec.SignerName, column.None)}
		},
	}
}

// validateBundle checks the name, which begins with the signer's, and the signer.
func validateBundle(bundle *certificatesv1.ClusterTrustBundle) field.ErrorList {
	var errs field.ErrorList
	name, signer := bundle.Name, bundle.Spec.SignerName
	path := field.NewPath("metadata", "name")
	prefix := ""
	if signer != "" {
		prefix = strings.ReplaceAll(signer, "/", ":") + ":"
	}
	rest, found := strings.CutPrefix(name, prefix)
	switch {
	case !found:
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)))
	case signer == "" && strings.Contains(name, ":"):
		errs = append(errs, field.Invalid(path, name, `ClusterTrustBundle without signer name must not have ":" in its name`))
	default:
		for _, text := range apivalidation.NameIsDNSSubdomain(rest, false) {
			errs = append(errs, field.Invalid(path, name, text))
		}
	}
	if signer != "" {
		errs = append(errs, validateSignerName(signer, field.NewPath("spec", "signerName"))...)
	}
	return errs
}

// validateAnchors wants PEM-encoded certificates of authorities, at least one and each once.
func validateAnchors(text string, path *field.Path) field.ErrorList {
	if len(text) > maxTrustBundleBytes {
		return field.ErrorList{field.TooLong(path, "", maxTrustBundleBytes)}
	}
	var errs field.ErrorList
	var order []string
	places := map[string][]int{}
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if why := badAnchor(block); why != "" {
			errs = append(errs, field.Invalid(path, omitted, fmt.Sprintf("entry %d %s", i, why)))
			continue
		}
		der := string(block.Bytes)
		if places[der] == nil {
			order = append(order, der)
		}
		places[der] = append(places[der], i)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(order) == 0 {
		return field.ErrorList{field.Invalid(path, omitted, "at least one trust anchor must be provided")}
	}
	for _, der := range order {
		if at := places[der]; len(at) > 1 {
			errs = append(errs, field.Invalid(path, omitted, fmt.Sprintf("duplicate trust anchor (indices %v)", at)))
		}
	}
	return errs
}

// badAnchor says what is wrong with a block, "" for nothing.
func badAnchor(block *pem.Block) string {
	if block.Type != certificateBlock {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) != 0 {
		return "has PEM block headers"
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !certificate.IsCA:
		return "does not have the CA bit set"
	case !certificate.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}
