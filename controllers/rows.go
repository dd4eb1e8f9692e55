package controllers

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"vigil/controllers/attachdetach"
	"vigil/controllers/bootstraptoken"
	"vigil/controllers/certificates"
	"vigil/controllers/clusterroleaggregation"
	"vigil/controllers/deployment"
	"vigil/controllers/endpoints"
	"vigil/controllers/ephemeral"
	"vigil/controllers/garbagecollector"
	"vigil/controllers/localprovisioner"
	"vigil/controllers/namespace"
	"vigil/controllers/nodeipam"
	"vigil/controllers/nodelifecycle"
	"vigil/controllers/persistentvolume"
	"vigil/controllers/replicaset"
	"vigil/controllers/resourcequota"
	"vigil/controllers/serviceaccount"
	"vigil/controllers/servicecidr"
	"vigil/controllers/storageprotection"
)

// row is a controller.
type row struct {
	// names are what --controllers calls it. The first is its name in messages. It has several if it does what several of upstream's
	// controllers do: they run together or not at all.
	names []string
	// accounts are the service accounts of kube-system as which it acts. What each may do is in apiserver/authz/bootstrappolicy.
	accounts []string
	// needs says whether there is what it works with; nil: always.
	needs func(Config) bool
	make  func(*making) (run, error)
}

type run func(context.Context) error

func (r *row) name() string { return r.names[0] }

// rows are all controllers.
var rows = []row{
	{
		names:    []string{"deployment-controller"},
		accounts: []string{"deployment-controller"},
		make: func(m *making) (run, error) {
			return deployment.New(deployment.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("deployment-controller"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"replicaset-controller"},
		accounts: []string{"replicaset-controller"},
		make: func(m *making) (run, error) {
			return replicaset.New(replicaset.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("replicaset-controller"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"namespace-controller"},
		accounts: []string{"namespace-controller"},
		make: func(m *making) (run, error) {
			return namespace.New(namespace.Config{
				Client: m.client(), Metadata: m.metadata(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"garbage-collector-controller"},
		accounts: []string{"generic-garbage-collector"},
		make: func(m *making) (run, error) {
			return garbagecollector.New(garbagecollector.Config{
				Server: rest.CopyConfig(m.Server), Discovery: m.discovery(), Metadata: m.metadata(),
				Informers: m.Informers, Recorder: m.recorder("garbage-collector-controller"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller"},
		accounts: []string{"node-controller"},
		make: func(m *making) (run, error) {
			return nodelifecycle.New(nodelifecycle.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("node-controller"), Logger: m.logger(), Metrics: m.metrics,
				NodeMonitorGracePeriod: m.NodeMonitorGracePeriod, TerminatedPodGCThreshold: m.TerminatedPodGCThreshold,
			}).Run, nil
		},
	},
	{
		names:    []string{"node-ipam-controller"},
		accounts: []string{"node-controller"},
		needs:    func(c Config) bool { return len(c.ClusterCIDRs) > 0 },
		make: func(m *making) (run, error) {
			ipam, err := nodeipam.New(nodeipam.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("cidrAllocator"), Logger: m.logger(), Metrics: m.metrics,
				ClusterCIDRs: m.ClusterCIDRs, ServiceCIDRs: m.ServiceCIDRs, MaskSizeIPv4: m.NodeMaskSizeIPv4, MaskSizeIPv6: m.NodeMaskSizeIPv6,
			})
			if err != nil {
				return nil, fmt.Errorf("pod networks of nodes: %w", err)
			}
			return ipam.Run, nil
		},
	},
	{
		names:    []string{"serviceaccount-controller", "root-ca-certificate-publisher-controller"},
		accounts: []string{"service-account-controller", "root-ca-cert-publisher"},
		make: func(m *making) (run, error) {
			return serviceaccount.New(serviceaccount.Config{
				Client: m.client(), Publisher: m.clientOf("root-ca-cert-publisher"), RootCA: m.RootCA, Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names: []string{"serviceaccount-token-controller"},
		needs: func(c Config) bool { return c.TokenKey != nil },
		make: func(m *making) (run, error) {
			// It acts as the controller manager: it makes what the other accounts need.
			tokens, err := serviceaccount.NewTokens(serviceaccount.TokensConfig{
				Client: m.clients.own, Key: m.TokenKey, RootCA: m.RootCA, Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			})
			if err != nil {
				return nil, err
			}
			return tokens.Run, nil
		},
	},
	{
		names:    []string{"legacy-serviceaccount-token-cleaner-controller"},
		accounts: []string{"legacy-service-account-token-cleaner"},
		make: func(m *making) (run, error) {
			return serviceaccount.NewCleaner(serviceaccount.CleanerConfig{
				Client: m.client(), Informers: m.Informers, CleanUpPeriod: m.TokenCleanUpPeriod, Logger: m.logger(),
			}).Run, nil
		},
	},
	{
		names:    []string{"endpoints-controller"},
		accounts: []string{"endpoint-controller"},
		make: func(m *making) (run, error) {
			return endpoints.New(endpoints.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("endpoint-controller"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"clusterrole-aggregation-controller"},
		accounts: []string{"clusterrole-aggregation-controller"},
		make: func(m *making) (run, error) {
			return clusterroleaggregation.New(clusterroleaggregation.Config{
				Client: m.client(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"resourcequota-controller"},
		accounts: []string{"resourcequota-controller"},
		make: func(m *making) (run, error) {
			return resourcequota.New(resourcequota.Config{
				Client: m.client(), Metadata: m.metadata(), Discovery: m.discovery(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"service-cidr-controller"},
		accounts: []string{"service-cidrs-controller"},
		make: func(m *making) (run, error) {
			return servicecidr.New(servicecidr.Config{
				Client: m.client(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"certificatesigningrequest-approving-controller"},
		accounts: []string{"certificate-controller"},
		make: func(m *making) (run, error) {
			return certificates.NewApprover(requests(m)).Run, nil
		},
	},
	{
		names:    []string{"certificatesigningrequest-cleaner-controller"},
		accounts: []string{"certificate-controller"},
		make: func(m *making) (run, error) {
			return certificates.NewCleaner(requests(m)).Run, nil
		},
	},
	{
		names:    []string{"certificatesigningrequest-signing-controller"},
		accounts: []string{"certificate-controller"},
		needs:    func(c Config) bool { return c.SigningAuthority != nil },
		make: func(m *making) (run, error) {
			return certificates.NewSigner(certificates.SignerConfig{Config: requests(m), Authority: m.SigningAuthority, Duration: m.SigningDuration}).Run, nil
		},
	},
	{
		names:    []string{"token-cleaner-controller"},
		accounts: []string{"token-cleaner"},
		make: func(m *making) (run, error) {
			return bootstraptoken.NewTokenCleaner(bootstraptoken.Config{
				Client: m.client(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"bootstrap-signer-controller"},
		accounts: []string{"bootstrap-signer"},
		make: func(m *making) (run, error) {
			return bootstraptoken.NewSigner(bootstraptoken.Config{
				Client: m.client(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller", "volumeattributesclass-protection-controller"},
		accounts: []string{"pvc-protection-controller", "pv-protection-controller", "volumeattributesclass-protection-controller"},
		make: func(m *making) (run, error) {
			return storageprotection.New(storageprotection.Config{
				Claims: m.client(), Volumes: m.clientOf("pv-protection-controller"), Classes: m.clientOf("volumeattributesclass-protection-controller"),
				Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"persistentvolume-binder-controller"},
		accounts: []string{"persistent-volume-binder"},
		make: func(m *making) (run, error) {
			return persistentvolume.New(persistentvolume.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("persistentvolume-controller"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"local-volume-provisioner"},
		accounts: []string{"local-volume-provisioner"},
		make: func(m *making) (run, error) {
			return localprovisioner.New(localprovisioner.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("vigil.dev/local"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"persistentvolume-attach-detach-controller"},
		accounts: []string{"attachdetach-controller"},
		make: func(m *making) (run, error) {
			return attachdetach.New(attachdetach.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("attachdetach-controller"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
	{
		names:    []string{"ephemeral-volume-controller"},
		accounts: []string{"ephemeral-volume-controller"},
		make: func(m *making) (run, error) {
			return ephemeral.New(ephemeral.Config{
				Client: m.client(), Informers: m.Informers, Recorder: m.recorder("ephemeral_volume"), Logger: m.logger(), Metrics: m.metrics,
			}).Run, nil
		},
	},
}

// requests is what the controllers of CertificateSigningRequests have in common.
func requests(m *making) certificates.Config {
	return certificates.Config{Server: m.Server, Client: m.client(), Informers: m.Informers, Logger: m.logger(), Metrics: m.metrics}
}
