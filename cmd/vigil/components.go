package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vigil/cluster"
)

// errNoKubeconfig is the answer to a component that does not know its API server.
var errNoKubeconfig = errors.New("--kubeconfig is needed: it names the API server and holds the client certificate")

func newControllerManager() *cobra.Command {
	var config cluster.ControllerManagerConfig
	var networks podNetworkFlags
	var logs logFlags
	accounts := true
	command := &cobra.Command{
		Use:   "controller-manager",
		Short: "Run the controllers alone",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if config.Kubeconfig == "" {
				return errNoKubeconfig
			}
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			config.OwnIdentity = !accounts
			if config.PodNetworks, err = networks.config(); err != nil {
				return err
			}
			return cluster.Alone(command.Context(), func(ctx context.Context) error { return cluster.RunControllerManager(ctx, config) })
		},
	}
	flags := command.Flags()
	addComponent(flags, &config.ComponentConfig, cluster.ControllerManagerPort)
	flags.DurationVar(&config.NodeMonitorGracePeriod, "node-monitor-grace-period", 0, "how long a node may be silent before it is not ready (default 40s)")
	flags.BoolVar(&accounts, "use-service-account-credentials", true, "let each controller act as a service account of its own; otherwise all act as --kubeconfig says")
	flags.StringVar(&config.ClusterSigningCertFile, "cluster-signing-cert-file", "", "CA that signs what is asked for with CertificateSigningRequests, PEM; none are signed without it")
	flags.StringVar(&config.ClusterSigningKeyFile, "cluster-signing-key-file", "", "key of that CA, PEM")
	flags.DurationVar(&config.ClusterSigningDuration, "cluster-signing-duration", 365*24*time.Hour, "longest life of what it signs")
	networks.add(flags)
	flags.StringVar(&config.RootCAFile, "root-ca-file", "", "CA that is published to every namespace, PEM")
	logs.add(flags)
	return command
}

func newScheduler() *cobra.Command {
	var config cluster.ComponentConfig
	var logs logFlags
	command := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler alone",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if config.Kubeconfig == "" {
				return errNoKubeconfig
			}
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			return cluster.Alone(command.Context(), func(ctx context.Context) error { return cluster.RunScheduler(ctx, config) })
		},
	}
	addComponent(command.Flags(), &config, cluster.SchedulerPort)
	logs.add(command.Flags())
	return command
}

// addComponent adds the flags that controller manager and scheduler have in common.
func addComponent(flags *pflag.FlagSet, config *cluster.ComponentConfig, port int) {
	flags.StringVar(&config.Kubeconfig, "kubeconfig", "", "API server and client certificate")
	flags.StringVar(&config.BindAddress, "bind-address", "127.0.0.1", "address of health and metrics")
	flags.IntVar(&config.SecurePort, "secure-port", port, "port of health and metrics; 0 serves none")
	flags.StringVar(&config.TLSCertFile, "tls-cert-file", "", "serving certificate; one is made when empty")
	flags.StringVar(&config.TLSKeyFile, "tls-private-key-file", "", "key of the serving certificate")
	flags.StringVar(&config.ClientCAFile, "client-ca-file", "", "CAs of clients that may read metrics")
	flags.BoolVar(&config.LeaderElect, "leader-elect", true, "work only while holding the component's Lease in kube-system")
}
