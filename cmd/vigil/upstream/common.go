package upstream

import "slices"

const (
	oneEtcd     = "all objects are in one etcd cluster, under one prefix"
	pace        = "work is paced by what is there to do, not by a number"
	noTracing   = "no spans are sent to a collector yet"
	unbuffered  = "log lines are written at once, to standard error"
	allMetrics  = "all metrics are shown, with all labels"
	nothingElse = "this release emulates no other"
	noCloud     = "no cloud provider is built in, as upstream since 1.31"
)

// logs is the section of what is logged.
func logs() Section {
	return section("logs", own("log-level logging-format v vmodule"),
		noEffect("log-flush-frequency", "5s", unbuffered),
		only("log-json-info-buffer-size", "0", unbuffered),
		only("log-json-split-stream", "false", unbuffered),
		only("log-text-info-buffer-size", "0", unbuffered),
		only("log-text-split-stream", "false", unbuffered),
	)
}

// metrics is the section of what is measured.
func metrics() Section {
	return section("metrics", nil,
		only("allow-metric-labels", "", allMetrics),
		only("allow-metric-labels-manifest", "", allMetrics),
		only("disabled-metrics", "", allMetrics),
		only("show-hidden-metrics-for-version", "", allMetrics),
	)
}

// versions are flags of the release that a component behaves as.
func versions() []Flag {
	return []Flag{
		only("emulated-version", "", nothingElse),
		only("emulation-forward-compatible", "false", nothingElse),
		only("min-compatibility-version", "", nothingElse),
	}
}

// secureServing is the section of a component's port.
func secureServing(others ...Flag) Section {
	return section("secure serving", own(`bind-address secure-port cert-dir tls-cert-file tls-private-key-file tls-sni-cert-key tls-min-version tls-cipher-suites
		tls-curve-preferences disable-http2-serving http2-max-streams-per-connection permit-port-sharing`), append(others,
		only("permit-address-sharing", "false", "an address is listened on when its last server has let it go"))...)
}

// delegated are the sections of who may read a component's port.
func delegated() []Section {
	return []Section{
		section("authentication", own(`authentication-kubeconfig authentication-skip-lookup authentication-token-webhook-cache-ttl authentication-tolerate-lookup-failure client-ca-file
			requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers requestheader-username-headers`)),
		section("authorization", own(`authorization-kubeconfig authorization-always-allow-paths authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl`)),
	}
}

// election is the section of who of several works.
func election() Section {
	return section("leader election", own(`leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-retry-period leader-elect-resource-name leader-elect-resource-namespace`),
		only("leader-elect-resource-lock", "leases", "leaders are elected with Leases"))
}

func join(parts ...[]Section) []Section { return slices.Concat(parts...) }
