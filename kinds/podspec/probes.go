package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

func (c *checker) checkLivenessProbe(p *corev1.Probe, path *field.Path) {
	c.checkProbe(p, path)
	if p != nil && p.SuccessThreshold != 1 {
		c.add(field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
}

func (c *checker) checkStartupProbe(p *corev1.Probe, path *field.Path) {
	c.checkLivenessProbe(p, path) // the same rules
}

func (c *checker) checkReadinessProbe(p *corev1.Probe, path *field.Path) {
	c.checkProbe(p, path)
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		c.add(field.Invalid(path.Child("terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
}

func (c *checker) checkProbe(p *corev1.Probe, path *field.Path) {
	if p == nil {
		return
	}
	c.checkHandler(handler{exec: p.Exec, httpGet: p.HTTPGet, tcpSocket: p.TCPSocket, grpc: p.GRPC}, path)
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			c.add(validate.NonNegative(int64(n.value), path.Child(n.name))...)
		}
	}
	if p.TerminationGracePeriodSeconds != nil && *p.TerminationGracePeriodSeconds <= 0 {
		c.add(field.Invalid(path.Child("terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds, "must be greater than 0"))
	}
}

// handler is what a probe or a lifecycle event does. Exactly one field is set.
type handler struct {
	exec      *corev1.ExecAction
	httpGet   *corev1.HTTPGetAction
	tcpSocket *corev1.TCPSocketAction
	grpc      *corev1.GRPCAction
	sleep     *corev1.SleepAction
}

func (c *checker) checkHandler(h handler, path *field.Path) {
	c.oneOf(path, []variant{
		{"exec", h.exec != nil, func(at *field.Path) {
			if len(h.exec.Command) == 0 {
				c.add(field.Required(at.Child("command"), ""))
			}
		}},
		{"httpGet", h.httpGet != nil, func(at *field.Path) { c.checkHTTPGet(h.httpGet, at) }},
		{"tcpSocket", h.tcpSocket != nil, func(at *field.Path) { c.checkPortOrName(h.tcpSocket.Port, at.Child("port")) }},
		{"grpc", h.grpc != nil, func(at *field.Path) { c.checkPortOrName(intstr.FromInt32(h.grpc.Port), at.Child("port")) }},
		{"sleep", h.sleep != nil, func(at *field.Path) { c.checkSleep(h.sleep, at) }},
	}, "may not specify more than 1 handler type", "must specify a handler type")
}

// variant is one of several fields of which exactly one is to be set.
type variant struct {
	name  string
	set   bool
	check func(*field.Path)
}

// oneOf checks the first variant that is set and forbids the others; when none is set the whole is Required.
func (c *checker) oneOf(path *field.Path, variants []variant, tooMany, none string) {
	found := false
	for _, v := range variants {
		switch {
		case !v.set:
		case found:
			c.add(field.Forbidden(path.Child(v.name), tooMany))
		default:
			found = true
			if v.check != nil {
				v.check(path.Child(v.name))
			}
		}
	}
	if !found {
		c.add(field.Required(path, none))
	}
}

func (c *checker) checkHTTPGet(a *corev1.HTTPGetAction, path *field.Path) {
	if a.Path == "" {
		c.add(field.Required(path.Child("path"), ""))
	}
	c.checkPortOrName(a.Port, path.Child("port"))
	c.add(notSupportedIn(path.Child("scheme"), a.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, header := range a.HTTPHeaders {
		c.add(validate.Each(header.Name, path.Child("httpHeaders"), validation.IsHTTPHeaderName)...)
	}
}
