package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"vigil/cluster"
	"vigil/kubelet/eviction"
	"vigil/kubelet/node"
)

// realFlags are the flags of nodes with real containers, those of upstream's kubelet where it has them.
type realFlags struct {
	nodeIP, clusterCIDR            string
	hard, soft, softGrace, reclaim string
	maxPodGrace                    int64 // s
	enforce                        []string
	minTLS                         string
	ciphers                        []string
	tokens, serve, rotateServing   bool
	cpuQuota, storageLimits        bool
	authorization                  string
	flags                          *pflag.FlagSet
}

// add registers the flags that concern a node of its own.
func (f *realFlags) add(flags *pflag.FlagSet, c *node.Real) {
	f.addShared(flags, c)
	flags.StringVar(&c.DataDir, "data-dir", cluster.DefaultDataDir(), "data directory that the node belongs to; vigil down and reset know it by that")
	flags.StringVar(&c.NodeDir, "node-dir", "", "where everything of the node is kept (default: nodes/NAME in --data-dir)")
	flags.StringVar(&c.RuntimeEndpoint, "container-runtime-endpoint", "", "socket of a container runtime that runs already, unix:///run/...; default: a containerd of our own")
	flags.StringVar(&c.ImageEndpoint, "image-service-endpoint", "", "socket of the image service, if it is another one")
	flags.StringVar(&c.RootDir, "root-dir", "", "where pods' volumes are (default: kubelet in --node-dir)")
	flags.StringVar(&c.PodLogDir, "pod-log-dir", "", "where containers' logs are (default: logs in --node-dir)")
	flags.StringVar(&c.CNIConfDir, "cni-conf-dir", "", "where a runtime that is not ours looks for its network configuration (default /etc/cni/net.d)")
	flags.StringVar(&c.CgroupRoot, "cgroup-root", "", "cgroup that pods are in (default: one that belongs to --node-dir)")
	flags.StringVar(&f.nodeIP, "node-ip", "", "address of the node (default: that of the interface with the default route)")
	flags.StringVar(&f.clusterCIDR, "cluster-cidr", "", "network of all pods, or one IPv4 and one IPv6, with a comma between: no packets are sent to pod networks outside of it (default: to none larger than this node's, and to no public ones unless this node's is)")
	flags.DurationVar(&c.RequestTimeout, "runtime-request-timeout", 2*time.Minute, "bound of requests to the container runtime but for pulls and what runs in containers")
	flags.BoolVar(&c.FailSwapOn, "fail-swap-on", false, "do not run on a machine that swaps")
	f.addServer(flags, &c.Server)
}

// addServer registers the flags of the kubelet's server.
func (f *realFlags) addServer(flags *pflag.FlagSet, s *node.Server) {
	flags.BoolVar(&f.serve, "enable-server", true, "serve what the API server asks a node for: logs, exec, metrics ...")
	flags.StringVar(&s.Address, "address", "", "address that the kubelet's server listens on (default: all)")
	flags.IntVar(&s.Port, "port", 10250, "port of the kubelet's server")
	flags.StringVar(&s.CertFile, "tls-cert-file", "", "serving certificate of the kubelet's server")
	flags.StringVar(&s.KeyFile, "tls-private-key-file", "", "its key")
	flags.StringVar(&f.minTLS, "tls-min-version", "", "least TLS version: VersionTLS12 (default) or VersionTLS13")
	flags.StringSliceVar(&f.ciphers, "tls-cipher-suites", nil, "cipher suites of TLS 1.2")
	flags.BoolVar(&f.rotateServing, "rotate-server-certificates", true, "ask for a serving certificate, and again in time, when --tls-cert-file gives none; otherwise one is made that nobody else has signed")
	flags.StringVar(&s.ClientCAFile, "client-ca-file", "", "authorities that sign the clients of the kubelet's server")
	flags.BoolVar(&s.Anonymous, "anonymous-auth", false, "let requests to the kubelet's server come without credentials, as system:anonymous")
	flags.BoolVar(&f.tokens, "authentication-token-webhook", true, "ask the API server whose the tokens of requests are; otherwise only client certificates count")
	flags.StringVar(&f.authorization, "authorization-mode", "Webhook", "who may do what: Webhook asks the API server, AlwaysAllow nobody")
	flags.StringVar(&s.HealthzAddress, "healthz-bind-address", "127.0.0.1", "address of /healthz without TLS")
	flags.IntVar(&s.HealthzPort, "healthz-port", node.HealthzPort, "port of /healthz without TLS; 0: none")
}

// applyServer puts what needs parsing into the server's configuration.
func (f *realFlags) applyServer(s *node.Server) error {
	s.Off, s.NoTokens, s.SelfSigned, s.AllowAll = !f.serve, !f.tokens, !f.rotateServing, false
	switch f.authorization {
	case "Webhook":
	case "AlwaysAllow":
		s.AllowAll = true
	default:
		return fmt.Errorf("--authorization-mode: unknown authorization mode %q", f.authorization)
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	}
	return parseTLS(f.minTLS, f.ciphers, &s.TLSMinVersion, &s.TLSCipherSuites)
}

// addShared registers the flags that `vigil up` has, too.
func (f *realFlags) addShared(flags *pflag.FlagSet, c *node.Real) {
	f.flags = flags
	flags.StringVar(&c.RuntimeDir, "runtime-dir", "", "programs of the container runtime (default: runtime beside this program)")
	flags.StringVar(&c.Registries, "registries", "", "file with mirrors, certificates and credentials of image registries")
	flags.StringVar(&c.StaticPodPath, "pod-manifest-path", "", "directory of pods that run on the node whatever the API server says")
	flags.StringSliceVar(&c.ClusterDNS, "cluster-dns", nil, "addresses of the name servers that pods ask")
	flags.StringVar(&c.ClusterDomain, "cluster-domain", "cluster.local", "domain of services' names")
	flags.StringVar(&c.ResolvConf, "resolv-conf", "/etc/resolv.conf", "file that the node resolves names with")
	flags.Int64Var(&c.MaxPods, "max-pods", 110, "how many pods a node runs at most")
	flags.Int64Var(&c.PodPidsLimit, "pod-max-pids", -1, "how many processes a pod may have; -1: no limit")
	flags.StringToStringVar(&c.SystemReserved, "system-reserved", nil, "what is kept for the system: cpu=200m,memory=500Mi ...")
	flags.StringToStringVar(&c.KubeReserved, "kube-reserved", nil, "what is kept for the kubelet and the runtime")
	flags.StringVar(&f.hard, "eviction-hard", "", "thresholds of eviction: memory.available<100Mi,nodefs.available<10% ... (default: upstream's)")
	flags.StringVar(&f.soft, "eviction-soft", "", "thresholds that must be met for a while")
	flags.StringVar(&f.softGrace, "eviction-soft-grace-period", "", "for how long: memory.available=1m30s ...")
	flags.DurationVar(&c.EvictionTransition, "eviction-pressure-transition-period", 5*time.Minute, "how long a node shows pressure after it was seen last")
	flags.Int64Var(&f.maxPodGrace, "eviction-max-pod-grace-period", 0, "seconds that a pod evicted for a soft threshold may take to end")
	flags.Int64Var(&c.PodsPerCore, "pods-per-core", 0, "how many pods a node runs at most for each of its processors; 0: no bound")
	flags.StringVar(&f.reclaim, "eviction-minimum-reclaim", "", "what is taken back at least: imagefs.available=2Gi ...")
	flags.StringSliceVar(&f.enforce, "enforce-node-allocatable", []string{"pods"}, "what is bounded by cgroups: pods or none")
	flags.StringSliceVar(&c.UnsafeSysctls, "allowed-unsafe-sysctls", nil, "kernel parameters that pods may set beside the safe ones; kernel.msg* stands for all that begin so")
	flags.StringVar(&c.NetworkMode, "node-network-mode", "auto", "how packets reach pods of other nodes: auto, host-gw, vxlan or none")
	flags.BoolVar(&c.SeccompDefault, "seccomp-default", false, "filter system calls of containers that say nothing about it")
	flags.BoolVar(&c.SerialPulls, "serialize-image-pulls", false, "pull images one after another")
	addImageFlags(flags, &c.Images)
	flags.BoolVar(&f.cpuQuota, "cpu-cfs-quota", true, "enforce limits of cpu")
	flags.BoolVar(&f.storageLimits, "local-storage-capacity-isolation", true, "enforce limits of ephemeral storage")
	flags.DurationVar(&c.VolumeStatsPeriod, "volume-stats-agg-period", time.Minute, "how often what pods have on disk is counted")
}

// apply puts what needs parsing into the configuration.
func (f *realFlags) apply(c *node.Real) (err error) {
	if c.ClusterCIDRs, err = parseNetworks("--cluster-cidr", f.clusterCIDR); err != nil {
		return err
	}
	if f.nodeIP != "" {
		if c.NodeIP, err = netip.ParseAddr(f.nodeIP); err != nil {
			return fmt.Errorf("--node-ip: %w", err)
		}
	}
	c.NoCPUQuota, c.NoStorageLimits = !f.cpuQuota, !f.storageLimits
	if f.flags.Lookup("enable-server") != nil {
		if err := f.applyServer(&c.Server); err != nil {
			return err
		}
	}
	c.EvictionMaxPodGrace = time.Duration(f.maxPodGrace) * time.Second
	for _, it := range []struct {
		flag, value, separator string
		into                   *map[string]string
	}{
		{"eviction-hard", f.hard, "<", &c.Eviction.Hard}, {"eviction-soft", f.soft, "<", &c.Eviction.Soft},
		{"eviction-soft-grace-period", f.softGrace, "=", &c.Eviction.SoftGracePeriod}, {"eviction-minimum-reclaim", f.reclaim, "=", &c.Eviction.MinimumReclaim},
	} {
		if it.value == "" {
			if f.flags.Changed(it.flag) {
				*it.into = map[string]string{} // none, not the default ones
			}
			continue
		}
		if *it.into, err = pairs(it.value, it.separator); err != nil {
			return fmt.Errorf("--%s: %w", it.flag, err)
		}
	}
	c.Eviction.NoPodsEnforced = true
	for _, what := range f.enforce {
		switch what {
		case "pods":
			c.Eviction.NoPodsEnforced = false
		case "none", "":
		default:
			return fmt.Errorf("--enforce-node-allocatable: %s is not known; use pods or none", what)
		}
	}
	_, err = eviction.Parse(c.Eviction)
	return err
}

// pairs reads "name<value,name<value".
func pairs(text, separator string) (map[string]string, error) {
	read := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, separator)
		if !found {
			return nil, fmt.Errorf("%q is not of the form NAME%sVALUE", part, separator)
		}
		read[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return read, nil
}
