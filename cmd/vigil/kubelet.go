package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"vigil/cluster"
	"vigil/cmd/vigil/upstream"
	"vigil/kubelet/node"
)

func newKubelet() *cobra.Command {
	var config node.Config
	var file kubeletFileFlags
	var object nodeFlags
	var logs logFlags
	var gates upstream.Gates
	var podCIDR string
	var real realFlags
	var leaseSeconds int
	command := &cobra.Command{
		Use:   "kubelet",
		Short: "Run a node alone",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			ignored, err := file.apply(command.Flags())
			if err != nil {
				return err
			}
			if config.Kubeconfig == "" {
				return errNoKubeconfig
			}
			if _, _, err := node.CheckRuntime(config.Runtime, config.Real); err != nil {
				return err
			}
			if podCIDR != "" {
				if config.PodCIDR, err = netip.ParsePrefix(podCIDR); err != nil {
					return fmt.Errorf("--pod-cidr: %w", err)
				}
			}
			config.LeaseDuration = time.Duration(leaseSeconds) * time.Second
			if err := errors.Join(real.apply(&config.Real), object.apply(&config)); err != nil {
				return err
			}
			if err := config.Check(); err != nil {
				return fmt.Errorf("failed to validate kubelet configuration, error: %w", err)
			}
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			if len(ignored) > 0 {
				config.Logger.Warn("the kubelet's configuration file has fields that have no effect; they are ignored", "fields", ignored)
			}
			return cluster.Alone(command.Context(), func(ctx context.Context) error { return cluster.RunKubeletAlone(ctx, config) })
		},
	}
	flags := command.Flags()
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	file.add(flags)
	flags.StringVar(&config.Kubeconfig, "kubeconfig", "", "API server and the node's client certificate")
	flags.StringVar(&config.BootstrapKubeconfig, "bootstrap-kubeconfig", "", "with which a certificate is asked for when --kubeconfig is not there yet")
	flags.StringVar(&config.CertDir, "cert-dir", "", "where certificates are kept that were asked for (default: pki beside --kubeconfig)")
	flags.BoolVar(&config.RotateCertificates, "rotate-certificates", false, "ask for a new client certificate before the present one ends; always on with --bootstrap-kubeconfig")
	flags.StringVar(&config.NodeName, "hostname-override", "", "name of the node (default: the host's name)")
	flags.StringVar(&podCIDR, "pod-cidr", "", "network of the pods of a simulated node (default: what its Node says, as with real ones)")
	flags.StringVar(&config.Runtime, "runtime", node.RuntimeAuto, "container runtime: auto, simulated or containerd")
	object.add(flags, &config)
	real.add(flags, &config.Real)
	flags.DurationVar(&config.StatusUpdateFrequency, "node-status-update-frequency", 10*time.Second, "how often the node's status is looked at")
	flags.DurationVar(&config.StatusReportFrequency, "node-status-report-frequency", 5*time.Minute, "how often an unchanged status is written")
	flags.IntVar(&leaseSeconds, "node-lease-duration-seconds", 40, "validity of the node's Lease, which is renewed every quarter of it")
	gates.Add(flags)
	logs.add(flags)
	withTable(command, upstream.Kubelet())
	return command
}
