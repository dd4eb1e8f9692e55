// Package controllers starts all controllers of a cluster, each of which has a package of its own below.
//
// They share one set of informers, so a resource is listed and watched once, however many controllers look at it. None
// knows another: they meet in the objects they read and write.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/attachdetach"
	"vigil/controllers/bootstrap"
	"vigil/controllers/certificates"
	"vigil/controllers/clusterroleaggregation"
	"vigil/controllers/deployment"
	"vigil/controllers/endpoints"
	"vigil/controllers/ephemeral"
	"vigil/controllers/garbagecollector"
	"vigil/controllers/internal/account"
	"vigil/controllers/namespace"
	"vigil/controllers/nodeipam"
	"vigil/controllers/nodelifecycle"
	"vigil/controllers/persistentvolume"
	"vigil/controllers/provisioner"
	"vigil/controllers/replicaset"
	"vigil/controllers/resourcequota"
	"vigil/controllers/serviceaccount"
	"vigil/controllers/servicecidr"
	"vigil/controllers/storageprotection"
	"vigil/informer"
	"vigil/informer/work"
	"vigil/pki"
)

// Config says what the controllers work with. Server, Informers and Events are needed.
type Config struct {
	Server    *rest.Config
	Informers *informer.Factory // run by the caller
	Events    record.EventBroadcaster
	Logger    *slog.Logger
	Registry  prometheus.Registerer // nil: no metrics

	// Accounts is Server without credentials: with it, each controller acts as a service account of its own, whose role is part of
	// every cluster. Nil: all write as Server says.
	Accounts *rest.Config

	// ClusterCIDRs are cut into networks for the pods of Nodes (nodeipam.Config has the meaning of these). None: Nodes get none.
	ClusterCIDRs, ServiceCIDRs         []netip.Prefix
	NodeMaskSizeIPv4, NodeMaskSizeIPv6 int

	NodeMonitorGracePeriod time.Duration // how long a node may be silent; 0: 40 s
	RootCA                 []byte        // PEM, published to every namespace; nil: not published
	SigningAuthority       *pki.KeyPair  // signs what is asked for with CertificateSigningRequests; nil: nobody does
	SigningDuration        time.Duration // life of what it signs; 0: a year
}

// Controllers are all controllers.
type Controllers struct {
	all []named
}

type named struct {
	name string
	run  func(context.Context) error
}

// New makes all controllers. They register with the informers, so it must be called before those run.
func New(config Config) (*Controllers, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	var metrics *work.Metrics
	if config.Registry != nil {
		var err error
		if metrics, err = work.NewMetrics(config.Registry); err != nil {
			return nil, fmt.Errorf("controller metrics: %w", err)
		}
	}
	recorder := func(component string) record.EventRecorder {
		return config.Events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	}
	logger := func(controller string) *slog.Logger { return config.Logger.With("controller", controller) }
	clients, err := newClients(config)
	if err != nil {
		return nil, err
	}
	c := &Controllers{}
	add := func(name string, run func(context.Context) error) { c.all = append(c.all, named{name, run}) }

	add("deployment", deployment.New(deployment.Config{
		Client: clients.as("deployment-controller"), Informers: config.Informers, Recorder: recorder("deployment-controller"), Logger: logger("deployment"), Metrics: metrics,
	}).Run)
	add("replicaset", replicaset.New(replicaset.Config{
		Client: clients.as("replicaset-controller"), Informers: config.Informers, Recorder: recorder("replicaset-controller"), Logger: logger("replicaset"), Metrics: metrics,
	}).Run)
	add("namespace", namespace.New(namespace.Config{
		Client: clients.as("namespace-controller"), Metadata: clients.metadataAs("namespace-controller"), Informers: config.Informers, Logger: logger("namespace"), Metrics: metrics,
	}).Run)
	add("garbage collector", garbagecollector.New(garbagecollector.Config{
		Server: rest.CopyConfig(config.Server), Discovery: clients.own.Discovery(), Metadata: clients.metadataAs("generic-garbage-collector"), Informers: config.Informers,
		Recorder: recorder("garbage-collector-controller"), Logger: logger("garbagecollector"), Metrics: metrics,
	}).Run)
	add("node lifecycle", nodelifecycle.New(nodelifecycle.Config{
		Client: clients.as("node-controller"), Informers: config.Informers, Recorder: recorder("node-controller"), Logger: logger("nodelifecycle"), Metrics: metrics,
		NodeMonitorGracePeriod: config.NodeMonitorGracePeriod,
	}).Run)
	if len(config.ClusterCIDRs) > 0 {
		ipam, err := nodeipam.New(nodeipam.Config{
			Client: clients.as("node-controller"), Informers: config.Informers, Recorder: recorder("cidrAllocator"), Logger: logger("nodeipam"), Metrics: metrics,
			ClusterCIDRs: config.ClusterCIDRs, ServiceCIDRs: config.ServiceCIDRs, MaskSizeIPv4: config.NodeMaskSizeIPv4, MaskSizeIPv6: config.NodeMaskSizeIPv6,
		})
		if err != nil {
			return nil, fmt.Errorf("pod networks of nodes: %w", err)
		}
		add("node IPAM", ipam.Run)
	}
	add("service account", serviceaccount.New(serviceaccount.Config{
		Client: clients.as("service-account-controller"), Publisher: clients.as("root-ca-cert-publisher"), Informers: config.Informers, RootCA: config.RootCA, Logger: logger("serviceaccount"), Metrics: metrics,
	}).Run)
	add("endpoints", endpoints.New(endpoints.Config{
		Client: clients.as("endpoint-controller"), Informers: config.Informers, Recorder: recorder("endpoint-controller"), Logger: logger("endpoints"), Metrics: metrics,
	}).Run)
	add("cluster role aggregation", clusterroleaggregation.New(clusterroleaggregation.Config{
		Client: clients.as("clusterrole-aggregation-controller"), Informers: config.Informers, Logger: logger("clusterroleaggregation"), Metrics: metrics,
	}).Run)
	add("resource quota", resourcequota.New(resourcequota.Config{
		Client: clients.as("resourcequota-controller"), Metadata: clients.metadataAs("resourcequota-controller"), Discovery: clients.own.Discovery(),
		Informers: config.Informers, Logger: logger("resourcequota"), Metrics: metrics,
	}).Run)
	add("service CIDR", servicecidr.New(servicecidr.Config{
		Client: clients.as("service-cidrs-controller"), Informers: config.Informers, Logger: logger("servicecidr"), Metrics: metrics,
	}).Run)
	requests := certificates.Config{
		Client: clients.as("certificate-controller"), Informers: config.Informers, Logger: logger("certificates"), Metrics: metrics,
	}
	add("certificate approver", certificates.NewApprover(requests).Run)
	add("certificate cleaner", certificates.NewCleaner(requests).Run)
	if config.SigningAuthority != nil {
		add("certificate signer", certificates.NewSigner(certificates.SignerConfig{
			Config: requests, Authority: config.SigningAuthority, Duration: config.SigningDuration,
		}).Run)
	}
	add("token cleaner", bootstrap.NewTokenCleaner(bootstrap.Config{
		Client: clients.as("token-cleaner"), Informers: config.Informers, Logger: logger("bootstrap"), Metrics: metrics,
	}).Run)
	add("bootstrap signer", bootstrap.NewSigner(bootstrap.Config{
		Client: clients.as("bootstrap-signer"), Informers: config.Informers, Logger: logger("bootstrap"), Metrics: metrics,
	}).Run)
	add("storage protection", storageprotection.New(storageprotection.Config{
		Claims: clients.as("pvc-protection-controller"), Volumes: clients.as("pv-protection-controller"), Classes: clients.as("volumeattributesclass-protection-controller"),
		Informers: config.Informers, Logger: logger("storageprotection"), Metrics: metrics,
	}).Run)
	add("persistent volume", persistentvolume.New(persistentvolume.Config{
		Client: clients.as("persistent-volume-binder"), Informers: config.Informers, Recorder: recorder("persistentvolume-controller"), Logger: logger("persistentvolume"), Metrics: metrics,
	}).Run)
	add("local volume provisioner", provisioner.New(provisioner.Config{
		Client: clients.as("local-volume-provisioner"), Informers: config.Informers, Recorder: recorder("vigil.dev/local"), Logger: logger("provisioner"), Metrics: metrics,
	}).Run)
	add("attach and detach", attachdetach.New(attachdetach.Config{
		Client: clients.as("attachdetach-controller"), Informers: config.Informers, Recorder: recorder("attachdetach-controller"), Logger: logger("attachdetach"), Metrics: metrics,
	}).Run)
	add("ephemeral volume", ephemeral.New(ephemeral.Config{
		Client: clients.as("ephemeral-volume-controller"), Informers: config.Informers, Recorder: recorder("ephemeral_volume"), Logger: logger("ephemeral"), Metrics: metrics,
	}).Run)
	if err := errors.Join(clients.errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// clients makes clients for the service accounts of controllers. What goes wrong is gathered.
type clients struct {
	server   *rest.Config
	own      kubernetes.Interface
	accounts *account.Accounts // nil: all act as server says
	errs     []error
}

func newClients(config Config) (*clients, error) {
	own, err := kubernetes.NewForConfig(config.Server)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &clients{server: config.Server, own: own}
	if config.Accounts != nil {
		c.accounts = account.New(config.Accounts, own)
	}
	return c, nil
}

func (c *clients) config(name string) *rest.Config {
	if c.accounts == nil {
		return c.server
	}
	return c.accounts.Config(name)
}

// as returns a client that acts as a controller's account. It speaks protobuf.
func (c *clients) as(name string) kubernetes.Interface {
	config := rest.CopyConfig(c.config(name))
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("client of %s: %w", name, err))
	}
	return client
}

func (c *clients) metadataAs(name string) metadata.Interface {
	client, err := metadata.NewForConfig(c.config(name))
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("metadata client of %s: %w", name, err))
	}
	return client
}

// Run runs all controllers until ctx ends. When one breaks, all end.
func (c *Controllers) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, each := range c.all {
		group.Go(func() error {
			err := each.run(ctx)
			if err == nil || errors.Is(err, context.Canceled) {
				return nil
			}
			return fmt.Errorf("%s controller: %w", each.name, err)
		})
	}
	return group.Wait()
}
