package kubelet

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"

	"vigil/internal/protobufclient"
)

// clients are the groups of the API that a kubelet asks: a clientset has fifty, at half a kilobyte each and once for every node.
type clients interface {
	CoreV1() corev1.CoreV1Interface
	CoordinationV1() coordinationv1.CoordinationV1Interface
	NodeV1() nodev1.NodeV1Interface
}

var _ clients = kubernetes.Interface(nil)

// groups implements clients.
type groups struct {
	core         *corev1.CoreV1Client
	coordination *coordinationv1.CoordinationV1Client
	node         *nodev1.NodeV1Client
}

func (g *groups) CoreV1() corev1.CoreV1Interface                         { return g.core }
func (g *groups) CoordinationV1() coordinationv1.CoordinationV1Interface { return g.coordination }
func (g *groups) NodeV1() nodev1.NodeV1Interface                         { return g.node }

func newClients(config *rest.Config) (*groups, error) {
	config = protobufclient.Config(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	g := &groups{}
	if g.core, err = corev1.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}
	if g.coordination, err = coordinationv1.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}
	if g.node, err = nodev1.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}
	return g, nil
}

// oneConnection returns a configuration all of whose clients share one transport, whatever they ask for.
func oneConnection(config *rest.Config) (*rest.Config, error) {
	if config.Transport != nil {
		return config, nil
	}
	own := rest.CopyConfig(config)
	own.DisableCompression = true
	transport, err := rest.TransportFor(own)
	if err != nil {
		return nil, fmt.Errorf("make a transport: %w", err)
	}
	shared := rest.AnonymousClientConfig(config)
	shared.TLSClientConfig, shared.Transport, shared.QPS = rest.TLSClientConfig{}, transport, config.QPS
	shared.WarningHandler, shared.WarningHandlerWithContext = config.WarningHandler, config.WarningHandlerWithContext
	return shared, nil
}
