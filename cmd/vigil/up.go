package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"vigil/cluster"
	"vigil/cmd/vigil/upstream"
	"vigil/kubelet/node"
)

// upDefaults are what `vigil up` has other defaults for than upstream: such a cluster is not alone on its machine, and neither evicts
// pods nor looks for images to remove because somebody else fills the disk to 85 %.
var upDefaults = map[string]string{
	"eviction-hard":           "memory.available<100Mi,nodefs.available<5%,nodefs.inodesFree<5%,imagefs.available<5%,imagefs.inodesFree<5%",
	"image-gc-high-threshold": "95",
	"image-gc-low-threshold":  "90",
}

func newUp() *cobra.Command {
	config := cluster.UpConfig{Out: os.Stdout, Program: os.Args[0]}
	var server apiServerFlags
	var real realFlags
	var merge bool
	var leaseSeconds int
	var clusterCIDR string
	var logs logFlags
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster in this process: etcd, control plane, nodes",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if err := real.apply(&config.Real); err != nil {
				return err
			}
			config.NodeLeaseDuration = time.Duration(leaseSeconds) * time.Second
			if config.APIServer, err = server.config(); err != nil {
				return err
			}
			if config.ClusterCIDRs, err = parseNetworks("--cluster-cidr", clusterCIDR); err != nil {
				return err
			}
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			if merge {
				config.MergeInto = cluster.DefaultKubeconfig()
			}
			return cluster.Up(command.Context(), config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.DataDir, "data-dir", cluster.DefaultDataDir(), "where everything is kept")
	flags.IntVar(&config.Nodes, "nodes", 1, "number of nodes")
	flags.StringVar(&config.Runtime, "runtime", node.RuntimeAuto, "container runtime of the nodes: auto, simulated or containerd")
	flags.StringVar(&clusterCIDR, "cluster-cidr", "", "network of all pods, or one IPv4 and one IPv6, with a comma between (default 10.244.0.0/16)")
	flags.BoolVar(&merge, "merge-kubeconfig", false, "add the cluster to ~/.kube/config as context "+cluster.ContextName)
	flags.IntVar(&config.EtcdPort, "etcd-port", 2379, "client port of the embedded etcd, its peer port is the next one; 0 takes free ones")
	flags.IntVar(&config.ControllerManagerPort, "controller-manager-port", cluster.ControllerManagerPort, "health and metrics of the controllers; 0 serves none")
	flags.IntVar(&config.SchedulerPort, "scheduler-port", cluster.SchedulerPort, "health and metrics of the scheduler; 0 serves none")
	flags.DurationVar(&config.NodeMonitorGracePeriod, "node-monitor-grace-period", 0, "how long a node may be silent before it is not ready (default 40s)")
	flags.DurationVar(&config.NodeStatusUpdateFrequency, "node-status-update-frequency", 0, "how often kubelets look at their node's status (default 10s)")
	flags.IntVar(&leaseSeconds, "node-lease-duration-seconds", 40, "validity of the nodes' Leases, which are renewed every quarter of it")
	flags.DurationVar(&config.CertificateLife, "certificate-life", 0, "how long certificates are good; they are renewed in time (default: a year)")
	real.addShared(flags, &config.Real)
	for name, value := range upDefaults {
		flag := flags.Lookup(name)
		if err := flag.Value.Set(value); err != nil {
			panic(fmt.Sprintf("default of --%s: %v", name, err))
		}
		flag.DefValue = value
	}
	server.serving.addTLS(flags, &server.given.Config)
	server.add(flags, "127.0.0.1")
	logs.add(flags)
	upstream.Help(command, upstream.Up())
	return command
}
