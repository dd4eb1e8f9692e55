package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/controllers"
	"vigil/informer"
	"vigil/pki"
	"vigil/scheduler"
)

// ComponentConfig is what controller manager and scheduler have in common. The names are those of upstream's flags.
type ComponentConfig struct {
	Kubeconfig  string // --kubeconfig
	BindAddress string // --bind-address
	SecurePort  int    // --secure-port; 0 serves no health and metrics

	TLSCertFile, TLSKeyFile string // --tls-cert-file, --tls-private-key-file
	ClientCAFile            string // --client-ca-file
	LeaderElect             bool   // --leader-elect

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
	server    componentServer
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
	server.QPS = -1                           // the server says when it is too much
	server.WarningHandler = rest.NoWarnings{} // they are for people
	client, err := kubernetes.NewForConfig(protobufConfig(server))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	registry := newRegistry()
	factory, err := informer.NewFactory(server, informer.Config{Logger: config.Logger, Registerer: registry})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &component{name: name, config: config, client: client, informers: factory, events: record.NewBroadcaster()}
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: source})
	c.server = componentServer{
		Bind: config.BindAddress, Port: config.SecurePort, CertFile: config.TLSCertFile, KeyFile: config.TLSKeyFile,
		Registry: registry, Logger: config.Logger,
	}
	if config.ClientCAFile != "" {
		if c.server.ClientCA, err = pki.NewBundle(config.ClientCAFile, config.Logger); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, server, nil
}

// run serves health and metrics and does work, as leader if asked to, until ctx ends.
func (c *component) run(ctx context.Context, work func(context.Context) error) error {
	c.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	defer c.events.Shutdown()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.server.Run(ctx) })
	group.Go(func() error {
		lead := func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return quiet(c.informers.Run(ctx)) })
			group.Go(func() error { return quiet(work(ctx)) })
			return group.Wait()
		}
		if !c.config.LeaderElect {
			return lead(ctx)
		}
		return c.elect(ctx, lead)
	})
	return group.Wait()
}

// protobufConfig makes a client configuration that sends and asks for protobuf.
func protobufConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// ControllerManagerConfig says how the controllers are run.
type ControllerManagerConfig struct {
	ComponentConfig
	NodeMonitorGracePeriod time.Duration // --node-monitor-grace-period; 0: 40 s
	RootCAFile             string        // --root-ca-file, published to every namespace

	// ClusterSigningCertFile and ClusterSigningKeyFile are the authority that signs what is asked for with
	// CertificateSigningRequests, for at most ClusterSigningDuration, 0: a year (--cluster-signing-cert-file, -key-file, -duration).
	// "": nothing is signed.
	ClusterSigningCertFile, ClusterSigningKeyFile string
	ClusterSigningDuration                        time.Duration
	OwnIdentity                                   bool // --use-service-account-credentials=false

	PodNetworks PodNetworks // what Nodes get for their pods
}

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
		Server: server, Accounts: accounts, Informers: c.informers, Logger: c.config.Logger, Registry: c.server.Registry,
		Events: c.events, NodeMonitorGracePeriod: config.NodeMonitorGracePeriod, RootCA: rootCA,
		SigningAuthority: signing, SigningDuration: config.ClusterSigningDuration,
		ClusterCIDRs: networks.ClusterCIDRs, ServiceCIDRs: networks.ServiceCIDRs,
		NodeMaskSizeIPv4: networks.MaskSizeIPv4, NodeMaskSizeIPv6: networks.MaskSizeIPv6,
	})
	if err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	return c.run(ctx, all.Run)
}

// RunScheduler runs the scheduler until ctx ends.
func RunScheduler(ctx context.Context, config ComponentConfig) error {
	c, _, err := newComponent("kube-scheduler", "default-scheduler", config)
	if err != nil {
		return err
	}
	s := scheduler.New(scheduler.Config{
		Client: c.client, Informers: c.informers, Recorder: c.recorder, Logger: c.config.Logger, Registry: c.server.Registry,
	})
	return c.run(ctx, s.Run)
}
