package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"vigil/kubelet/containerd"
	"vigil/kubelet/eviction"
)

// RuntimeContainerd runs real containers, by a containerd that Vigil starts, or by what is at RealConfig.RuntimeEndpoint.
const RuntimeContainerd = "containerd"

// RealConfig is what a node with real containers works with; simulated ones have no use for it. The names are those of upstream's
// flags, and zero values are upstream's defaults.
type RealConfig struct {
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
	Server NodeServer

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
	Images                                  NodeImages
	NoCPUQuota                              bool          // --cpu-cfs-quota=false
	NoStorageLimits                         bool          // --local-storage-capacity-isolation=false: limits of ephemeral storage are not enforced
	FailSwapOn                              bool          // --fail-swap-on: do not run on a machine with swap
	VolumeStatsPeriod                       time.Duration // --volume-stats-agg-period: how often what is on disk is counted; 0: a minute
}

// nodeDir is where everything is that belongs to a node of a data directory.
func nodeDir(dataDir, node string) string { return filepath.Join(dataDir, "nodes", node) }

// clusterCgroup is the cgroup that all nodes of a data directory are in, nodeCgroup that of one.
func clusterCgroup(dataDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return "/vigil-" + hex.EncodeToString(sum[:4])
}

func nodeCgroup(dataDir, node string) string { return clusterCgroup(dataDir) + "/" + node }

func (c RealConfig) withDefaults(node string) (RealConfig, error) {
	if c.NodeDir == "" {
		if c.DataDir == "" {
			c.DataDir = DefaultDataDir()
		}
		c.NodeDir = nodeDir(c.DataDir, node)
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
		c.RuntimeDir = programs()
	}
	for _, it := range []struct {
		value *string
		usual string
	}{
		{&c.RootDir, filepath.Join(c.NodeDir, "kubelet")}, {&c.PodLogDir, filepath.Join(c.NodeDir, "logs")},
		{&c.CgroupRoot, nodeCgroup(c.DataDir, node)}, {&c.ClusterDomain, "cluster.local"}, {&c.ResolvConf, "/etc/resolv.conf"},
	} {
		if *it.value == "" {
			*it.value = it.usual
		}
	}
	return c, nil
}

// programs is where the container runtime's programs are when nobody says otherwise: in the folder runtime beside this program.
func programs() string {
	if self, err := os.Executable(); err == nil {
		return filepath.Join(filepath.Dir(self), "runtime")
	}
	return "runtime"
}

// CheckRuntime says which runtime a wish leads to and why, or what is wrong with the wish. Real containers need Linux, root and either
// the programs of `make runtime` or the endpoint of a runtime.
func CheckRuntime(wish string, real RealConfig) (kind, why string, err error) {
	switch wish {
	case RuntimeSimulated:
		return RuntimeSimulated, "as asked for", nil
	case RuntimeAuto, RuntimeContainerd:
	default:
		return "", "", fmt.Errorf("--runtime %s is not known; use auto, simulated or containerd", wish)
	}
	if err := canRun(real); err != nil {
		if wish == RuntimeContainerd {
			return "", "", fmt.Errorf("--runtime containerd: %w", err)
		}
		return RuntimeSimulated, err.Error(), nil
	}
	return RuntimeContainerd, "", nil
}

func canRun(real RealConfig) error {
	switch {
	case runtime.GOOS != "linux":
		return errors.New("real containers need Linux")
	case os.Geteuid() != 0:
		return errors.New("real containers need root")
	case real.RuntimeEndpoint != "":
		return nil
	}
	dir := real.RuntimeDir
	if dir == "" {
		dir = programs()
	}
	if _, err := os.Stat(filepath.Join(dir, "containerd")); err != nil {
		return fmt.Errorf("there is no container runtime in %s: `make runtime` builds one", dir)
	}
	return containerd.Supported()
}

// part is something that runs beside a kubelet for as long as it does.
type part struct {
	name string
	run  func(ctx context.Context) error
}
