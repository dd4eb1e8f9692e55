package networking

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// ingressCheck is one validation of an ingress: what it tolerates because the stored object has it.
type ingressCheck struct {
	anySecretName   bool
	anyWildcardRule bool
}

func validateIngressCreate(ingress *networkingv1.Ingress) field.ErrorList {
	errs := ingressCheck{}.spec(&ingress.Spec, field.NewPath("spec"))
	annotation, found := ingress.Annotations[ClassAnnotation]
	if class := ingress.Spec.IngressClassName; found && class != nil && annotation != *class {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(ClassAnnotation), annotation, "must match `ingressClassName` when both are specified"))
	}
	return errs
}

func validateIngressUpdate(ingress, old *networkingv1.Ingress) field.ErrorList {
	var c ingressCheck
	for _, tls := range old.Spec.TLS {
		c.anySecretName = c.anySecretName || len(secretName(tls.SecretName)) > 0
	}
	for _, rule := range old.Spec.Rules {
		if strings.Contains(rule.Host, "*") && len(ingressCheck{}.rule(&rule.IngressRuleValue, nil)) > 0 {
			c.anyWildcardRule = true
		}
	}
	return c.spec(&ingress.Spec, field.NewPath("spec"))
}

func (c ingressCheck) spec(spec *networkingv1.IngressSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(path, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, path.Child("defaultBackend"))...)
	}
	for i := range spec.Rules {
		errs = append(errs, c.hostRule(&spec.Rules[i], path.Child("rules").Index(i))...)
	}
	for i := range spec.TLS {
		errs = append(errs, c.tls(&spec.TLS[i], path.Child("tls").Index(i))...)
	}
	if spec.IngressClassName != nil {
		errs = append(errs, validate.Name(*spec.IngressClassName, path.Child("ingressClassName"))...)
	}
	return errs
}

func (c ingressCheck) tls(tls *networkingv1.IngressTLS, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, host := range tls.Hosts {
		errs = append(errs, validateHost(host, path.Child("hosts").Index(i))...)
	}
	if !c.anySecretName {
		for _, text := range secretName(tls.SecretName) {
			errs = append(errs, field.Invalid(path.Child("secretName"), tls.SecretName, text))
		}
	}
	return errs
}

func secretName(name string) []string {
	if name == "" {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

// validateHost accepts DNS names, also such with a * in place of the first label.
func validateHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return validate.Each(host, path, validation.IsWildcardDNS1123Subdomain)
	}
	return validate.Each(host, path, validation.IsDNS1123Subdomain)
}

func (c ingressCheck) hostRule(rule *networkingv1.IngressRule, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rule.Host != "" {
		at := path.Child("host")
		if validate.IsIP(rule.Host) {
			errs = append(errs, field.Invalid(at, rule.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, validateHost(rule.Host, at)...)
	}
	if c.anyWildcardRule && strings.Contains(rule.Host, "*") {
		return errs
	}
	return append(errs, c.rule(&rule.IngressRuleValue, path)...)
}

func (c ingressCheck) rule(rule *networkingv1.IngressRuleValue, path *field.Path) field.ErrorList {
	if rule.HTTP == nil {
		return nil
	}
	var errs field.ErrorList
	paths := path.Child("http", "paths")
	if len(rule.HTTP.Paths) == 0 {
		errs = append(errs, field.Required(paths, ""))
	}
	for i := range rule.HTTP.Paths {
		errs = append(errs, validatePath(&rule.HTTP.Paths[i], paths.Index(i))...)
	}
	return errs
}

func validatePath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	at := path.Child("path")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
		for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, bad) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("must not contain '%s'", bad)))
			}
		}
		for _, bad := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, bad) {
				errs = append(errs, field.Invalid(at, p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(at, p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("pathType"), *p.PathType,
			[]networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	return append(errs, validateBackend(&p.Backend, path.Child("backend"))...)
}

func validateBackend(backend *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case backend.Resource != nil && backend.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case backend.Resource != nil:
		r := backend.Resource
		return validateLocalReference(r.APIGroup, r.Kind, r.Name, path.Child("resource"))
	case backend.Service == nil:
		return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
	}
	var errs field.ErrorList
	service := backend.Service
	at := path.Child("service")
	if service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, validate.Each(service.Name, at.Child("name"), validation.IsDNS1123Label)...)
	}
	switch port := service.Port; {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, validate.Each(port.Name, at.Child("port", "name"), validation.IsValidPortName)...)
	case port.Number != 0:
		errs = append(errs, validate.PortNumber(port.Number, at.Child("port", "number"))...)
	default:
		errs = append(errs, field.Required(path, "port name or number is required"))
	}
	return errs
}

// validateIngressStatus checks the points of a load balancer; addresses that are stored already may stay as they are.
func validateIngressStatus(status, old *networkingv1.IngressLoadBalancerStatus) field.ErrorList {
	stored := validate.Stored{}
	for _, point := range old.Ingress {
		if point.IP != "" {
			stored[point.IP] = true
		}
	}
	var errs field.ErrorList
	for i, point := range status.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if point.IP != "" {
			errs = append(errs, validate.LegacyIP(at.Child("ip"), point.IP, stored)...)
		}
		if point.Hostname != "" {
			errs = append(errs, validate.Each(point.Hostname, at.Child("hostname"), validation.IsDNS1123Subdomain)...)
			if validate.IsIP(point.Hostname) {
				errs = append(errs, field.Invalid(at.Child("hostname"), point.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
