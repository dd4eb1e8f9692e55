// Package controllers starts the controllers of a cluster, each of which has a package of its own below. rows.go lists them: to add one is to
// write its package and its row.
//
// They share one set of informers, so a resource is listed and watched once, however many controllers look at it. None
// knows another: they meet in the objects they read and write.
package controllers

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/informer/workqueue"
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

	// Controllers names those that run, as --controllers does: "*", "deployment-controller", "-deployment-controller". Nil: DefaultControllers.
	Controllers []string

	// ClusterCIDRs are cut into networks for the pods of Nodes (nodeipam.Config has the meaning of these). None: Nodes get none.
	ClusterCIDRs, ServiceCIDRs         []netip.Prefix
	NodeMaskSizeIPv4, NodeMaskSizeIPv6 int

	NodeMonitorGracePeriod time.Duration // how long a node may be silent; 0: 40 s
	// TerminatedPodGCThreshold is how many pods that have ended are kept. 0: 12500. Negative: all are.
	TerminatedPodGCThreshold int
	RootCA                   []byte        // PEM, published to every namespace; nil: not published
	TokenKey                 crypto.Signer // signs the tokens that Secrets hold; nil: they get none
	TokenCleanUpPeriod       time.Duration // how long such a token is unused until it is invalid; 0: a year
	SigningAuthority         *pki.KeyPair  // signs what is asked for with CertificateSigningRequests; nil: nobody does
	SigningDuration          time.Duration // life of what it signs; 0: a year
}

// Controllers are those that run.
type Controllers struct {
	all []started
}

// started is a controller that has registered with the informers.
type started struct {
	name string
	run  run
}

// New makes the controllers that config selects. They register with the informers, so it must be called before those run.
func New(config Config) (*Controllers, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Controllers == nil {
		config.Controllers = DefaultControllers()
	}
	selected, err := newSelection(config.Controllers)
	if err != nil {
		return nil, err
	}
	var metrics *workqueue.Metrics
	if config.Registry != nil {
		if metrics, err = workqueue.NewMetrics(config.Registry); err != nil {
			return nil, fmt.Errorf("controller metrics: %w", err)
		}
	}
	clients, err := newClients(config)
	if err != nil {
		return nil, err
	}
	c := &Controllers{}
	for i := range rows {
		row := &rows[i]
		if !selected.runs(row) || row.needs != nil && !row.needs(config) {
			continue // one that does not run is not made: it would have informers
		}
		m := &making{Config: config, row: row, clients: clients, metrics: metrics}
		run, err := row.make(m)
		if err = errors.Join(err, m.err); err != nil {
			return nil, fmt.Errorf("%s: %w", row.name(), err)
		}
		c.all = append(c.all, started{row.name(), run})
	}
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
			return fmt.Errorf("%s: %w", each.name, err)
		})
	}
	return group.Wait()
}
