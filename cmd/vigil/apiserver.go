package main

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	cliflag "k8s.io/component-base/cli/flag"

	"vigil/cluster"
	"vigil/cmd/vigil/upstream"
)

func newAPIServer() *cobra.Command {
	var server apiServerFlags
	var logs logFlags
	command := &cobra.Command{
		Use:   "apiserver",
		Short: "Run an API server alone, on an etcd that runs elsewhere",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := server.config()
			if err != nil {
				return err
			}
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			if len(config.EtcdServers) == 0 {
				return fmt.Errorf("--etcd-servers is needed: an API server keeps nothing itself")
			}
			return cluster.RunAPIServer(command.Context(), config)
		},
	}
	flags := command.Flags()
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	server.serving.add(flags, &server.given.Config, "/var/run/kubernetes")
	server.add(flags, "0.0.0.0")
	flags.StringVar(&server.given.ClientCAFile, "client-ca-file", "", "CAs that sign client certificates, PEM")
	logs.add(flags)
	withTable(command, upstream.APIServer())
	return command
}

// apiServerFlags are the flags that `vigil up` and `vigil apiserver` have in common, with kube-apiserver's names.
type apiServerFlags struct {
	given cluster.APIServerConfig

	watchCache       bool
	watchCacheSizes  []string
	advertiseAddress string
	serviceRanges    []string
	nodePorts        string
	minTimeout       int // seconds
	listBytes        string
	listBytesPerUser string
	fairness         bool
	extendTokens     bool

	notReadySeconds, unreachableSeconds int64
	profiling                           bool

	serving        servingFlags
	authentication authenticationFlags
	gates          upstream.Gates
	versions       upstream.RuntimeConfig
}

func (f *apiServerFlags) add(flags *pflag.FlagSet, bind string) {
	c := &f.given
	flags.StringVar(&c.BindAddress, "bind-address", bind, "address to listen on")
	flags.IntVar(&c.SecurePort, "secure-port", 6443, "port to listen on")
	flags.StringVar(&f.advertiseAddress, "advertise-address", "", "address under which pods reach the server (default: --bind-address, or one of this machine)")
	flags.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "URLs of a remote etcd, comma separated")
	flags.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "CA of the remote etcd")
	flags.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "client certificate for the remote etcd")
	flags.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "key of the client certificate for the remote etcd")
	flags.StringVar(&c.EtcdPrefix, "etcd-prefix", "/registry", "prefix of all keys in etcd")
	flags.DurationVar(&c.EtcdCompactionInterval, "etcd-compaction-interval", 5*time.Minute, "time between compactions of etcd's history; 0 never compacts")
	flags.BoolVar(&f.watchCache, "watch-cache", true, "serve lists and watches from memory; this server has no other way")
	flags.StringSliceVar(&f.watchCacheSizes, "watch-cache-sizes", nil, "least number of events kept for a resource: pods#1000,deployments.apps#500")
	flags.IntVar(&c.MaxRequestsInflight, "max-requests-inflight", 400, "reads under way beyond which requests get 429; 0 is no limit")
	flags.IntVar(&c.MaxMutatingRequestsInflight, "max-mutating-requests-inflight", 200, "writes under way beyond which requests get 429; 0 is no limit")
	flags.BoolVar(&f.fairness, "enable-priority-and-fairness", true, "share the requests under way out by FlowSchemas and PriorityLevelConfigurations; otherwise the two limits above bound reads and writes each")
	flags.StringVar(&f.listBytes, "max-list-bytes-inflight", "256Mi", "memory that lists under way may hold between cache and sockets; more wait")
	flags.StringVar(&f.listBytesPerUser, "max-list-bytes-inflight-per-user", "", "the same for the lists of one user (default: a quarter of it)")
	flags.Float64Var(&c.GoawayChance, "goaway-chance", 0, "probability, at most 0.02, that a request over HTTP/2 has its connection drained, so that clients spread over several servers")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", time.Minute, "bound of requests that are not watches")
	flags.IntVar(&f.minTimeout, "min-request-timeout", 1800, "least duration of a watch that names none, in seconds; the most is twice that")
	flags.BoolVar(&c.WatchCompression, "watch-compression", false, "compress every watch of a client that accepts gzip or deflate, not only those that begin with sendInitialEvents=true; each event is compressed once, for all of them")
	flags.DurationVar(&c.ShutdownDelay, "shutdown-delay-duration", 0, "how long to go on serving after /readyz fails at the end")
	flags.StringVar(&c.ServiceAccountSigningKeyFile, "service-account-signing-key-file", "", "key that signs service account tokens, PEM; none are issued without it")
	flags.StringSliceVar(&c.ServiceAccountKeyFiles, "service-account-key-file", nil, "files of keys that service account tokens are checked with, PEM (default: the signing key)")
	flags.StringSliceVar(&c.ServiceAccountIssuers, "service-account-issuer", []string{cluster.DefaultIssuer}, "who issues service account tokens; further ones are accepted")
	flags.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", "", "where others find the keys of service account tokens (default: at this server)")
	flags.StringSliceVar(&c.APIAudiences, "api-audiences", nil, "names of this server in tokens (default: the issuers)")
	flags.DurationVar(&c.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0, "longest life of a service account token; 0 is no limit")
	flags.BoolVar(&f.extendTokens, "service-account-extend-token-expiration", true, "let the default tokens of pods live for a year, not an hour")
	flags.StringSliceVar(&c.EnableAdmissionPlugins, "enable-admission-plugins", nil, "admission plug-ins to turn on besides the default ones, "+cluster.AdmissionPlugins())
	flags.StringSliceVar(&c.DisableAdmissionPlugins, "disable-admission-plugins", nil, "admission plug-ins to turn off")
	flags.StringVar(&c.EncryptionProviderConfig, "encryption-provider-config", "", "file with an EncryptionConfiguration: what is encrypted in etcd, and how")
	flags.BoolVar(&c.EncryptionProviderConfigReload, "encryption-provider-config-automatic-reload", false, "follow changes of that file")
	addAuthorization(flags, &c.Authorization)
	addAudit(flags, &c.Audit)
	addKubeletClient(flags, &c.Kubelets)
	flags.DurationVar(&c.EventTTL, "event-ttl", time.Hour, "how long events are kept")
	flags.StringSliceVar(&f.serviceRanges, "service-cluster-ip-range", []string{"10.96.0.0/12"}, "networks of cluster IPs")
	f.authentication.add(flags)
	flags.Int64Var(&f.notReadySeconds, "default-not-ready-toleration-seconds", 300, "how long pods stay on a node that is not ready, unless they say otherwise, in seconds")
	flags.Int64Var(&f.unreachableSeconds, "default-unreachable-toleration-seconds", 300, "how long pods stay on a node that is silent, unless they say otherwise, in seconds")
	flags.BoolVar(&f.profiling, "profiling", true, "serve profiles at /debug/pprof/")
	flags.BoolVar(&c.ContentionProfiling, "contention-profiling", false, "profile where goroutines wait for each other, too")
	f.gates.Add(flags)
	f.versions.Add(flags, cluster.ServedVersions())
	flags.StringVar(&f.nodePorts, "service-node-port-range", "30000-32767", "range of node ports")
}

// config checks and converts what was given.
func (f *apiServerFlags) config() (cluster.APIServerConfig, error) {
	c := f.given
	c.MinRequestTimeout = time.Duration(f.minTimeout) * time.Second
	c.Version = version
	c.NoExtendTokenExpiration = !f.extendTokens
	c.NoPriorityAndFairness = !f.fairness
	c.NoProfiling = !f.profiling
	c.NotReadyTolerationSeconds, c.UnreachableTolerationSeconds = &f.notReadySeconds, &f.unreachableSeconds
	if err := f.serving.fill(&c.Config); err != nil {
		return c, err
	}
	if !f.watchCache {
		return c, fmt.Errorf("--watch-cache=false is not possible: lists and watches are served from memory only")
	}
	for _, limit := range []*int{&c.MaxRequestsInflight, &c.MaxMutatingRequestsInflight} {
		if *limit == 0 {
			*limit = -1
		}
	}
	for _, limit := range []struct {
		flag, text string
		bytes      *int64
	}{{"max-list-bytes-inflight", f.listBytes, &c.Lists.Total}, {"max-list-bytes-inflight-per-user", f.listBytesPerUser, &c.Lists.PerClient}} {
		if limit.text == "" {
			continue
		}
		q, err := resource.ParseQuantity(limit.text)
		if err != nil || q.Sign() <= 0 {
			return c, fmt.Errorf("--%s: %q is not a number of bytes such as 256Mi", limit.flag, limit.text)
		}
		*limit.bytes = q.Value()
	}
	if c.GoawayChance < 0 || c.GoawayChance > 0.02 {
		return c, fmt.Errorf("--goaway-chance can not be less than 0 or greater than 0.02")
	}
	if err := f.authentication.fill(&c); err != nil {
		return c, err
	}
	c.EtcdPrefix = "/" + strings.Trim(c.EtcdPrefix, "/") + "/"
	c.WatchCacheSizes = map[string]int{}
	for _, size := range f.watchCacheSizes {
		resource, count, ok := strings.Cut(size, "#")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 0 || resource == "" {
			return c, fmt.Errorf("--watch-cache-sizes: %q is not of the form resource#size", size)
		}
		c.WatchCacheSizes[resource] = n
	}
	if f.advertiseAddress != "" {
		address, err := netip.ParseAddr(f.advertiseAddress)
		if err != nil {
			return c, fmt.Errorf("--advertise-address: %w", err)
		}
		c.AdvertiseAddress = address
	}
	for _, text := range f.serviceRanges {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return c, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		c.ServiceRanges = append(c.ServiceRanges, network)
	}
	first, last, _ := strings.Cut(f.nodePorts, "-")
	low, errLow := strconv.ParseInt(first, 10, 32)
	high, errHigh := strconv.ParseInt(last, 10, 32)
	if errLow != nil || errHigh != nil {
		return c, fmt.Errorf("--service-node-port-range: %q is not of the form 30000-32767", f.nodePorts)
	}
	c.NodePorts = cluster.PortRange{First: int32(low), Last: int32(high)}
	return c, nil
}
