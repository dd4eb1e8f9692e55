package upstream

// nodes are the sections that `vigil up` and `vigil kubelet` have in common.
func nodes() []Section {
	return []Section{
		section("node", own(`hostname-override node-ip node-labels register-node register-with-taints provider-id max-pods pods-per-core pod-max-pids pod-manifest-path pod-cidr cluster-cidr
			node-status-report-frequency node-network-mode`)),
		section("container runtime", own(`runtime runtime-dir container-runtime-endpoint image-service-endpoint runtime-request-timeout cni-conf-dir cgroup-root seccomp-default`)),
		section("images and logs", own(`registries serialize-image-pulls max-parallel-image-pulls image-credential-provider-config image-credential-provider-bin-dir image-gc-high-threshold
			image-gc-low-threshold minimum-image-ttl-duration image-maximum-gc-age container-log-max-size container-log-max-files`)),
		section("resources and eviction", own(`system-reserved kube-reserved enforce-node-allocatable eviction-hard eviction-soft eviction-soft-grace-period eviction-minimum-reclaim
			eviction-pressure-transition-period eviction-max-pod-grace-period cpu-cfs-quota local-storage-capacity-isolation allowed-unsafe-sysctls volume-stats-agg-period fail-swap-on`)),
		section("names", own(`cluster-dns cluster-domain resolv-conf`)),
	}
}

// Kubelet is the table of the kubelet.
func Kubelet() []Section {
	const (
		noPolicy  = "processors, memory and devices are not assigned to containers one by one"
		cadvisor  = "cAdvisor is not built in; the kubelet measures pods itself"
		noHousing = "pods that are gone are cleaned up after at once"
	)
	return join([]Section{
		section("generic", own(`kubeconfig bootstrap-kubeconfig config config-dir cert-dir rotate-certificates data-dir node-dir root-dir pod-log-dir feature-gates`)),
		section("server", own(`enable-server address port tls-cert-file tls-private-key-file tls-min-version tls-cipher-suites rotate-server-certificates client-ca-file anonymous-auth
			authentication-token-webhook authorization-mode healthz-bind-address healthz-port`),
			only("read-only-port", "0", "nothing is served without TLS but /healthz"),
			only("authentication-token-webhook-cache-ttl", "2m0s", "the time is upstream's default"),
			only("authorization-webhook-cache-authorized-ttl", "5m0s", "the time is upstream's default"),
			only("authorization-webhook-cache-unauthorized-ttl", "30s", "the time is upstream's default"),
			only("enable-debugging-handlers", "true", "logs, exec and the rest are served to those who may"),
			only("contention-profiling", "false", "profiles of contention are not taken"),
		),
	}, nodes(), []Section{
		section("other", own("node-status-update-frequency node-lease-duration-seconds"),
			noEffect("pod-infra-container-image", "", "the runtime knows its sandbox image"),
			only("cgroup-driver", "cgroupfs", "the kubelet makes cgroups itself, without systemd"),
			only("cgroups-per-qos", "true", "classes of service have cgroups of their own"),
			only("cloud-provider", "", noCloud),
			only("cloud-config", "", noCloud),
			only("container-runtime", "remote", "containers are made over the Container Runtime Interface"),
			only("cpu-cfs-quota-period", "100ms", "the period is upstream's default"),
			only("cpu-manager-policy", "none", noPolicy), only("cpu-manager-policy-options", "", noPolicy), noEffect("cpu-manager-reconcile-period", "10s", noPolicy),
			only("memory-manager-policy", "None", noPolicy), only("reserved-memory", "", noPolicy), only("reserved-cpus", "", noPolicy),
			only("topology-manager-policy", "none", noPolicy), only("topology-manager-scope", "container", noPolicy), only("topology-manager-policy-options", "", noPolicy),
			only("enable-controller-attach-detach", "true", "volumes are attached by the controller manager"),
			only("exit-on-lock-contention", "false", "a node's directory is used by one kubelet"), only("lock-file", "", "a node's directory is used by one kubelet"),
			only("experimental-allocatable-ignore-eviction", "false", "thresholds of eviction are kept free"),
			noEffect("event-burst", "100", pace), noEffect("event-qps", "50", pace), noEffect("kube-api-burst", "100", pace), noEffect("kube-api-qps", "50", pace),
			noEffect("kube-api-content-type", "application/vnd.kubernetes.protobuf", "protobuf is spoken wherever the server does"),
			noEffect("registry-burst", "10", pace), noEffect("registry-qps", "5", pace),
			noEffect("file-check-frequency", "20s", "manifests are watched"), noEffect("http-check-frequency", "20s", "there are no manifests from a URL"),
			noEffect("sync-frequency", "1m0s", "pods are looked at when something happens"), noEffect("housekeeping-interval", "10s", noHousing),
			noEffect("global-housekeeping-interval", "1m0s", cadvisor), noEffect("log-cadvisor-usage", "false", cadvisor), noEffect("machine-id-file", "", cadvisor), noEffect("boot-id-file", "", cadvisor),
			noEffect("storage-driver-db", "cadvisor", cadvisor), noEffect("storage-driver-buffer-duration", "1m0s", cadvisor),
			noEffect("maximum-dead-containers", "-1", "the last dead container of each is kept for its logs"),
			noEffect("maximum-dead-containers-per-container", "1", "the last dead container of each is kept for its logs"),
			noEffect("minimum-container-ttl-duration", "0s", "the last dead container of each is kept for its logs"),
			only("hairpin-mode", "promiscuous-bridge", "pods reach themselves through their own port"),
			noEffect("iptables-drop-bit", "15", "rules are nftables'"), noEffect("iptables-masquerade-bit", "14", "rules are nftables'"),
			only("make-iptables-util-chains", "true", "rules are nftables'"),
			only("keep-terminated-pod-volumes", "false", "volumes go with their pods"),
			only("kernel-memcg-notification", "false", "memory is looked at all the time"),
			only("kube-reserved-cgroup", "", "what is reserved is not enforced on the system"), only("system-reserved-cgroup", "", "what is reserved is not enforced on the system"),
			only("kubelet-cgroups", "", "the kubelet stays where it was started"), only("runtime-cgroups", "", "the runtime stays where it was started"), only("system-cgroups", "", "processes stay where they were started"),
			only("manifest-url", "", "manifests are read from a directory"), only("manifest-url-header", "", "manifests are read from a directory"),
			only("max-open-files", "1000000", "the limit is what the process was started with, at most"),
			noEffect("node-status-max-images", "50", "the largest images are named, as many as upstream names"),
			noEffect("oom-score-adj", "-999", "the kubelet leaves its own score as it is"),
			only("protect-kernel-defaults", "false", "the kernel's settings stay as they are"),
			only("qos-reserved", "", "memory of a class of service is not reserved"),
			only("run-once", "false", "a kubelet runs until it is told to end"), only("runonce", "false", "a kubelet runs until it is told to end"),
			only("register-schedulable", "true", "use --register-with-taints"),
			noEffect("streaming-connection-idle-timeout", "4h0m0s", "the runtime ends idle sessions"),
			noEffect("volume-plugin-dir", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", "there are no FlexVolumes"),
			only("experimental-kernel-memcg-notification", "false", "memory is looked at all the time"),
			only("experimental-mounter-path", "", "mount(8) is not called"),
		),
		metrics(), logs(),
	})
}
