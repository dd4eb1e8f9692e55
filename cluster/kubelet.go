package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
	"vigil/pki"
)

// KubeletConfig says how a node is run.
type KubeletConfig struct {
	Kubeconfig            string       // --kubeconfig, with the node's own certificate
	BootstrapKubeconfig   string       // --bootstrap-kubeconfig, with which a certificate is asked for when Kubeconfig is not there
	CertDir               string       // --cert-dir, for certificates that were asked for; "": pki beside Kubeconfig
	RotateCertificates    bool         // --rotate-certificates: ask for a new one in time, also without BootstrapKubeconfig
	NodeName              string       // --hostname-override; "" is the host's name
	PodCIDR               netip.Prefix // --pod-cidr; invalid: 10.244.0.0/24
	Labels                map[string]string
	StatusUpdateFrequency time.Duration // --node-status-update-frequency
	LeaseDuration         time.Duration // --node-lease-duration-seconds; 0: 40 s
	Logger                *slog.Logger
}

// RunKubelet runs one node over the simulated runtime until ctx ends.
func RunKubelet(ctx context.Context, config KubeletConfig) error {
	if config.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("kubelet: %w", err)
		}
		config.NodeName = name
	}
	if !config.PodCIDR.IsValid() {
		config.PodCIDR = netip.MustParsePrefix("10.244.0.0/24")
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
	address := hostAddress()
	if !address.IsValid() {
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	k, err := kubelet.New(kubelet.Config{
		Server:   server,
		NodeName: config.NodeName,
		Runtime:  simulated.New(config.PodCIDR),
		Logger:   config.Logger,
		Version:  apiserver.KubernetesVersion,
		Labels:   config.Labels,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address.String()},
			{Type: corev1.NodeHostName, Address: config.NodeName},
		},
		System:                corev1.NodeSystemInfo{OSImage: "simulated", KernelVersion: "simulated"},
		StatusUpdateFrequency: config.StatusUpdateFrequency,
		LeaseDuration:         config.LeaseDuration,
	})
	if err != nil {
		return err
	}
	if !config.RotateCertificates {
		return quiet(k.Run(ctx))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return quiet(k.Run(ctx)) })
	group.Go(func() error { return config.rotate(ctx) })
	return group.Wait()
}
