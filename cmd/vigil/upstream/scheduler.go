package upstream

// Scheduler is the table of kube-scheduler.
func Scheduler() []Section {
	return join([]Section{
		section("misc", own("config write-config-to kubeconfig master kube-api-qps kube-api-burst feature-gates"), append(versions(),
			noEffect("kube-api-content-type", "application/vnd.kubernetes.protobuf", "protobuf is spoken wherever the server does"),
			only("pod-max-in-unschedulable-pods-duration", "5m0s", "pods wait for what would let them fit, however long that takes"),
		)...),
		secureServing(),
	}, delegated(), []Section{election(), section("debugging", own("profiling contention-profiling")), metrics(), logs()})
}
