package cluster

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	schedulerconfigv1 "k8s.io/kube-scheduler/config/v1"

	"vigil/apiserver/health"
	"vigil/cluster/componentserver"
	"vigil/controllers"
	"vigil/informer"
	"vigil/internal/accounttoken"
	"vigil/internal/protobufclient"
	"vigil/internal/serving"
	"vigil/pki"
	"vigil/scheduler"
	"vigil/scheduler/queue"
)

// ComponentConfig is what controller manager and scheduler have in common. The names are those of upstream's flags.
type ComponentConfig struct {
	Kubeconfig  string // --kubeconfig
	BindAddress string // --bind-address
	SecurePort  int    // --secure-port; 0 serves no health and metrics

	Serving serving.Config         // --tls-cert-file, --cert-dir ...
	Access  componentserver.Access // --authentication-kubeconfig, --client-ca-file ...
	// NoProfiling is --profiling=false, Contention --contention-profiling.
	NoProfiling, Contention bool

	Master   string  // --master: the API server's URL, instead of that of Kubeconfig
	QPS      float32 // --kube-api-qps; 0: no limit, the server says when it is too much
	Burst    int     // --kube-api-burst
	Election Election

	Logger *slog.Logger
}

// component is a running controller manager or scheduler: what both need to work and to be watched at it.
type component struct {
	name      string
	config    ComponentConfig
	client    *kubernetes.Clientset
	informers *informer.Factory
	events    record.EventBroadcaster
	recorder  record.EventRecorder
	registry  *prometheus.Registry
	checks    []health.Check // of all health endpoints, beside ping
	configz   map[string]any
}

func newComponent(name, source string, config ComponentConfig) (*component, *rest.Config, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	server, err := pki.ClientConfig(config.Kubeconfig, config.Logger)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	server.UserAgent = name
	server.QPS = -1 // the server says when it is too much
	if config.QPS > 0 {
		server.QPS, server.Burst = config.QPS, config.Burst
	}
	if config.Master != "" {
		server.Host = config.Master
	}
	server.WarningHandler = rest.NoWarnings{} // they are for people
	client, err := kubernetes.NewForConfig(protobufclient.Config(server))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	registry := newRegistry()
	factory, err := informer.NewFactory(server, informer.Config{Logger: config.Logger, Registerer: registry})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &component{name: name, config: config, client: client, informers: factory, events: record.NewBroadcaster(), registry: registry}
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: source})
	return c, server, nil
}

// run serves health and metrics and does work, as leader if asked to, until ctx ends.
func (c *component) run(ctx context.Context, work func(context.Context) error) error {
	c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	defer c.events.Shutdown()
	group, ctx := errgroup.WithContext(ctx)
	lead, err := c.newElection()
	if err != nil {
		return err
	}
	group.Go(func() error { return c.server().Run(ctx) })
	group.Go(func() error {
		return lead(ctx, func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return quiet(c.informers.Run(ctx)) })
			group.Go(func() error { return quiet(work(ctx)) })
			return group.Wait()
		})
	})
	return group.Wait()
}

// server is what the component is asked at.
func (c *component) server() componentserver.Config {
	return componentserver.Config{
		Name: c.name, Bind: c.config.BindAddress, Port: c.config.SecurePort, Serving: c.config.Serving, Access: c.config.Access,
		Gatherer: c.registry, Checks: c.checks, Configz: c.configz, NoProfiling: c.config.NoProfiling, Contention: c.config.Contention,
		Logger: c.config.Logger,
	}
}

// ControllerManagerConfig says how the controllers are run.
type ControllerManagerConfig struct {
	ComponentConfig
	NodeMonitorGracePeriod time.Duration // --node-monitor-grace-period; 0: 40 s
	// TerminatedPodGCThreshold (--terminated-pod-gc-threshold) is how many pods that have ended are kept. 0: 12500. Negative: all are.
	TerminatedPodGCThreshold int
	RootCAFile               string // --root-ca-file, published to every namespace
	// ServiceAccountPrivateKeyFile (--service-account-private-key-file) signs the tokens that Secrets hold. "": they get none.
	ServiceAccountPrivateKeyFile string
	// LegacyTokenCleanUpPeriod (--legacy-service-account-token-clean-up-period) is how long tokens that were made for service
	// accounts are unused until they are invalid. 0: a year.
	LegacyTokenCleanUpPeriod time.Duration

	// ClusterSigningCertFile and ClusterSigningKeyFile are the authority that signs what is asked for with
	// CertificateSigningRequests, for at most ClusterSigningDuration, 0: a year (--cluster-signing-cert-file, -key-file, -duration).
	// "": nothing is signed.
	ClusterSigningCertFile, ClusterSigningKeyFile string
	ClusterSigningDuration                        time.Duration
	OwnIdentity                                   bool // --use-service-account-credentials=false

	Controllers []string // --controllers; nil: controllers.DefaultControllers

	PodNetworks PodNetworks // what Nodes get for their pods
}

// DefaultControllers is what --controllers is unless something else is said.
func DefaultControllers() []string { return controllers.DefaultControllers() }

// RunControllerManager runs all controllers until ctx ends.
func RunControllerManager(ctx context.Context, config ControllerManagerConfig) error {
	c, server, err := newComponent("kube-controller-manager", "controllermanager", config.ComponentConfig)
	if err != nil {
		return err
	}
	var rootCA []byte
	if config.RootCAFile != "" {
		if rootCA, err = os.ReadFile(config.RootCAFile); err != nil {
			return fmt.Errorf("kube-controller-manager: read root CA: %w", err)
		}
	}
	var tokenKey crypto.Signer
	if config.ServiceAccountPrivateKeyFile != "" {
		if tokenKey, err = accounttoken.ReadPrivateKey(config.ServiceAccountPrivateKeyFile); err != nil {
			return fmt.Errorf("kube-controller-manager: read key that signs service account tokens: %w", err)
		}
	}
	var accounts *rest.Config
	if !config.OwnIdentity {
		if accounts, err = pki.AnonymousConfig(config.Kubeconfig, c.config.Logger); err != nil {
			return fmt.Errorf("kube-controller-manager: %w", err)
		}
		accounts.QPS, accounts.WarningHandler = server.QPS, server.WarningHandler
	}
	var signing *pki.KeyPair
	if config.ClusterSigningCertFile != "" {
		if signing, err = pki.NewKeyPair(config.ClusterSigningCertFile, config.ClusterSigningKeyFile, c.config.Logger); err != nil {
			return fmt.Errorf("kube-controller-manager: %w", err)
		}
	}
	networks := config.PodNetworks
	if !networks.Allocate {
		networks.ClusterCIDRs = nil
	} else if len(networks.ClusterCIDRs) == 0 {
		return errors.New("kube-controller-manager: --allocate-node-cidrs needs --cluster-cidr")
	}
	all, err := controllers.New(controllers.Config{
		Server: server, Accounts: accounts, Informers: c.informers, Logger: c.config.Logger, Registry: c.registry,
		Events: c.events, NodeMonitorGracePeriod: config.NodeMonitorGracePeriod, TerminatedPodGCThreshold: config.TerminatedPodGCThreshold, RootCA: rootCA,
		TokenKey: tokenKey, TokenCleanUpPeriod: config.LegacyTokenCleanUpPeriod,
		SigningAuthority: signing, SigningDuration: config.ClusterSigningDuration,
		Controllers:  config.Controllers,
		ClusterCIDRs: networks.ClusterCIDRs, ServiceCIDRs: networks.ServiceCIDRs,
		NodeMaskSizeIPv4: networks.MaskSizeIPv4, NodeMaskSizeIPv6: networks.MaskSizeIPv6,
	})
	if err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	return c.run(ctx, all.Run)
}

// SchedulerConfig says how the scheduler is run. Zero is upstream's default configuration.
type SchedulerConfig struct {
	ComponentConfig
	// Profiles, Backoff, Parallelism and Shown are what a KubeSchedulerConfiguration says (--config). Parallelism is how many bindings may be
	// under way at once, 0: 16. Shown is what /configz shows; nil: there is none.
	Profiles    []scheduler.Profile
	Backoff     queue.Backoff
	Parallelism int
	Shown       *schedulerconfigv1.KubeSchedulerConfiguration
}

// RunScheduler runs the scheduler until ctx ends.
func RunScheduler(ctx context.Context, config SchedulerConfig) error {
	source := corev1.DefaultSchedulerName // of events about leader election: the first profile, as upstream
	if len(config.Profiles) > 0 {
		source = config.Profiles[0].Name
	}
	c, _, err := newComponent("kube-scheduler", source, config.ComponentConfig)
	if err != nil {
		return err
	}
	if config.Shown != nil {
		c.configz = map[string]any{"componentconfig": config.Shown}
	}
	s := scheduler.New(scheduler.Config{
		Client: c.client, Informers: c.informers, Logger: c.config.Logger, Registry: c.registry,
		Recorder: func(profile string) record.EventRecorder {
			return c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: profile})
		},
		Profiles: config.Profiles, Backoff: config.Backoff, Binders: config.Parallelism,
	})
	return c.run(ctx, s.Run)
}
