package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxAppArmorProfile = 4095 // PATH_MAX without its last byte

func (c *checker) checkSeccomp(p *corev1.SeccompProfile, path *field.Path) {
	if p == nil {
		return
	}
	switch p.Type {
	case corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined:
	case "":
		c.add(field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	default:
		c.add(field.NotSupported(path.Child("type"), p.Type, []corev1.SeccompProfileType{
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined}))
	}
	at := path.Child("localhostProfile")
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		c.add(field.Required(at, "must be set when seccomp type is Localhost"))
	case local:
		c.add(relativePath(*p.LocalhostProfile, at)...)
	case p.LocalhostProfile != nil:
		c.add(field.Invalid(at, p, "can only be set when seccomp type is Localhost"))
	}
}

func (c *checker) checkAppArmor(p *corev1.AppArmorProfile, path *field.Path) {
	if p == nil {
		return
	}
	at := path.Child("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		const text = "must be set when AppArmor type is Localhost"
		if p.LocalhostProfile == nil {
			c.add(field.Required(at, text))
			return
		}
		profile := *p.LocalhostProfile
		if strings.TrimSpace(profile) != profile {
			c.add(field.Invalid(at, profile, "must not be padded with whitespace"))
		} else if profile == "" {
			c.add(field.Required(at, text))
		}
		if len(profile) > maxAppArmorProfile {
			c.add(field.TooLong(at, profile, maxAppArmorProfile))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			c.add(field.Invalid(at, p.LocalhostProfile, "can only be set when AppArmor type is Localhost"))
		}
	case "":
		c.add(field.Required(path.Child("type"), "type is required when appArmorProfile is set"))
	default:
		c.add(field.NotSupported(path.Child("type"), p.Type, []corev1.AppArmorProfileType{
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined}))
	}
}

// Values of the annotations that named profiles before there were fields.
const (
	annotationRuntimeDefault = "runtime/default"
	annotationDockerDefault  = "docker/default"
	annotationUnconfined     = "unconfined"
	annotationLocalhost      = "localhost/"
)

// ValidateProfileAnnotations wants annotations of old to say the same as the fields beside them.
func ValidateProfileAnnotations(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(what, annotation, kind string, profile *string, path *field.Path) {
		matches := false
		switch kind {
		case "Unconfined":
			matches = annotation == annotationUnconfined
		case "RuntimeDefault":
			matches = annotation == annotationRuntimeDefault || what == "seccomp" && annotation == annotationDockerDefault
		case "Localhost":
			matches = strings.HasPrefix(annotation, annotationLocalhost)
		default:
			return
		}
		if !matches {
			errs = append(errs, field.Forbidden(path.Child("type"), what+" type in annotation and field must match"))
		} else if kind == "Localhost" && (profile == nil || strings.TrimPrefix(annotation, annotationLocalhost) != *profile) {
			errs = append(errs, field.Forbidden(path.Child("localhostProfile"), what+" profile in annotation and field must match"))
		}
	}
	var podAppArmor *corev1.AppArmorProfile
	if s := spec.SecurityContext; s != nil {
		podAppArmor = s.AppArmorProfile
		if annotation, ok := annotations[corev1.SeccompPodAnnotationKey]; ok && s.SeccompProfile != nil {
			check("seccomp", annotation, string(s.SeccompProfile.Type), s.SeccompProfile.LocalhostProfile, path.Child("securityContext", "seccompProfile"))
		}
	}
	VisitContainers(spec, path, func(container *corev1.Container, path *field.Path) {
		appArmor := podAppArmor
		if s := container.SecurityContext; s != nil {
			if annotation, ok := annotations[corev1.SeccompContainerAnnotationKeyPrefix+container.Name]; ok && s.SeccompProfile != nil {
				check("seccomp", annotation, string(s.SeccompProfile.Type), s.SeccompProfile.LocalhostProfile, path.Child("securityContext", "seccompProfile"))
			}
			if s.AppArmorProfile != nil {
				appArmor = s.AppArmorProfile
			}
		}
		if spec.OS != nil && spec.OS.Name == corev1.Windows {
			return
		}
		if annotation, ok := annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+container.Name]; ok && appArmor != nil {
			check("apparmor", annotation, string(appArmor.Type), appArmor.LocalhostProfile, path.Child("securityContext", "appArmorProfile"))
		}
	})
	return errs
}
