package serviceip

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nodePorts takes the node ports that the service shall have and has not yet, all in one swap, and notes those that
// it shall lose.
func (t *transaction) nodePorts() error {
	var requests []portRequest
	switch uses, used := usesNodePorts(t.svc), t.old != nil && usesNodePorts(t.old); {
	case uses && t.old == nil:
		requests = t.portsOfNew()
	case uses:
		requests = t.portsOfChanged()
		keeps := nodePorts(t.svc)
		t.dropPorts = slices.DeleteFunc(nodePorts(t.old), func(port int32) bool { return slices.Contains(keeps, port) })
	case used:
		t.dropPorts = nodePorts(t.old)
	}
	hadHealth, hasHealth := t.old != nil && usesHealthCheck(t.old), usesHealthCheck(t.svc)
	switch {
	case hasHealth && !hadHealth:
		requests = append(requests, t.wantedHealthPort())
	case hadHealth && !hasHealth:
		t.dropPorts = append(t.dropPorts, t.old.Spec.HealthCheckNodePort)
	}
	taken, err := t.a.ports.take(t.ctx, requests)
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	t.takenPorts = taken
	return err
}

// portsOfNew are the ports to take for a new service. Service ports with one number and several protocols (DNS over
// TCP and UDP) share a node port.
func (t *transaction) portsOfNew() []portRequest {
	var requests []portRequest
	ports, allocate := t.svc.Spec.Ports, allocatesNodePorts(t.svc)
	chosen := map[int32]int{} // service port to the index of its request
	for i := range ports {
		p := &ports[i]
		if p.NodePort == 0 && allocate {
			p.NodePort = requestedFor(p.Port, ports)
		}
		shares := func(earlier corev1.ServicePort) bool {
			return earlier.Port == p.Port && earlier.NodePort == p.NodePort
		}
		at, sharesChosen := chosen[p.Port]
		switch {
		case p.NodePort != 0:
			if !slices.ContainsFunc(ports[:i], shares) {
				requests = append(requests, t.askedPort(i))
			}
		case !allocate:
		case sharesChosen:
			requests[at].into = append(requests[at].into, &p.NodePort)
		default:
			chosen[p.Port] = len(requests)
			requests = append(requests, anyPort(p))
		}
	}
	return requests
}

// portsOfChanged are the ports to take for a changed service; those it has had stay its own.
func (t *transaction) portsOfChanged() []portRequest {
	var requests []portRequest
	ports, had := t.svc.Spec.Ports, nodePorts(t.old)
	for i := range ports {
		p := &ports[i]
		shares := func(earlier corev1.ServicePort) bool { return earlier.NodePort == p.NodePort }
		switch {
		case p.NodePort == 0 && allocatesNodePorts(t.svc):
			requests = append(requests, anyPort(p))
		case p.NodePort != 0 && !slices.Contains(had, p.NodePort) && !slices.ContainsFunc(ports[:i], shares):
			requests = append(requests, t.askedPort(i))
		}
	}
	return requests
}

// askedPort asks for the node port that the i-th port names.
func (t *transaction) askedPort(i int) portRequest {
	port := t.svc.Spec.Ports[i].NodePort
	return portRequest{port: port, err: func(err error) error {
		return t.invalid(field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error()))
	}}
}

func anyPort(p *corev1.ServicePort) portRequest {
	return portRequest{into: []*int32{&p.NodePort}, err: func(err error) error {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}}
}

// requestedFor is the node port that one of the ports of that number asks for.
func requestedFor(number int32, ports []corev1.ServicePort) int32 {
	for _, p := range ports {
		if p.Port == number && p.NodePort != 0 {
			return p.NodePort
		}
	}
	return 0
}

func (t *transaction) wantedHealthPort() portRequest {
	spec := &t.svc.Spec
	if port := spec.HealthCheckNodePort; port != 0 {
		return portRequest{port: port, err: func(err error) error {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", port, err))
		}}
	}
	return portRequest{
		err: func(err error) error {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", 0, err))
		},
		into: []*int32{&spec.HealthCheckNodePort},
	}
}

func usesNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// allocatesNodePorts is true when ports without node port get one. A load balancer may go without (KEP-1864).
func allocatesNodePorts(svc *corev1.Service) bool {
	allocate := svc.Spec.AllocateLoadBalancerNodePorts
	return svc.Spec.Type == corev1.ServiceTypeNodePort || allocate == nil || *allocate
}

func usesHealthCheck(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// nodePorts are the service's node ports, each once.
func nodePorts(svc *corev1.Service) []int32 {
	var ports []int32
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 && !slices.Contains(ports, p.NodePort) {
			ports = append(ports, p.NodePort)
		}
	}
	return ports
}
