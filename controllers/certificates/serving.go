package certificates

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"vigil/informer"
)

// servingApproval decides about kubelets' serving certificates. Upstream leaves these to people and to others' approvers: a kubelet
// says itself which addresses its node has, so that its word alone would get it a certificate for any address, and with that it
// could pass for another kubelet or, as one authority signs both, for the API server. So more than its word is asked for: the names are
// its own, and the addresses are its Node's and nobody else's, neither another Node's nor a Service's nor the API servers', of which those count, too, that
// their certificate is for. Whoever joins chooses his node's name, too, so it must be none that pods call a Service by, nor one of an
// API server. A request that asks for anything else waits for a person.
//
// An address that nobody has yet is any node's for the asking. Such a certificate makes no node pass for the one that has the address later: the API server
// wants the node's name in it. The address that a request came from is not looked at (docs/decisions/csr-address.md).
type servingApproval struct {
	nodes    informer.Lister[*corev1.Node]
	slices   informer.Lister[*discoveryv1.EndpointSlice]
	services informer.Lister[*corev1.Service]
	server   *serverNames

	mu    sync.Mutex
	later map[string]map[string]bool // requests to look at again when a node changes: names by the node's
}

func newServingApproval(informers *informer.Factory, server *rest.Config) *servingApproval {
	nodes, slices, services := informer.ResourceOf[*corev1.Node](), informer.ResourceOf[*discoveryv1.EndpointSlice](), informer.ResourceOf[*corev1.Service]()
	nodes.DropManagedFields, slices.DropManagedFields, services.DropManagedFields = true, true, true
	return &servingApproval{
		nodes:    informer.ListerFor[*corev1.Node](informers.Informer(nodes)),
		slices:   informer.ListerFor[*discoveryv1.EndpointSlice](informers.Informer(slices)),
		services: informer.ListerFor[*corev1.Service](informers.Informer(services)),
		server:   &serverNames{server: server},
	}
}

// waitForSync waits until all that decide looks at is known.
func (s *servingApproval) waitForSync(ctx context.Context) error {
	for _, all := range []*informer.Informer{s.nodes.Informer(), s.slices.Informer(), s.services.Informer()} {
		if err := all.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait has a request looked at again when its node changes: a kubelet asks as soon as it starts, and its Node, or the Node's addresses, may
// come later.
func (s *servingApproval) wait(node, request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		s.later = map[string]map[string]bool{}
	}
	if s.later[node] == nil {
		s.later[node] = map[string]bool{}
	}
	s.later[node][request] = true
}

// due returns the requests that wait for a node, once.
func (s *servingApproval) due(node string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.later[node]
	delete(s.later, node)
	return requests
}

// settled says that a request waits no longer.
func (s *servingApproval) settled(node, request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.later[node], request); len(s.later[node]) == 0 {
		delete(s.later, node)
	}
}

var (
	errNoAddress = errors.New("nobody asks for an address or name of its own")
	errLoopback  = errors.New("loopback addresses are everybody's")
)

func isOwnNodeServing(csr *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeletServingSignerName && kubeletServing(req, csr.Spec.Usages) == nil &&
		csr.Spec.Username == req.Subject.CommonName && slices.Contains(csr.Spec.Groups, "system:nodes")
}

// decide says what keeps a request from being approved, nil when nothing does.
func (s *servingApproval) decide(ctx context.Context, req *x509.CertificateRequest) error {
	name := strings.TrimPrefix(req.Subject.CommonName, "system:node:")
	node, err := s.nodes.Get("", name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no node %s", name) // it may come, so this is not the NotFound of a request that has gone
	}
	if err != nil {
		return err
	}
	if len(req.DNSNames)+len(req.IPAddresses) == 0 {
		return errNoAddress
	}
	for _, dns := range req.DNSNames {
		if dns != name {
			return fmt.Errorf("%q is not the name of node %s", dns, name)
		}
		if taken, err := s.isService(dns); err != nil || taken {
			return cmp.Or(err, fmt.Errorf("%q is the name of a service", dns))
		}
	}
	for _, ip := range req.IPAddresses {
		if ip.IsLoopback() || ip.IsUnspecified() {
			return errLoopback
		}
		if !hasAddress(node, ip) {
			return fmt.Errorf("%s is no address of node %s", ip, name)
		}
	}
	if err := s.others(name, req.IPAddresses); err != nil {
		return err
	}
	names := slices.Clone(req.DNSNames)
	for _, ip := range req.IPAddresses {
		names = append(names, ip.String())
	}
	taken, err := s.server.has(ctx, names...)
	if err == nil && taken != "" {
		err = fmt.Errorf("the certificate of the API server is for %s", taken)
	}
	return err
}

// others says who else has one of the addresses.
func (s *servingApproval) others(name string, ips []net.IP) error {
	nodes, err := s.nodes.List("", nil)
	if err != nil {
		return err
	}
	servers, err := s.slices.List(metav1.NamespaceDefault, labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: "kubernetes"}))
	if err != nil {
		return err
	}
	services, err := s.services.List("", nil)
	if err != nil {
		return err
	}
	for _, ip := range ips {
		is := func(address string) bool { return ip.Equal(net.ParseIP(address)) }
		for _, service := range services {
			if slices.ContainsFunc(service.Spec.ClusterIPs, is) {
				return fmt.Errorf("%s is the address of service %s/%s", ip, service.Namespace, service.Name)
			}
		}
		for _, node := range nodes {
			if node.Name != name && hasAddress(node, ip) {
				return fmt.Errorf("%s is an address of node %s as well", ip, node.Name)
			}
		}
		for _, slice := range servers {
			for _, endpoint := range slice.Endpoints {
				if slices.ContainsFunc(endpoint.Addresses, is) {
					return fmt.Errorf("%s is an address of an API server", ip)
				}
			}
		}
	}
	return nil
}

// isService says whether pods may find a Service by a name: NAME.NAMESPACE, NAME.NAMESPACE.svc and what begins with that, or NAME alone where
// that is everybody's word for something.
func (s *servingApproval) isService(name string) (bool, error) {
	service, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return name == "kubernetes" || name == "localhost", nil
	}
	namespace, rest, dotted := strings.Cut(rest, ".")
	if dotted && rest != "svc" && !strings.HasPrefix(rest, "svc.") {
		return false, nil
	}
	if dotted {
		return true, nil // also of one that is not there yet
	}
	_, err := s.services.Get(namespace, service)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func hasAddress(node *corev1.Node, ip net.IP) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return (a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP) && ip.Equal(net.ParseIP(a.Address))
	})
}
