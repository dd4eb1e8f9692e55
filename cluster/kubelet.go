package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/kubelet"
	"vigil/kubelet/network"
	"vigil/kubelet/simulated"
	"vigil/pki"
)

// KubeletConfig says how a node is run.
type KubeletConfig struct {
	Kubeconfig            string // --kubeconfig, with the node's own certificate
	BootstrapKubeconfig   string // --bootstrap-kubeconfig, with which a certificate is asked for when Kubeconfig is not there
	CertDir               string // --cert-dir, for certificates that were asked for; "": pki beside Kubeconfig
	RotateCertificates    bool   // --rotate-certificates: ask for a new one in time, also without BootstrapKubeconfig
	NodeName              string // --hostname-override; "" is the host's name
	Runtime               string // RuntimeAuto, RuntimeSimulated or RuntimeContainerd; "": RuntimeAuto
	Real                  RealConfig
	PodCIDR               netip.Prefix // --pod-cidr of a simulated node; invalid: what its Node says, as with real ones
	Labels                map[string]string
	StatusUpdateFrequency time.Duration // --node-status-update-frequency
	LeaseDuration         time.Duration // --node-lease-duration-seconds; 0: 40 s
	Logger                *slog.Logger
}

// RunKubelet runs one node until ctx ends.
func RunKubelet(ctx context.Context, config KubeletConfig) error {
	if config.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("kubelet: %w", err)
		}
		config.NodeName = name
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if err := config.bootstrap(ctx); err != nil {
		return quiet(err)
	}
	server, err := pki.ClientConfig(config.Kubeconfig, config.Logger)
	if err != nil {
		return fmt.Errorf("kubelet %s: %w", config.NodeName, err)
	}
	server.UserAgent = "kubelet"
	server.QPS = -1
	server.WarningHandler = rest.NoWarnings{}
	kind, why, err := CheckRuntime(cmp.Or(config.Runtime, RuntimeAuto), config.Real)
	if err != nil {
		return err
	}
	config.Logger.Info("starting kubelet", "node", config.NodeName, "runtime", kind, "why", why)
	run := func(ctx context.Context) error { return config.runSimulated(ctx, server) }
	if kind != RuntimeSimulated {
		run = func(ctx context.Context) error { return config.runReal(ctx, server) }
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return quiet(run(ctx)) })
	if config.RotateCertificates {
		group.Go(func() error { return config.rotate(ctx) })
	}
	return group.Wait()
}

// runSimulated runs a node without containers.
func (c *KubeletConfig) runSimulated(ctx context.Context, server *rest.Config) error {
	config := c.base(server)
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		return err
	}
	config.Runtime = simulated.NewIn(func(ctx context.Context) (netip.Prefix, error) { return c.podNetwork(ctx, client) })
	config.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: nodeAddress().String()},
		{Type: corev1.NodeHostName, Address: c.NodeName},
	}
	config.System = corev1.NodeSystemInfo{OSImage: "simulated", KernelVersion: "simulated"}
	k, err := kubelet.New(config)
	if err != nil {
		return err
	}
	return k.Run(ctx)
}

// podNetworkPatience is how long the first pod of a simulated node waits for the node's network before it is tried again.
const podNetworkPatience = 10 * time.Second

// podNetwork is the network of a simulated node's pods.
func (c *KubeletConfig) podNetwork(ctx context.Context, client kubernetes.Interface) (netip.Prefix, error) {
	if c.PodCIDR.IsValid() {
		return c.PodCIDR, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podNetworkPatience)
	defer cancel()
	networks, err := network.WaitForPodCIDRs(ctx, client, c.NodeName)
	if err != nil {
		return netip.Prefix{}, err
	}
	return networks[0], nil
}

// base is what kubelets over any runtime have in common.
func (c *KubeletConfig) base(server *rest.Config) kubelet.Config {
	return kubelet.Config{
		Server: server, NodeName: c.NodeName, Logger: c.Logger, Version: apiserver.KubernetesVersion, Labels: c.Labels,
		StatusUpdateFrequency: c.StatusUpdateFrequency, LeaseDuration: c.LeaseDuration,
	}
}
