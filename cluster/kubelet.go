package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/internal/warm"
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
	PodCIDR               netip.Prefix      // --pod-cidr of a simulated node; invalid: what its Node says, as with real ones
	Labels                map[string]string // --node-labels
	NoRegister            bool              // --register-node=false: the Node is made by somebody else
	Taints                []corev1.Taint    // --register-with-taints: of the Node when it is made
	ProviderID            string            // --provider-id: of the Node when it is made
	StatusUpdateFrequency time.Duration     // --node-status-update-frequency; 0: 10 s
	StatusReportFrequency time.Duration     // --node-status-report-frequency, of an unchanged status; 0: 5 min
	LeaseDuration         time.Duration     // --node-lease-duration-seconds; 0: 40 s
	Logger                *slog.Logger
	Workers               *warm.Pool // which the nodes of a process share; nil: each starts goroutines of its own
}

// RunKubeletAlone runs the node of `vigil kubelet`. It marks the data directory as Vigil's, so that `vigil down` knows it; that of a `vigil up`, which
// runs at the same time, is marked already.
func RunKubeletAlone(ctx context.Context, config KubeletConfig) error {
	if kind, _, err := CheckRuntime(cmp.Or(config.Runtime, RuntimeAuto), config.Real); err == nil && kind != RuntimeSimulated {
		dir, err := openDataDir(cmp.Or(config.Real.DataDir, DefaultDataDir()))
		if err == nil {
			defer dir.Close()
		} else if !errors.Is(err, errInUse) {
			return err
		}
	}
	return RunKubelet(ctx, config)
}

// RunKubelet runs one node until ctx ends.
func RunKubelet(ctx context.Context, config KubeletConfig) error {
	run, err := PrepareKubelet(ctx, config)
	if err != nil {
		return quiet(err)
	}
	return run(ctx)
}

// PrepareKubelet does what comes before a node can run: its certificate, its client. Who has many nodes runs them in goroutines that
// have not done this: it leaves large stacks behind.
func PrepareKubelet(ctx context.Context, config KubeletConfig) (run func(ctx context.Context) error, err error) {
	if config.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("kubelet: %w", err)
		}
		config.NodeName = name
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if err := config.bootstrap(ctx); err != nil {
		return nil, err
	}
	server, err := pki.ClientConfig(config.Kubeconfig, config.Logger)
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", config.NodeName, err)
	}
	server.UserAgent = "kubelet"
	server.QPS = -1
	server.WarningHandler = rest.NoWarnings{}
	kind, why, err := CheckRuntime(cmp.Or(config.Runtime, RuntimeAuto), config.Real)
	if err != nil {
		return nil, err
	}
	config.Logger.Info("the kubelet starts", "node", config.NodeName, "runtime", kind, "why", why)
	if kind == RuntimeSimulated {
		run, err = config.simulated(server)
	} else {
		run = func(ctx context.Context) error { return quiet(config.runReal(ctx, server)) }
	}
	if err != nil || !config.RotateCertificates {
		return run, err
	}
	node := run // run itself is what is returned
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return node(ctx) })
		group.Go(func() error { return config.rotate(ctx) })
		return group.Wait()
	}, nil
}

// simulated makes a node without containers.
func (c *KubeletConfig) simulated(server *rest.Config) (run func(ctx context.Context) error, err error) {
	config := c.base(server)
	var k *kubelet.Kubelet
	config.Runtime = simulated.NewIn(func(ctx context.Context) (netip.Prefix, error) { return c.podNetwork(ctx, k) })
	config.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: nodeAddress().String()},
		{Type: corev1.NodeHostName, Address: c.NodeName},
	}
	config.System = corev1.NodeSystemInfo{OSImage: "simulated", KernelVersion: "simulated"}
	if k, err = kubelet.New(config); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return quiet(k.Run(ctx)) }, nil
}

// podNetworkPatience is how long the first pod of a simulated node waits for the node's network before it is tried again.
const podNetworkPatience = 10 * time.Second

// podNetwork is the network of a simulated node's pods.
func (c *KubeletConfig) podNetwork(ctx context.Context, k *kubelet.Kubelet) (netip.Prefix, error) {
	if c.PodCIDR.IsValid() {
		return c.PodCIDR, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podNetworkPatience)
	defer cancel()
	node, err := k.WaitForNode(ctx, func(node *corev1.Node) bool { return len(network.PodCIDRs(node)) > 0 })
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("pod network: %w", err)
	}
	return network.PodCIDRs(node)[0], nil
}

// base is what kubelets over any runtime have in common.
func (c *KubeletConfig) base(server *rest.Config) kubelet.Config {
	return kubelet.Config{
		Server: server, NodeName: c.NodeName, Logger: c.Logger, Version: apiserver.KubernetesVersion, Labels: c.Labels, Taints: c.Taints,
		ProviderID: c.ProviderID, NoRegister: c.NoRegister, Workers: c.Workers,
		StatusUpdateFrequency: c.StatusUpdateFrequency, StatusReportFrequency: c.StatusReportFrequency, LeaseDuration: c.LeaseDuration,
	}
}
