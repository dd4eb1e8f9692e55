package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"vigil/cluster"
	"vigil/cmd/vigil/upstream"
)

// errNoKubeconfig is the answer to a component that does not know its API server.
var errNoKubeconfig = errors.New("--kubeconfig is needed: it names the API server and holds the client certificate")

// withTable gives a command the flags of upstream's component that it does not have itself, and groups its help.
func withTable(command *cobra.Command, table []upstream.Section) {
	upstream.Add(command.Flags(), table)
	upstream.Help(command, table)
}

func newControllerManager() *cobra.Command {
	var config cluster.ControllerManagerConfig
	var networks podNetworkFlags
	var common componentFlags
	accounts := true
	command := &cobra.Command{
		Use:   "controller-manager",
		Short: "Run the controllers alone",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if err := common.apply(); err != nil {
				return err
			}
			config.OwnIdentity = !accounts
			if config.PodNetworks, err = networks.config(); err != nil {
				return err
			}
			if config.TerminatedPodGCThreshold <= 0 {
				config.TerminatedPodGCThreshold = -1
			}
			return cluster.Alone(command.Context(), func(ctx context.Context) error { return cluster.RunControllerManager(ctx, config) })
		},
	}
	flags := command.Flags()
	common.add(flags, &config.ComponentConfig, "kube-controller-manager", cluster.ControllerManagerPort)
	flags.DurationVar(&config.NodeMonitorGracePeriod, "node-monitor-grace-period", 0, "how long a node may be silent before it is not ready (default 40s)")
	flags.IntVar(&config.TerminatedPodGCThreshold, "terminated-pod-gc-threshold", 12500, "how many pods that have ended are kept before the oldest are deleted; 0 keeps all")
	flags.BoolVar(&accounts, "use-service-account-credentials", true, "let each controller act as a service account of its own; otherwise all act as --kubeconfig says")
	flags.StringVar(&config.ClusterSigningCertFile, "cluster-signing-cert-file", "", "CA that signs what is asked for with CertificateSigningRequests, PEM; none are signed without it")
	flags.StringVar(&config.ClusterSigningKeyFile, "cluster-signing-key-file", "", "key of that CA, PEM")
	flags.DurationVar(&config.ClusterSigningDuration, "cluster-signing-duration", 365*24*time.Hour, "longest life of what it signs")
	flags.StringSliceVar(&config.Controllers, "controllers", cluster.DefaultControllers(), "controllers that run: * stands for those on by default, NAME turns one on, -NAME off; names are upstream's")
	networks.add(flags)
	flags.StringVar(&config.ServiceAccountPrivateKeyFile, "service-account-private-key-file", "", "key that signs the tokens that Secrets hold, PEM; they get none without it")
	flags.DurationVar(&config.LegacyTokenCleanUpPeriod, "legacy-service-account-token-clean-up-period", 365*24*time.Hour, "how long a token that was made for a service account is unused until it is marked invalid, and then until it is deleted")
	flags.StringVar(&config.RootCAFile, "root-ca-file", "", "CA that is published to every namespace, PEM")
	withTable(command, upstream.ControllerManager())
	return command
}

func newScheduler() *cobra.Command {
	var config cluster.SchedulerConfig
	var common componentFlags
	var file schedulerFileFlags
	command := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler alone",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			read, err := file.apply(command.Flags())
			if err != nil {
				return err
			}
			if err := file.finish(read, common.profiling, &config); err != nil {
				return err
			}
			if file.writeTo != "" {
				return file.write(read)
			}
			if file.file != "" && config.Kubeconfig == "" {
				return errNoKubeconfigInFile
			}
			if err := common.apply(); err != nil {
				return err
			}
			return cluster.Alone(command.Context(), func(ctx context.Context) error { return cluster.RunScheduler(ctx, config) })
		},
	}
	common.add(command.Flags(), &config.ComponentConfig, "kube-scheduler", cluster.SchedulerPort)
	file.add(command.Flags())
	withTable(command, upstream.Scheduler())
	return command
}

// componentFlags are the flags that controller manager and scheduler have in common.
type componentFlags struct {
	config    *cluster.ComponentConfig
	serving   servingFlags
	logs      logFlags
	gates     upstream.Gates
	profiling bool
}

// add adds them. name is the component's at upstream.
func (f *componentFlags) add(flags *pflag.FlagSet, config *cluster.ComponentConfig, name string, port int) {
	f.config = config
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.StringVar(&config.Kubeconfig, "kubeconfig", "", "API server and client certificate")
	flags.StringVar(&config.Master, "master", "", "URL of the API server, instead of that of --kubeconfig")
	flags.Float32Var(&config.QPS, "kube-api-qps", 0, "requests a second to the API server; 0: as many as it lets in")
	flags.IntVar(&config.Burst, "kube-api-burst", 30, "requests at once before --kube-api-qps holds")
	flags.StringVar(&config.BindAddress, "bind-address", "127.0.0.1", "address of health and metrics")
	flags.IntVar(&config.SecurePort, "secure-port", port, "port of health and metrics; 0 serves none")
	f.serving.add(flags, &config.Serving, "")
	addAccess(flags, &config.Access)
	addElection(flags, &config.Election, name)
	flags.BoolVar(&f.profiling, "profiling", true, "serve profiles at /debug/pprof/")
	flags.BoolVar(&config.Contention, "contention-profiling", false, "profile where goroutines wait for each other, too")
	f.gates.Add(flags)
	f.logs.add(flags)
}

// apply checks what was given and puts it into the configuration.
func (f *componentFlags) apply() (err error) {
	if f.config.Kubeconfig == "" {
		return errNoKubeconfig
	}
	f.config.NoProfiling = !f.profiling
	if err := f.serving.fill(&f.config.Serving); err != nil {
		return err
	}
	f.config.Logger, err = f.logs.logger()
	return err
}
