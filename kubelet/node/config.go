package node

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/warm"
	"vigil/kubelet/eviction"
)

// Config says how a node is run.
type Config struct {
	Kubeconfig            string // --kubeconfig, with the node's own certificate
	BootstrapKubeconfig   string // --bootstrap-kubeconfig, with which a certificate is asked for when Kubeconfig is not there
	CertDir               string // --cert-dir, for certificates that were asked for; "": pki beside Kubeconfig
	RotateCertificates    bool   // --rotate-certificates: ask for a new one in time, also without BootstrapKubeconfig
	NodeName              string // --hostname-override; "" is the host's name
	Runtime               string // RuntimeAuto, RuntimeSimulated or RuntimeContainerd; "": RuntimeAuto
	Real                  Real
	PodCIDR               netip.Prefix      // --pod-cidr of a simulated node; invalid: what its Node says, as with real ones
	Labels                map[string]string // --node-labels
	NoRegister            bool              // --register-node=false: the Node is made by somebody else
	Taints                []corev1.Taint    // --register-with-taints: of the Node when it is made
	ProviderID            string            // --provider-id: of the Node when it is made
	StatusUpdateFrequency time.Duration     // --node-status-update-frequency; 0: 10 s
	StatusReportFrequency time.Duration     // --node-status-report-frequency, of an unchanged status; 0: 5 min
	LeaseDuration         time.Duration     // --node-lease-duration-seconds; 0: 40 s
	Version               string            // of Kubernetes, which the node reports: "v1.37.2"
	Logger                *slog.Logger
	Workers               *warm.Pool // which the nodes of a process share; nil: each starts goroutines of its own
}

// Real is what a node with real containers works with; simulated ones have no use for it. The names are those of upstream's
// flags, and zero values are upstream's defaults.
type Real struct {
	// DataDir owns the node: its links, rules and cgroups carry its mark. NodeDir, by default nodes/NAME in it, has all of the
	// node's files.
	DataDir, NodeDir string

	RuntimeDir      string // --runtime-dir: containerd, runc ...; "": runtime beside this program
	RuntimeEndpoint string // --container-runtime-endpoint; "": a containerd of our own
	ImageEndpoint   string // --image-service-endpoint
	Registries      string // --registries, a file

	RootDir       string // --root-dir; "": kubelet in NodeDir
	PodLogDir     string // --pod-log-dir; "": logs in NodeDir
	CNIConfDir    string // --cni-conf-dir, of a runtime that is not ours
	StaticPodPath string // --pod-manifest-path
	CgroupRoot    string // --cgroup-root; "": one that belongs to DataDir and node

	RequestTimeout time.Duration // --runtime-request-timeout; 0: 2 minutes

	NodeIP netip.Addr // --node-ip; invalid: that of the interface with the default route
	Server Server

	ClusterDNS    []string // --cluster-dns
	ClusterDomain string   // --cluster-domain
	ResolvConf    string   // --resolv-conf

	MaxPods        int64             // --max-pods
	PodPidsLimit   int64             // --pod-max-pids
	SystemReserved map[string]string // --system-reserved
	KubeReserved   map[string]string // --kube-reserved
	PodsPerCore    int64             // --pods-per-core; 0: no bound
	Eviction       eviction.Flags    // --eviction-hard, --eviction-soft ...
	// EvictionTransition is how long pressure is shown after it was seen last (--eviction-pressure-transition-period), EvictionMaxPodGrace
	// how long a pod evicted for a soft threshold may take to end (--eviction-max-pod-grace-period).
	EvictionTransition, EvictionMaxPodGrace time.Duration
	UnsafeSysctls                           []string       // --allowed-unsafe-sysctls
	ClusterCIDRs                            []netip.Prefix // --cluster-cidr: pods of other nodes are reached within them; none: not known
	NetworkMode                             string         // --node-network-mode
	SeccompDefault                          bool           // --seccomp-default
	SerialPulls                             bool           // --serialize-image-pulls
	Images                                  Images
	NoCPUQuota                              bool          // --cpu-cfs-quota=false
	NoStorageLimits                         bool          // --local-storage-capacity-isolation=false: limits of ephemeral storage are not enforced
	FailSwapOn                              bool          // --fail-swap-on: do not run on a machine with swap
	VolumeStatsPeriod                       time.Duration // --volume-stats-agg-period: how often what is on disk is counted; 0: a minute
}

// withDefaults completes what is configured.
func (c Real) withDefaults(node string) (Real, error) {
	if c.NodeDir == "" {
		if c.DataDir == "" {
			return c, errors.New("--data-dir is empty")
		}
		c.NodeDir = Dir(c.DataDir, node)
	}
	if c.DataDir == "" {
		c.DataDir = c.NodeDir
	}
	for _, dir := range []*string{&c.DataDir, &c.NodeDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return c, err
		}
		*dir = absolute
	}
	if c.RuntimeDir == "" {
		c.RuntimeDir = Programs()
	}
	for _, it := range []struct {
		value *string
		usual string
	}{
		{&c.RootDir, filepath.Join(c.NodeDir, "kubelet")}, {&c.PodLogDir, filepath.Join(c.NodeDir, "logs")},
		{&c.CgroupRoot, Cgroup(c.DataDir, node)}, {&c.ClusterDomain, "cluster.local"}, {&c.ResolvConf, "/etc/resolv.conf"},
	} {
		if *it.value == "" {
			*it.value = it.usual
		}
	}
	return c, nil
}
