package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/distribution/reference"
)

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" { // to parse the name of the image is not cheap
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	setIfEmpty(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setIfEmpty(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setIfEmpty(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		source := c.Env[i].ValueFrom
		if source == nil {
			continue
		}
		defaultFieldRef(source.FieldRef)
		if source.FileKeyRef != nil {
			setIfNil(&source.FileKeyRef.Optional, false)
		}
	}
	RoundUp(c.Resources.Limits)
	RoundUp(c.Resources.Requests)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				defaultHTTPGet(handler.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	for _, f := range []struct {
		field *int32
		value int32
	}{{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *corev1.HTTPGetAction) {
	if a == nil {
		return
	}
	setIfEmpty(&a.Path, "/")
	setIfEmpty(&a.Scheme, corev1.URISchemeHTTP)
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setIfEmpty(&ref.APIVersion, "v1")
	}
}

func defaultHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		if ports[i].HostPort == 0 {
			ports[i].HostPort = ports[i].ContainerPort
		}
	}
}

// pullPolicy is Always for an image that may change under its name: tag latest, or neither tag nor digest.
// A reference that does not parse gets IfNotPresent; validation and the kubelet say what is wrong with it.
func pullPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := named.(reference.Tagged); ok {
		if tagged.Tag() == "latest" {
			return corev1.PullAlways
		}
		return corev1.PullIfNotPresent
	}
	if _, ok := named.(reference.Digested); ok {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}
