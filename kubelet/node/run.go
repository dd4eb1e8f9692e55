package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"vigil/kubelet"
	"vigil/kubelet/certificates"
	"vigil/pki"
)

// Run runs one node until ctx ends.
func Run(ctx context.Context, config Config) error {
	run, err := Prepare(ctx, config)
	if err != nil {
		return quiet(err)
	}
	return run(ctx)
}

// Prepare does what comes before a node can run: its certificate, its client. Who has many nodes runs them in goroutines that
// have not done this: it leaves large stacks behind.
func Prepare(ctx context.Context, config Config) (run func(ctx context.Context) error, err error) {
	if config.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("kubelet: %w", err)
		}
		config.NodeName = name
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.BootstrapKubeconfig != "" {
		config.RotateCertificates = true
	}
	certificate := config.certificate()
	if err := certificate.Bootstrap(ctx); err != nil {
		return nil, err
	}
	server, err := pki.ClientConfig(config.Kubeconfig, config.Logger)
	if err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", config.NodeName, err)
	}
	server.UserAgent = "kubelet"
	server.QPS = -1
	server.WarningHandler = rest.NoWarnings{}
	kind, why, err := CheckRuntime(cmp.Or(config.Runtime, RuntimeAuto), config.Real)
	if err != nil {
		return nil, err
	}
	config.Logger.Info("the kubelet starts", "node", config.NodeName, "runtime", kind, "why", why)
	if kind == RuntimeSimulated {
		run, err = config.simulated(server)
	} else {
		run = func(ctx context.Context) error { return quiet(config.runReal(ctx, server)) }
	}
	if err != nil || !config.RotateCertificates {
		return run, err
	}
	node := run // run itself is what is returned
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return node(ctx) })
		group.Go(func() error { return certificate.Rotate(ctx) })
		return group.Wait()
	}, nil
}

// certificate is what the API server knows the kubelet by.
func (c *Config) certificate() *certificates.Client {
	return &certificates.Client{
		Kubeconfig: c.Kubeconfig, BootstrapKubeconfig: c.BootstrapKubeconfig, Dir: c.CertDir, NodeName: c.NodeName, Logger: c.Logger,
	}
}

// base is what kubelets over any runtime have in common.
func (c *Config) base(server *rest.Config) kubelet.Config {
	return kubelet.Config{
		Server: server, NodeName: c.NodeName, Logger: c.Logger, Version: c.Version, Labels: c.Labels, Taints: c.Taints,
		ProviderID: c.ProviderID, NoRegister: c.NoRegister, Workers: c.Workers,
		StatusUpdateFrequency: c.StatusUpdateFrequency, StatusReportFrequency: c.StatusReportFrequency, LeaseDuration: c.LeaseDuration,
	}
}

// quiet treats the end of a context as a normal stop.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
