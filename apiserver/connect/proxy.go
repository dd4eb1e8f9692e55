package connect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream"
)

// podProxy forwards to a pod: "name", "name:port" or "scheme:name:port". Without a port it is the first that a container names.
func (c *Connector) podProxy(w http.ResponseWriter, req *http.Request, r *Request) error {
	if err := r.Admit(req.Context(), &corev1.PodProxyOptions{Path: optionsPath(r)}); err != nil {
		return err
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(r.Name)
	if !valid {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", r.Name))
	}
	pod, err := c.pod(req.Context(), r, name)
	if err != nil {
		return err
	}
	if port == "" {
		for i := range pod.Spec.Containers {
			if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
				port = strconv.Itoa(int(ports[0].ContainerPort))
				break
			}
		}
	}
	var address string
	if len(pod.Status.PodIPs) > 0 {
		address = pod.Status.PodIPs[0].IP
	}
	ip, err := netip.ParseAddr(address)
	if err != nil || !reachable(ip, c.config.AllowLoopback) {
		return apierrors.NewBadRequest(errAddress.Error())
	}
	host := net.JoinHostPort(address, port)
	if port == "" {
		host = host[:len(host)-1]
	}
	c.proxy(w, req, r, &url.URL{Scheme: scheme, Host: host}, c.direct)
	return nil
}

// serviceProxy forwards to a ready endpoint of a service: "name", "name:port" or "scheme:name:port", where port is a name or a
// number of the service's.
func (c *Connector) serviceProxy(w http.ResponseWriter, req *http.Request, r *Request) error {
	if err := r.Admit(req.Context(), &corev1.ServiceProxyOptions{Path: optionsPath(r)}); err != nil {
		return err
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(r.Name)
	if !valid {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", r.Name))
	}
	obj, err := c.config.Objects.Find(req.Context(), schema.GroupResource{Resource: "services"}, r.Namespace, name)
	if err != nil {
		return err
	}
	service := obj.(*corev1.Service)
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
		if at < 0 {
			return apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
		}
		port = service.Spec.Ports[at].Name
	}
	endpoints, err := c.endpoints(req.Context(), r.Namespace, name)
	if err != nil {
		return err
	}
	family := corev1.IPFamilyUnknown
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	host, err := proxy.RandomEndpoint(name, endpoints, port, family, func(e *discoveryv1.Endpoint) bool {
		return c.isPod(req.Context(), r.Namespace, e)
	})
	if err != nil {
		return err
	}
	c.proxy(w, req, r, &url.URL{Scheme: scheme, Host: host}, c.direct)
	return nil
}

// endpoints are a service's EndpointSlices. A service that has none may have Endpoints: not everything that makes those makes slices of them.
func (c *Connector) endpoints(ctx context.Context, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	found, err := c.config.Objects.EndpointSlices(namespace, service)
	if err != nil || len(found) > 0 {
		return found, err
	}
	obj, err := c.config.Objects.Find(ctx, schema.GroupResource{Resource: "endpoints"}, namespace, service)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, subset := range obj.(*corev1.Endpoints).Subsets {
		slice := &discoveryv1.EndpointSlice{}
		for i := range subset.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &subset.Ports[i].Name, Port: &subset.Ports[i].Port})
		}
		for _, a := range subset.Addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.IP}, TargetRef: a.TargetRef})
		}
		found = append(found, slice)
	}
	return found, nil
}

// isPod says whether an endpoint is what it says: a pod of the namespace with that address. Who may write EndpointSlices must not
// thereby reach addresses of others through the server.
func (c *Connector) isPod(ctx context.Context, namespace string, e *discoveryv1.Endpoint) bool {
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || e.TargetRef.Namespace != namespace || len(e.Addresses) == 0 {
		return false
	}
	obj, err := c.config.Objects.Find(ctx, schema.GroupResource{Resource: "pods"}, namespace, e.TargetRef.Name)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(obj.(*corev1.Pod).Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == e.Addresses[0] })
}

// nodeProxy forwards to the kubelet of a node, or to another port of the node: "name", "name:port" or "scheme:name:port".
func (c *Connector) nodeProxy(w http.ResponseWriter, req *http.Request, r *Request) error {
	if err := r.Admit(req.Context(), &corev1.NodeProxyOptions{Path: optionsPath(r)}); err != nil {
		return err
	}
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(r.Name)
	if !valid {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", r.Name))
	}
	k, err := c.kubelet(req.Context(), name)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(k.host); err == nil && !reachable(ip, c.config.AllowLoopback) {
		return apierrors.NewBadRequest(errAddress.Error())
	}
	if port == "" || port == k.port {
		c.proxy(w, req, r, k.url("", nil), c.kubelets.transport(k, false))
		return nil
	}
	transport := c.away
	if k.own {
		transport = c.direct
	}
	c.proxy(w, req, r, &url.URL{Scheme: scheme, Host: net.JoinHostPort(k.host, port)}, transport)
	return nil
}

// optionsPath is the path as the options have it.
func optionsPath(r *Request) string {
	if len(r.Path) > 0 {
		return r.Path[1:]
	}
	return ""
}

// proxy forwards any request, upgrades as well, and rewrites links in what comes back.
func (c *Connector) proxy(w http.ResponseWriter, req *http.Request, r *Request, location *url.URL, transport *http.Transport) {
	location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, r.Path)
	if httpstream.IsUpgradeRequest(req) {
		location, transport = upgrading(location, transport)
	}
	c.forward(location, transport, false).ServeHTTP(w, req)
}
