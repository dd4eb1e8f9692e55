package node

import (
	"cmp"
	"context"
	"net/http"

	"vigil/kubelet/server"
)

// makeServer makes what answers at the kubelet's ports.
func (n *Node) makeServer(context.Context) error {
	healthy := map[string]func(*http.Request) error{"syncloop": func(*http.Request) error { return n.kubelet.Healthy() }}
	given := n.config.Server
	if given.HealthzPort != 0 {
		n.parts = append(n.parts, part{"healthz", func(ctx context.Context) error {
			return serveHealth(ctx, cmp.Or(given.HealthzAddress, "127.0.0.1"), given.HealthzPort, server.Health(healthy, n.indicators), n.log)
		}})
	}
	if given.Off {
		return nil
	}
	port, err := n.given.serving(n.client, given, n.config.NodeIP)
	if err != nil {
		return err
	}
	if port.run != nil {
		n.parts = append(n.parts, part{"serving certificate", port.run})
	}
	s, err := server.New(server.Config{
		Address: given.Address, Port: given.Port, NodeName: n.name, Certificate: port.certificate, ClientCA: port.clientCA, Client: n.client,
		MinVersion: given.TLSMinVersion, CipherSuites: given.TLSCipherSuites,
		Anonymous: given.Anonymous, NoTokens: given.NoTokens, AllowAll: given.AllowAll, Node: n.kubelet, Runtime: n.runtime, Streams: n.runtime,
		Checkpoints: n.runtime, CheckpointDir: n.checkpointDir(),
		Handlers: map[string]http.Handler{
			"/stats/summary": n.stats.ServeSummary(), "/metrics/resource": n.stats.ServeResource(), "/metrics/cadvisor": n.stats.ServeCadvisor(),
		},
		Metrics: n.registry, Registerer: n.registry, Healthy: healthy, SLIs: n.indicators, Configz: func() any { return n.given.configuration(n.config) }, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.parts = append(n.parts, part{"server", s.Run})
	return nil
}
