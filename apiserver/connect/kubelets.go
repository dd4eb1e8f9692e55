package connect

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/pki"
)

// Kubelets says how kubelets are reached. The names are those of kube-apiserver's flags. Files are read again when they change.
type Kubelets struct {
	PreferredAddressTypes []string      // --kubelet-preferred-address-types; nil: Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP
	CertFile, KeyFile     string        // --kubelet-client-certificate, --kubelet-client-key; "": no certificate is shown
	CAFile                string        // --kubelet-certificate-authority; "": serving certificates are not checked, as upstream has it
	Timeout               time.Duration // --kubelet-timeout: for a connection, its handshake included; 0: 5 s
}

// DefaultKubeletPort is where a kubelet is whose Node does not say.
const DefaultKubeletPort = 10250

var defaultAddressTypes = []string{
	string(corev1.NodeHostName), string(corev1.NodeInternalDNS), string(corev1.NodeInternalIP),
	string(corev1.NodeExternalDNS), string(corev1.NodeExternalIP),
}

// simulatedRuntime begins the runtime version of nodes without containers.
const simulatedRuntime = "simulated://"

// kubelets finds kubelets and keeps the connections to them.
type kubelets struct {
	config Kubelets
	pair   *pki.KeyPair // nil: none
	ca     *pki.Bundle  // nil: none

	loopback bool

	mu         sync.Mutex
	transports map[kind]*connections
	swept      time.Time
}

func newKubelets(config Kubelets, loopback bool, log *slog.Logger) (*kubelets, error) {
	if len(config.PreferredAddressTypes) == 0 {
		config.PreferredAddressTypes = defaultAddressTypes
	}
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Second
	}
	k := &kubelets{config: config, loopback: loopback, transports: map[kind]*connections{}}
	var err error
	if config.CertFile != "" {
		if k.pair, err = pki.NewKeyPair(config.CertFile, config.KeyFile, log); err != nil {
			return nil, fmt.Errorf("client certificate for kubelets: %w", err)
		}
	}
	if config.CAFile != "" {
		if k.ca, err = pki.NewBundle(config.CAFile, log); err != nil {
			return nil, fmt.Errorf("authority of kubelets: %w", err)
		}
	}
	return k, nil
}

// guard says what may be connected to for a node; own says that it may be this machine. A kubelet of this machine whose node has another name is found at its
// usual port.
func (k *kubelets) guard(own bool) guard {
	own = own || k.loopback
	return guard{loopback: own, own: own, kubelet: true}
}

// kubelet is where one kubelet is.
type kubelet struct {
	node       string
	host, port string
	own        bool // it may be on this machine
}

func (k kubelet) url(path string, query url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(k.host, k.port), Path: path, RawQuery: query.Encode()}
}

// kubelet finds the kubelet of a node by the Node's addresses and port.
func (c *Connector) kubelet(ctx context.Context, name string) (kubelet, error) {
	obj, err := c.config.Objects.Find(ctx, schema.GroupResource{Resource: "nodes"}, "", name)
	if err != nil {
		return kubelet{}, err
	}
	node := obj.(*corev1.Node)
	if strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, simulatedRuntime) {
		return kubelet{}, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Message: fmt.Sprintf("node %s is simulated: it has no containers and no kubelet to ask", name),
		}}
	}
	host, err := preferredAddress(node, c.kubelets.config.PreferredAddressTypes)
	if err != nil {
		return kubelet{}, err
	}
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port <= 0 {
		port = DefaultKubeletPort
	}
	k := kubelet{name, host, strconv.Itoa(port), slices.Contains(c.config.OwnNodes, name) || namedAsMachine(name)}
	if ip, err := netip.ParseAddr(host); err == nil && c.kubelets.guard(k.own).check(netip.AddrPortFrom(ip, uint16(port))) != nil {
		return kubelet{}, apierrors.NewBadRequest(errAddress.Error())
	}
	return k, nil
}

func preferredAddress(node *corev1.Node, types []string) (string, error) {
	for _, wanted := range types {
		for _, a := range node.Status.Addresses {
			if string(a.Type) == wanted {
				return a.Address, nil
			}
		}
	}
	return "", fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}
