package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

func (c *checker) checkPorts(ports []corev1.ContainerPort, path *field.Path) {
	names := sets.New[string]()
	for i, port := range ports {
		at := path.Index(i)
		if port.Name != "" {
			if errs := validate.Each(port.Name, at.Child("name"), validation.IsValidPortName); len(errs) > 0 {
				c.add(errs...)
			} else if names.Has(port.Name) {
				c.add(field.Duplicate(at.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		if port.ContainerPort == 0 {
			c.add(field.Required(at.Child("containerPort"), ""))
		} else {
			c.checkPortNumber(port.ContainerPort, at.Child("containerPort"))
		}
		if port.HostPort != 0 {
			c.checkPortNumber(port.HostPort, at.Child("hostPort"))
		}
		c.add(validate.OneOf(port.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
}

func (c *checker) checkPortNumber(port int32, path *field.Path) {
	for _, text := range validation.IsValidPortNum(int(port)) {
		c.add(field.Invalid(path, port, text))
	}
}

// checkHostPortConflicts rejects two containers on one port of one address of the host.
func (c *checker) checkHostPortConflicts(containers []corev1.Container, path *field.Path) {
	taken := sets.New[string]()
	for i, container := range containers {
		for j, port := range container.Ports {
			if port.HostPort == 0 {
				continue
			}
			place := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if taken.Has(place) {
				c.add(field.Duplicate(path.Index(i).Child("ports").Index(j).Child("hostPort"), place))
			}
			taken.Insert(place)
		}
	}
}

// checkHostNetworkPorts wants host port and container port to be the same where both are the host's. Templates may
// leave the host port out; their pods get it by default.
func (c *checker) checkHostNetworkPorts(path *field.Path) {
	if !c.spec.HostNetwork {
		return
	}
	for i, container := range c.spec.Containers {
		for j, port := range container.Ports {
			if port.HostPort == port.ContainerPort || (port.HostPort == 0 && !c.opts.Pod) {
				continue
			}
			c.add(field.Invalid(path.Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort,
				"must match `containerPort` when `hostNetwork` is true"))
		}
	}
}

func (c *checker) checkPortOrName(port intstr.IntOrString, path *field.Path) {
	if port.Type == intstr.String {
		c.add(validate.Each(port.StrVal, path, validation.IsValidPortName)...)
		return
	}
	for _, text := range validation.IsValidPortNum(port.IntValue()) {
		c.add(field.Invalid(path, port.IntValue(), text))
	}
}
