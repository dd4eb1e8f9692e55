package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// checkItems checks the files that keys of a secret or config map become.
func (c *checker) checkItems(items []corev1.KeyToPath, path *field.Path) {
	for i, item := range items {
		at := path.Index(i)
		c.require(item.Key, at.Child("key"))
		c.require(item.Path, at.Child("path"))
		c.add(plainRelativePath(item.Path, at.Child("path"))...)
		c.add(fileMode(item.Mode, at.Child("mode"))...)
	}
}

func (c *checker) checkDownwardFile(file *corev1.DownwardAPIVolumeFile, path *field.Path) {
	c.require(file.Path, path.Child("path"))
	c.add(plainRelativePath(file.Path, path.Child("path"))...)
	switch {
	case file.FieldRef != nil:
		c.checkFieldRef(file.FieldRef, volumeFieldPaths, path.Child("fieldRef"))
		if file.ResourceFieldRef != nil {
			c.add(field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case file.ResourceFieldRef != nil:
		c.checkResourceFieldRef(file.ResourceFieldRef, true, path.Child("resourceFieldRef"))
	default:
		c.add(field.Required(path, "one of fieldRef and resourceFieldRef is required"))
	}
	c.add(fileMode(file.Mode, path.Child("mode"))...)
}

// checkProjected checks a volume of many sources, each of one kind, whose files must not fall on one another.
func (c *checker) checkProjected(s *corev1.ProjectedVolumeSource, path *field.Path) {
	c.add(fileMode(s.DefaultMode, path.Child("defaultMode"))...)
	p := projection{checker: c, path: path, taken: sets.New[string]()}
	for i := range s.Sources {
		p.checkSource(&s.Sources[i], path.Child("sources").Index(i))
	}
}

// projection is a projected volume under check and the files that its sources have taken so far.
type projection struct {
	*checker
	path  *field.Path
	taken sets.Set[string]
}

// take claims a file; value is what the error shows when it is taken already.
func (p projection) take(file, value string) {
	if file == "" {
		return
	}
	if p.taken.Has(file) {
		p.add(field.Invalid(p.path, value, "conflicting duplicate paths"))
	}
	p.taken.Insert(file)
}

func (p projection) checkSource(s *corev1.VolumeProjection, path *field.Path) {
	kinds := 0
	if s.Secret != nil {
		kinds++
		p.checkKeys(s.Secret.Name, s.Secret.Items, path.Child("secret"))
	}
	if s.ConfigMap != nil {
		kinds++
		p.checkKeys(s.ConfigMap.Name, s.ConfigMap.Items, path.Child("configMap"))
	}
	if s.DownwardAPI != nil {
		kinds++
		for i := range s.DownwardAPI.Items {
			file := &s.DownwardAPI.Items[i]
			p.checkDownwardFile(file, path.Child("downwardAPI"))
			p.take(file.Path, file.Path)
		}
	}
	if s.ServiceAccountToken != nil {
		kinds++
		p.checkToken(s.ServiceAccountToken, path.Child("serviceAccountToken"))
	}
	if s.ClusterTrustBundle != nil {
		kinds++
		p.checkTrustBundle(s.ClusterTrustBundle, path.Child("clusterTrustBundle"))
	}
	if s.PodCertificate != nil {
		kinds++
		p.checkCertificate(s.PodCertificate, path.Child("podCertificate"))
	}
	if kinds > 1 {
		p.add(field.Forbidden(path, "may not specify more than 1 volume type per source"))
	}
}

func (p projection) checkKeys(name string, items []corev1.KeyToPath, path *field.Path) {
	p.require(name, path.Child("name"))
	p.checkItems(items, path.Child("items"))
	for _, item := range items {
		p.take(item.Path, name)
	}
}

const minTokenSeconds, maxTokenSeconds = 10 * 60, 1 << 32

func (p projection) checkToken(s *corev1.ServiceAccountTokenProjection, path *field.Path) {
	if s.ExpirationSeconds != nil {
		if seconds := *s.ExpirationSeconds; seconds < minTokenSeconds {
			p.add(field.Invalid(path.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
		} else if seconds > maxTokenSeconds {
			p.add(field.Invalid(path.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	if s.Path == "" {
		p.add(field.Required(p.path.Child("path"), ""))
	} else if !p.tolerate.tokenPaths {
		p.add(plainRelativePath(s.Path, p.path.Child("path"))...)
	}
}

// checkTokenPaths has the one rule on token volumes that came late.
func (c *checker) checkTokenPaths() {
	for _, v := range c.spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				c.add(plainRelativePath(source.ServiceAccountToken.Path, nil)...)
			}
		}
	}
}

func (p projection) checkTrustBundle(s *corev1.ClusterTrustBundleProjection, path *field.Path) {
	switch {
	case s.Name != nil && s.SignerName != nil:
		p.add(field.Invalid(path, s, "only one of name and signerName may be used"))
	case s.Name != nil:
		if *s.Name == "" {
			p.add(field.Required(path.Child("name"), "must be a valid object name"))
		}
		for _, text := range trustBundleName(*s.Name) {
			p.add(field.Invalid(path.Child("name"), *s.Name, "not a valid clustertrustbundlename: "+text))
		}
		if s.LabelSelector != nil {
			p.add(field.Invalid(path.Child("labelSelector"), s.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case s.SignerName != nil:
		if *s.SignerName == "" {
			p.add(field.Required(path.Child("signerName"), "must be a valid signer name"))
		}
		p.add(signerName(*s.SignerName, path.Child("signerName"))...)
		p.add(validate.LabelSelector(s.LabelSelector, path.Child("labelSelector"))...)
	default:
		p.add(field.Required(path, "either name or signerName must be specified"))
	}
	p.require(s.Path, path.Child("path"))
	p.add(plainRelativePath(s.Path, path.Child("path"))...)
	p.take(s.Path, s.Path)
}

// trustBundleName checks the name of a ClusterTrustBundle: SIGNER:NAME with ":" for the signer's "/", or a plain name.
func trustBundleName(name string) []string {
	if i := strings.LastIndex(name, ":"); i >= 0 {
		name = name[i+1:]
	}
	return validation.IsDNS1123Subdomain(name)
}

// signerName checks names like example.com/signer: a domain and one path segment or more.
func signerName(name string, path *field.Path) field.ErrorList {
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || domain == "" || rest == "" {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	errs := validate.Each(domain, path, validation.IsDNS1123Subdomain)
	for _, segment := range strings.Split(rest, "/") {
		errs = append(errs, validate.Each(segment, path, validation.IsDNS1123Subdomain)...)
	}
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(path, name, "should be a domain with at least two segments separated by dots"))
	}
	return errs
}

// Bounds of the life of a pod certificate in seconds: an hour and 91 days.
const minCertificateSeconds, maxCertificateSeconds = 3600, 91 * 86400

var certificateKeyTypes = []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"}

func (p projection) checkCertificate(s *corev1.PodCertificateProjection, path *field.Path) {
	p.add(signerName(s.SignerName, path.Child("signerName"))...)
	p.add(notSupportedIn(path.Child("keyType"), s.KeyType, certificateKeyTypes...)...)
	if s.MaxExpirationSeconds != nil {
		at, seconds := path.Child("maxExpirationSeconds"), *s.MaxExpirationSeconds
		if seconds < minCertificateSeconds {
			p.add(field.Invalid(at, seconds, "if provided, maxExpirationSeconds must be >= 3600"))
		} else if seconds > maxCertificateSeconds {
			p.add(field.Invalid(at, seconds, "if provided, maxExpirationSeconds must be <= 7862400"))
		}
	}
	files := 0
	for _, f := range []struct{ name, file string }{
		{"credentialBundlePath", s.CredentialBundlePath},
		{"keyPath", s.KeyPath},
		{"certificateChainPath", s.CertificateChainPath},
	} {
		if f.file == "" {
			continue
		}
		files++
		p.add(plainRelativePath(f.file, path.Child(f.name))...)
		p.take(f.file, f.file)
	}
	if files == 0 {
		p.add(field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
}
