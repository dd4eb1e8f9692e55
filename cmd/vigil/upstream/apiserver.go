package upstream

// apiServing are the sections that `vigil up` and `vigil apiserver` have in common.
func apiServing() []Section {
	return []Section{
		section("etcd", own(`etcd-servers etcd-cafile etcd-certfile etcd-keyfile etcd-prefix etcd-compaction-interval event-ttl watch-cache watch-cache-sizes
			encryption-provider-config encryption-provider-config-automatic-reload`),
			only("storage-backend", "etcd3", "objects are kept in etcd"),
			only("storage-media-type", "application/vnd.kubernetes.protobuf", "objects are kept as protobuf"),
			only("etcd-servers-overrides", "", oneEtcd),
			only("enable-garbage-collector", "true", "finalizers of deletions are always heeded"),
			noEffect("delete-collection-workers", "1", "objects of a collection are deleted as fast as etcd takes it"),
			noEffect("default-watch-cache-size", "100", "the window of events follows the time that they cover"),
			noEffect("lease-reuse-duration-seconds", "60", "leases of events are shared by minute"),
			noEffect("etcd-count-metric-poll-period", "1m0s", "objects are counted as they come and go"),
			noEffect("etcd-db-metric-poll-interval", "30s", "etcd is asked for its size when metrics are read"),
			noEffect("etcd-healthcheck-timeout", "2s", "etcd is watched all the time"),
			noEffect("etcd-readycheck-timeout", "2s", "etcd is watched all the time"),
			noEffect("storage-initialization-timeout", "1m0s", "requests wait for etcd as long as they may take"),
		),
		section("requests", own(`max-requests-inflight max-mutating-requests-inflight enable-priority-and-fairness max-list-bytes-inflight max-list-bytes-inflight-per-user request-timeout
			min-request-timeout goaway-chance watch-compression shutdown-delay-duration`),
			only("cors-allowed-origins", "", "browsers on other origins are not let in"),
			only("external-hostname", "", "the server calls itself by its advertised address"),
			only("livez-grace-period", "0s", "/livez says at once what is the case"),
			only("max-connection-bytes-per-sec", "0", "connections of users are not slowed down"),
			only("shutdown-send-retry-after", "false", "requests are served until the end"),
			only("shutdown-watch-termination-grace-period", "0s", "watches end at once"),
			only("strict-transport-security-directives", "", "that header is for browsers"),
		),
		section("authentication", own(`anonymous-auth token-auth-file enable-bootstrap-token-auth authentication-config authentication-token-webhook-config-file authentication-token-webhook-version
			authentication-token-webhook-cache-ttl oidc-issuer-url oidc-client-id oidc-ca-file oidc-username-claim oidc-username-prefix oidc-groups-claim oidc-groups-prefix oidc-signing-algs oidc-required-claim
			requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers requestheader-username-headers client-ca-file`)),
		section("service accounts", own(`service-account-issuer service-account-key-file service-account-signing-key-file service-account-jwks-uri service-account-max-token-expiration
			service-account-extend-token-expiration api-audiences`),
			only("service-account-lookup", "true", "tokens end with their service accounts"),
			only("service-account-signing-endpoint", "", "tokens are signed with a key in a file"),
		),
		section("authorization", own(`authorization-mode authorization-config authorization-policy-file authorization-webhook-config-file authorization-webhook-version
			authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl`)),
		section("admission", own(`enable-admission-plugins disable-admission-plugins default-not-ready-toleration-seconds default-unreachable-toleration-seconds`),
			only("admission-control", "", "use --enable-admission-plugins; this flag is deprecated"),
			only("admission-control-config-file", "", "plug-ins have no settings of their own yet"),
			only("allow-privileged", "true", "pods may ask for privileged containers; namespaces forbid that with pod-security.kubernetes.io/enforce"),
		),
		section("auditing", own(`audit-policy-file audit-log-path audit-log-maxage audit-log-maxbackup audit-log-maxsize audit-log-compress audit-log-format audit-log-mode audit-log-batch-buffer-size
			audit-log-batch-max-size audit-log-batch-max-wait audit-log-batch-throttle-enable audit-log-batch-throttle-qps audit-log-batch-throttle-burst audit-log-truncate-enabled
			audit-log-truncate-max-event-size audit-log-truncate-max-batch-size audit-webhook-config-file audit-webhook-initial-backoff audit-webhook-mode audit-webhook-batch-buffer-size
			audit-webhook-batch-max-size audit-webhook-batch-max-wait audit-webhook-batch-throttle-enable audit-webhook-batch-throttle-qps audit-webhook-batch-throttle-burst
			audit-webhook-truncate-enabled audit-webhook-truncate-max-event-size audit-webhook-truncate-max-batch-size`),
			only("audit-log-version", "audit.k8s.io/v1", "audit events have one version"),
			only("audit-webhook-version", "audit.k8s.io/v1", "audit events have one version"),
		),
		section("kubelets", own(`kubelet-certificate-authority kubelet-client-certificate kubelet-client-key kubelet-preferred-address-types kubelet-timeout`),
			noEffect("kubelet-port", "10250", "kubelets say in their Nodes which port they have"),
		),
		section("services", own(`service-cluster-ip-range service-node-port-range advertise-address`),
			only("endpoint-reconciler-type", "lease", "servers that have ended leave the endpoints of the Service kubernetes with their Leases"),
			only("kubernetes-service-node-port", "0", "the Service kubernetes has a cluster IP only"),
		),
		section("aggregation", nil,
			noEffect("proxy-client-cert-file", "", "no APIService is asked yet"),
			noEffect("proxy-client-key-file", "", "no APIService is asked yet"),
			only("aggregator-reject-forwarding-redirect", "true", "redirects are not passed on"),
			only("enable-aggregator-routing", "false", "no APIService is asked yet"),
			only("peer-advertise-ip", "", "servers do not pass requests to each other"),
			only("peer-advertise-port", "", "servers do not pass requests to each other"),
			only("peer-ca-file", "", "servers do not pass requests to each other"),
		),
		section("API enablement", own("runtime-config feature-gates"), append(versions(),
			only("runtime-config-emulation-forward-compatible", "false", nothingElse))...),
		section("features", own("profiling contention-profiling"),
			only("debug-socket-path", "", "profiles are served to those who may read them, on the server's port"),
			only("egress-selector-config-file", "", "connections are made directly"),
			only("tracing-config-file", "", noTracing),
			noEffect("coordinated-leadership-lease-duration", "15s", "leaders are not chosen by the server: that feature is off by default"),
			noEffect("coordinated-leadership-renew-deadline", "10s", "leaders are not chosen by the server: that feature is off by default"),
			noEffect("coordinated-leadership-retry-period", "2s", "leaders are not chosen by the server: that feature is off by default"),
			noEffect("identity-lease-duration-seconds", "3600", "the server's own Lease has a fixed life"),
			noEffect("identity-lease-renew-interval-seconds", "10", "the server's own Lease is renewed in time"),
		),
		metrics(),
		logs(),
	}
}

// APIServer is the table of kube-apiserver.
func APIServer() []Section {
	return join([]Section{secureServing()}, apiServing())
}

// Up is the table of `vigil up`: what a newcomer needs first, then the API server's and the nodes' flags.
func Up() []Section {
	return join([]Section{
		section("most used", own(`data-dir nodes runtime bind-address secure-port advertise-address merge-kubeconfig cluster-cidr service-cluster-ip-range registries
			enable-admission-plugins feature-gates log-level`)),
		section("cluster", own(`etcd-port controller-manager-port scheduler-port certificate-life node-monitor-grace-period node-lease-duration-seconds node-status-update-frequency`)),
	}, nodes(), []Section{secureServing()}, apiServing())
}
