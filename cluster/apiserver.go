package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	goruntime "runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver"
	"vigil/apiserver/admission/plugins"
	"vigil/apiserver/audit"
	"vigil/apiserver/authz/chain"
	"vigil/apiserver/bootstrap"
	"vigil/apiserver/connect"
	"vigil/apiserver/eviction"
	"vigil/apiserver/listmemory"
	"vigil/apiserver/resourcemetrics"
	"vigil/apiserver/serviceaccount"
	"vigil/apiserver/serviceip"
	"vigil/apiserver/write"
	"vigil/internal/memory"
	"vigil/internal/panics"
	"vigil/internal/serving"
	"vigil/kinds"
	"vigil/kinds/all"
	"vigil/kubelet/machine"
	"vigil/object"
	"vigil/pki"
	"vigil/store"
	"vigil/watchcache"
)

// KubernetesVersion is the release whose API is served: "v1.37.2".
const KubernetesVersion = apiserver.KubernetesVersion

// DefaultIssuer is who issues service account tokens when nothing else is said.
const DefaultIssuer = serviceaccount.DefaultIssuer

// AdmissionPlugins names the admission plug-ins that there are, for help texts.
func AdmissionPlugins() string { return plugins.Help() }

// PortRange is a range of ports, both ends included.
type PortRange = serviceip.PortRange

// APIServerConfig says how an API server is run. The names are those of kube-apiserver's flags.
type APIServerConfig struct {
	BindAddress string // --bind-address
	SecurePort  int    // --secure-port
	// MoreListeners are served, too, and closed.
	MoreListeners []net.Listener
	// ControllerManagerPort and SchedulerPort are where these components are asked how they are; 0: their usual ports.
	ControllerManagerPort, SchedulerPort int
	// AdvertiseAddress is under which pods reach the server; invalid: an address of this machine.
	AdvertiseAddress netip.Addr

	serving.Config        // --tls-cert-file, --cert-dir ...; a certificate is needed, or a directory to make one in
	ClientCAFile   string // --client-ca-file
	// Authentication says what else callers may show.
	Authentication Authentication

	// EtcdServers and its certificates name a remote etcd; Embedded is one in this process. One of them is needed.
	EtcdServers                           []string // --etcd-servers
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string   // --etcd-cafile, --etcd-certfile, --etcd-keyfile
	Embedded                              *store.Embedded
	EtcdPrefix                            string        // --etcd-prefix, "/registry"
	EtcdCompactionInterval                time.Duration // --etcd-compaction-interval, 0: never

	WatchCacheSizes             map[string]int    // --watch-cache-sizes
	Lists                       listmemory.Config // --max-list-bytes-inflight, --max-list-bytes-inflight-per-user
	MaxRequestsInflight         int               // --max-requests-inflight
	MaxMutatingRequestsInflight int               // --max-mutating-requests-inflight
	NoPriorityAndFairness       bool              // --enable-priority-and-fairness=false
	GoawayChance                float64           // --goaway-chance
	RequestTimeout              time.Duration     // --request-timeout
	MinRequestTimeout           time.Duration     // --min-request-timeout
	ShutdownDelay               time.Duration     // --shutdown-delay-duration
	WatchCompression            bool              // --watch-compression

	ServiceAccountSigningKeyFile string   // --service-account-signing-key-file; without it no tokens are issued
	ServiceAccountKeyFiles       []string // --service-account-key-file; nil: that of the signing key
	ServiceAccountIssuers        []string // --service-account-issuer
	ServiceAccountJWKSURI        string   // --service-account-jwks-uri
	APIAudiences                 []string // --api-audiences; nil: the issuers
	// ServiceAccountMaxTokenExpiration is --service-account-max-token-expiration, 0: no bound.
	ServiceAccountMaxTokenExpiration time.Duration
	// NoExtendTokenExpiration is --service-account-extend-token-expiration=false.
	NoExtendTokenExpiration bool

	EncryptionProviderConfig       string // --encryption-provider-config; "": nothing is encrypted in etcd
	EncryptionProviderConfigReload bool   // --encryption-provider-config-automatic-reload

	Audit audit.Config // --audit-policy-file and the other --audit flags

	OwnNodes []string            // nodes on this machine, besides one named as it: no others are reached at its addresses
	Kubelets KubeletClientConfig // --kubelet-client-certificate and the other --kubelet flags

	Authorization AuthorizationConfig // --authorization-mode, --authorization-config ...

	EventTTL time.Duration // --event-ttl; 0: an hour

	EnableAdmissionPlugins, DisableAdmissionPlugins []string // --enable-admission-plugins, --disable-admission-plugins
	// --default-not-ready-toleration-seconds and --default-unreachable-toleration-seconds; nil: 300
	NotReadyTolerationSeconds, UnreachableTolerationSeconds *int64

	NoProfiling, ContentionProfiling bool // --profiling=false, --contention-profiling

	ServiceRanges []netip.Prefix // --service-cluster-ip-range; nil: 10.96.0.0/12
	NodePorts     PortRange      // --service-node-port-range

	Version string // Vigil's own
	Logger  *slog.Logger
	// Ready is called once, when the server has all caches and its own objects.
	Ready func()
}

// leaveTimeout bounds how long a server that stops tries to tell others so.
const leaveTimeout = 2 * time.Second

// defaultServiceRange is kubeadm's.
var defaultServiceRange = netip.MustParsePrefix("10.96.0.0/12")

// RunAPIServer runs an API server until ctx ends.
func RunAPIServer(ctx context.Context, config APIServerConfig) error {
	var err error
	if config.Config, err = config.Ensure("apiserver", config.selfSigned()); err != nil {
		return err
	}
	if config.ContentionProfiling && !config.NoProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	registry := newRegistry()
	table := all.TableWith(all.Options{EventTTL: config.EventTTL})
	atRest, err := newEncryption(config, table)
	if err != nil {
		return err
	}
	defer atRest.close()
	config.Audit.Logger, config.Audit.Registerer = config.Logger, registry
	auditor, err := audit.New(config.Audit)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{
		Embedded:        config.Embedded,
		Endpoints:       config.EtcdServers,
		CAFile:          config.EtcdCAFile,
		CertFile:        config.EtcdCertFile,
		KeyFile:         config.EtcdKeyFile,
		Prefix:          config.EtcdPrefix,
		Sealer:          atRest.sealer(),
		CompactInterval: config.EtcdCompactionInterval,
		Logger:          config.Logger,
		Registerer:      registry,
	})
	if err != nil {
		return err
	}
	defer db.Close()

	if len(config.ServiceRanges) == 0 {
		config.ServiceRanges = []netip.Prefix{defaultServiceRange}
	}
	addresses, err := serviceip.New(serviceip.Config{Store: db, ServiceRanges: config.ServiceRanges, NodePorts: config.NodePorts, Logger: config.Logger})
	if err != nil {
		return err
	}
	address := net.JoinHostPort(config.BindAddress, strconv.Itoa(config.SecurePort))
	listener, err := config.Listen(ctx, address)
	if err != nil {
		return err
	}
	listener = mergeListeners(listener, config.MoreListeners...)
	defer listener.Close()
	config.Authorization.Logger, config.Authorization.Registerer = config.Logger, registry
	access, err := chain.New(config.Authorization)
	if err != nil {
		return err
	}
	var own *bootstrap.Bootstrap // made below, like evictor: they write through the server
	var evictor *eviction.Evictor
	var figures *resourcemetrics.Source
	server, err := apiserver.New(apiserver.Config{
		Listener:        listener,
		TLSCertFile:     config.TLSCertFile,
		TLSKeyFile:      config.TLSKeyFile,
		ClientCAFile:    config.ClientCAFile,
		TLSMinVersion:   config.TLSMinVersion,
		TLSCipherSuites: config.TLSCipherSuites,
		TLSCurves:       config.TLSCurves,
		TLSNamed:        config.TLSNamed,
		NoHTTP2:         config.NoHTTP2,
		NoProfiling:     config.NoProfiling,
		MaxStreams:      config.MaxStreams,
		Authentication:  config.Authentication,
		Store:           db,
		Kinds:           table,
		Authorizer:      access,
		Answers: map[schema.GroupVersionKind]apiserver.Answer{
			componentStatus: config.componentStatuses(db),
			nodeMetrics:     func(ctx context.Context, ns, name string) []kinds.Object { return figures.Nodes(ctx, ns, name) },
			podMetrics:      func(ctx context.Context, ns, name string) []kinds.Object { return figures.Pods(ctx, ns, name) },
		},
		WriteHooks: guarded(access, map[schema.GroupResource]write.Hook{
			{Resource: "services"}: serviceHook(addresses),
			{Resource: "pods"}: {Post: map[string]write.PostFunc{
				"eviction": func(ctx context.Context, r *write.Request, obj kinds.Object, body runtime.Object) (runtime.Object, error) {
					return evictor.Post(ctx, r, obj, body)
				},
			}},
		}),
		Admission:                   config.admission(),
		Tokens:                      tokenConfig(config, listener.Addr()),
		WatchCacheSizes:             config.WatchCacheSizes,
		Lists:                       config.Lists,
		GoawayChance:                config.GoawayChance,
		MaxRequestsInflight:         config.MaxRequestsInflight,
		MaxMutatingRequestsInflight: config.MaxMutatingRequestsInflight,
		Fairness:                    !config.NoPriorityAndFairness,
		RequestTimeout:              config.RequestTimeout,
		MinRequestTimeout:           config.MinRequestTimeout,
		ShutdownDelay:               config.ShutdownDelay,
		WatchCompression:            config.WatchCompression,
		Version:                     config.Version,
		Logger:                      config.Logger,
		Registerer:                  registry,
		Connections:                 connect.Config{Kubelets: config.Kubelets, AllowLoopback: !machine.Address().IsValid(), OwnNodes: config.OwnNodes},
		Checks:                      atRest.checks(),
		Auditor:                     auditor,
		StartHooks: []apiserver.StartHook{{
			Name: "bootstrap-system-objects",
			Run:  func(ctx context.Context, _ *apiserver.Server) error { return own.Ensure(ctx) },
		}, rolesHook(access, &own)},
	})
	if err != nil {
		return err
	}
	figures = usage(server, table, config.Logger)
	attachAuthorization(access, server, table, db.Prefix())
	evictor = eviction.New(eviction.Config{Kinds: table, Writer: server.Writer(), Cache: server.Cache, Prefix: db.Prefix()})
	own, err = bootstrap.New(bootstrap.Config{
		Kinds:         server.Kinds,
		Writer:        server.Writer(),
		Newest:        func(k *kinds.Kind, key string) (*object.Version, bool) { return server.Cache(k).Get(key) },
		Store:         db,
		Prefix:        db.Prefix(),
		ServiceRanges: config.ServiceRanges,
		Address:       published(config),
		Port:          int32(listener.Addr().(*net.TCPAddr).Port),
		Logger:        config.Logger,
		Authentication: func() map[string]string {
			return authenticationData(server, config.Authentication.Proxy)
		},
		SystemLeases: systemLeases(server, table),
	})
	if err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return quiet(db.Run(ctx)) })
	group.Go(func() error { return quiet(access.Run(ctx)) })
	group.Go(func() error { return quiet(atRest.run(ctx, db)) })
	group.Go(func() error { return new(memory.Trimmer).Run(ctx) })
	group.Go(func() error { memory.Pace(ctx); return nil })
	group.Go(func() error {
		if err := server.WaitReady(ctx); err != nil {
			return nil // ctx has ended, and whoever ended it says why
		}
		if config.Ready != nil {
			config.Ready()
		}
		group.Go(func() error { return quiet(addresses.Run(ctx)) })
		err := quiet(own.Run(ctx))
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := own.Leave(leaving); err != nil && config.Logger != nil {
			config.Logger.Warn("the API server could not leave the endpoints of the Service kubernetes; pods may be sent to it until its lease has ended", "error", err)
		}
		return err
	})
	return group.Wait()
}

// selfSigned is whom a certificate names that is made because there is none.
func (c APIServerConfig) selfSigned() pki.SelfSigned {
	who := pki.SelfSigned{
		CommonName: "kube-apiserver",
		DNSNames:   []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"},
		IPs:        []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	service := defaultServiceRange
	if len(c.ServiceRanges) > 0 {
		service = c.ServiceRanges[0]
	}
	for _, ip := range []netip.Addr{advertised(c), firstAddress(service)} {
		if ip.IsValid() {
			who.IPs = append(who.IPs, ip.AsSlice())
		}
	}
	return who
}

// admission says which plug-ins there are, and their settings.
func (c APIServerConfig) admission() plugins.Config {
	return plugins.Config{
		Enable: c.EnableAdmissionPlugins, Disable: c.DisableAdmissionPlugins,
		NotReadyTolerationSeconds: c.NotReadyTolerationSeconds, UnreachableTolerationSeconds: c.UnreachableTolerationSeconds,
	}
}

// ServedVersions are the group versions of the API that are served, as apiVersion writes them.
func ServedVersions() []string {
	seen := map[string]bool{}
	for _, k := range all.Table().All() {
		seen[k.GVK.GroupVersion().String()] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// systemLeases reads the Leases of kube-system.
func systemLeases(server *apiserver.Server, table *kinds.Table) func() ([]*object.Version, error) {
	cache := server.Cache(table.ByResource(coordinationv1.SchemeGroupVersion.WithResource("leases")))
	return func() ([]*object.Version, error) {
		page, err := cache.Snapshot().List(watchcache.Selection{Namespace: metav1.NamespaceSystem}, "", 0)
		return page.Items, err
	}
}

// tokenConfig is how service account tokens are made and checked.
func tokenConfig(config APIServerConfig, listen net.Addr) serviceaccount.Config {
	external := listen.String()
	if host := advertised(config); host.IsValid() {
		external = netip.AddrPortFrom(host, uint16(listen.(*net.TCPAddr).Port)).String()
	}
	return serviceaccount.Config{
		SigningKeyFile:  config.ServiceAccountSigningKeyFile,
		KeyFiles:        config.ServiceAccountKeyFiles,
		Issuers:         config.ServiceAccountIssuers,
		Audiences:       config.APIAudiences,
		MaxExpiration:   config.ServiceAccountMaxTokenExpiration,
		NoExtension:     config.NoExtendTokenExpiration,
		JWKSURI:         config.ServiceAccountJWKSURI,
		ExternalAddress: external,
	}
}

// serviceHook connects writes of Services with the allocator of their addresses.
func serviceHook(addresses *serviceip.Allocator) write.Hook {
	return write.Hook{
		Prepare: func(ctx context.Context, obj, old kinds.Object) (commit, rollback func(), err error) {
			before, _ := old.(*corev1.Service)
			return addresses.Prepare(ctx, obj.(*corev1.Service), before)
		},
		Deleted: func(ctx context.Context, obj kinds.Object) { addresses.Released(ctx, obj.(*corev1.Service)) },
	}
}

// firstAddress is the first usable address of a network: the Service kubernetes has it.
func firstAddress(network netip.Prefix) netip.Addr { return network.Masked().Addr().Next() }

// advertised is the address under which pods reach the server, or the zero value when there is none but loopback.
func advertised(config APIServerConfig) netip.Addr {
	if config.AdvertiseAddress.IsValid() {
		return config.AdvertiseAddress
	}
	if bind, err := netip.ParseAddr(config.BindAddress); err == nil && !bind.IsLoopback() && !bind.IsUnspecified() {
		return bind
	}
	return machine.Address()
}

// published is the address in the endpoints of the Service kubernetes. A loopback address is of no use to anybody else, and endpoints do not have such; the
// zero value is none.
func published(config APIServerConfig) netip.Addr {
	address := advertised(config)
	if !address.IsLoopback() {
		return address
	}
	if config.Logger != nil {
		config.Logger.Warn("the advertised address is a loopback address; the Service kubernetes gets no endpoint of this server: set --advertise-address for pods to reach it", "address", address)
	}
	return netip.Addr{}
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), panics.NewCollector())
	return registry
}

// quiet takes the end of a context for what it is: no error.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
