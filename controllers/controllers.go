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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/deployment"
	"vigil/controllers/endpoints"
	"vigil/controllers/garbagecollector"
	"vigil/controllers/namespace"
	"vigil/controllers/nodelifecycle"
	"vigil/controllers/replicaset"
	"vigil/controllers/serviceaccount"
	"vigil/informer"
	"vigil/informer/work"
)

// Config says what the controllers work with. Server, Client, Informers and Events are needed.
type Config struct {
	Server    *rest.Config // for controllers that look at resources they do not know by name
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Events    record.EventBroadcaster
	Logger    *slog.Logger
	Registry  prometheus.Registerer // nil: no metrics

	NodeMonitorGracePeriod time.Duration // how long a node may be silent; 0: 40 s
	RootCA                 []byte        // PEM, published to every namespace; nil: not published
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
	c := &Controllers{}
	add := func(name string, run func(context.Context) error) { c.all = append(c.all, named{name, run}) }

	add("deployment", deployment.New(deployment.Config{
		Client: config.Client, Informers: config.Informers, Recorder: recorder("deployment-controller"), Logger: logger("deployment"), Metrics: metrics,
	}).Run)
	add("replicaset", replicaset.New(replicaset.Config{
		Client: config.Client, Informers: config.Informers, Recorder: recorder("replicaset-controller"), Logger: logger("replicaset"), Metrics: metrics,
	}).Run)
	server := rest.CopyConfig(config.Server)
	metadataClient, err := metadata.NewForConfig(server)
	if err != nil {
		return nil, fmt.Errorf("metadata client: %w", err)
	}
	add("namespace", namespace.New(namespace.Config{
		Client: config.Client, Metadata: metadataClient, Informers: config.Informers, Logger: logger("namespace"), Metrics: metrics,
	}).Run)
	add("garbage collector", garbagecollector.New(garbagecollector.Config{
		Server: server, Discovery: config.Client.Discovery(), Metadata: metadataClient, Informers: config.Informers,
		Recorder: recorder("garbage-collector-controller"), Logger: logger("garbagecollector"), Metrics: metrics,
	}).Run)
	add("node lifecycle", nodelifecycle.New(nodelifecycle.Config{
		Client: config.Client, Informers: config.Informers, Recorder: recorder("node-controller"), Logger: logger("nodelifecycle"), Metrics: metrics,
		NodeMonitorGracePeriod: config.NodeMonitorGracePeriod,
	}).Run)
	add("service account", serviceaccount.New(serviceaccount.Config{
		Client: config.Client, Informers: config.Informers, RootCA: config.RootCA, Logger: logger("serviceaccount"), Metrics: metrics,
	}).Run)
	add("endpoints", endpoints.New(endpoints.Config{
		Client: config.Client, Informers: config.Informers, Recorder: recorder("endpoint-controller"), Logger: logger("endpoints"), Metrics: metrics,
	}).Run)
	return c, nil
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
