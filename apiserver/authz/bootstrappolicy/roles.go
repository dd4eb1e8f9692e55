package bootstrappolicy

import rbacv1 "k8s.io/api/rbac/v1"

// ClusterRoles returns the roles of the cluster, those of controllers included.
func ClusterRoles() []rbacv1.ClusterRole {
	var roles []rbacv1.ClusterRole
	roles = append(roles, people()...)
	roles = append(roles, everybody()...)
	roles = append(roles, components()...)
	return append(roles, controllerRoles()...)
}

// people are the roles that administrators give out.
func people() []rbacv1.ClusterRole {
	const (
		pods      = "pods pods/attach pods/exec pods/portforward pods/proxy"
		workloads = "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"
		oldEdit   = "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"
		oldView   = "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies " +
			"replicasets replicasets/scale replicasets/status replicationcontrollers/scale"
	)
	return []rbacv1.ClusterRole{
		clusterRole("cluster-admin", rule("*", "*", "*"), paths("*", "*")),
		aggregating("admin"),
		aggregated(aggregating("edit"), "admin"),
		aggregated(aggregating("view"), "edit"),

		aggregated(clusterRole("system:aggregate-to-admin",
			rule("create", authorization, "localsubjectaccessreviews"),
			rule(all, rbac, "roles rolebindings"),
		), "admin"),

		aggregated(clusterRole("system:aggregate-to-edit",
			rule(read, core, "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
			rule("impersonate", core, "serviceaccounts"),
			rule(write, core, pods),
			rule("create", core, "pods/eviction"),
			rule(write, core, "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
			rule("create", core, "serviceaccounts/token"),
			rule(write, apps, workloads),
			rule(write, autoscaling, "horizontalpodautoscalers"),
			rule(write, batch, "cronjobs jobs"),
			rule(write, extensions, oldEdit),
			rule(write, policy, "poddisruptionbudgets"),
			rule(write, networking, "ingresses networkpolicies"),
			rule(all, coordination, "leases"),
			rule(write, resource, "resourceclaims resourceclaimtemplates"),
		), "edit"),

		aggregated(clusterRole("system:aggregate-to-view",
			rule(read, core, "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
			rule(read, core, "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
			rule(read, core, "namespaces"),
			rule(read, discovery, "endpointslices"),
			rule(read, apps, "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
			rule(read, autoscaling, "horizontalpodautoscalers horizontalpodautoscalers/status"),
			rule(read, batch, "cronjobs cronjobs/status jobs jobs/status"),
			rule(read, extensions, oldView),
			rule(read, policy, "poddisruptionbudgets poddisruptionbudgets/status"),
			rule(read, networking, "ingresses ingresses/status networkpolicies"),
			rule(read, resource, "resourceclaims resourceclaims/status resourceclaimtemplates"),
		), "view"),

		// As metrics-server brings it.
		aggregated(clusterRole("system:aggregated-metrics-reader", rule(read, "metrics.k8s.io", "pods nodes")), "view"),
	}
}

// PublicInfo is what anybody may see of a server.
func PublicInfo() rbacv1.PolicyRule {
	return paths("get", "/livez /readyz /healthz /version /version/")
}

// everybody are the roles that groups of all callers hold.
func everybody() []rbacv1.ClusterRole {
	return []rbacv1.ClusterRole{
		clusterRole("system:basic-user",
			rule("create", authorization, "selfsubjectaccessreviews selfsubjectrulesreviews"),
			rule("create", authentication, "selfsubjectreviews")),
		clusterRole("system:discovery", paths("get", "/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*")),
		clusterRole("system:public-info-viewer", PublicInfo()),
		clusterRole("system:monitoring", paths("get", "/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* /flagz /statusz")),
		clusterRole("system:service-account-issuer-discovery", paths("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/")),
		clusterRole("system:auth-delegator",
			rule("create", authentication, "tokenreviews"),
			rule("create", authorization, "subjectaccessreviews")),
		clusterRole("system:cluster-trust-bundle-discovery", rule(read, certificates, "clustertrustbundles")),
	}
}

// components are the roles of what runs in a cluster.
func components() []rbacv1.ClusterRole {
	return []rbacv1.ClusterRole{
		clusterRole("system:heapster",
			rule(read, core, "events pods nodes namespaces"),
			rule(read, extensions, "deployments")),
		clusterRole("system:kube-aggregator", rule(read, core, "services endpoints")),
		clusterRole("system:kube-dns", rule("list watch", core, "endpoints services")),
		clusterRole("system:kubelet-api-admin",
			rule(read, core, "nodes"),
			rule("proxy", core, "nodes"),
			rule("*", core, "nodes/proxy nodes/metrics nodes/stats nodes/log nodes/configz nodes/healthz nodes/pods")),
		clusterRole("system:node-bootstrapper", rule("create "+read, certificates, "certificatesigningrequests")),
		clusterRole("system:node-problem-detector",
			rule("get", core, "nodes"),
			rule("patch", core, "nodes/status"),
			record()),
		clusterRole("system:node-proxier",
			rule("list watch", core, "services endpoints"),
			rule(read, core, "nodes"),
			record(),
			rule("list watch", networking, "servicecidrs"),
			rule("list watch", discovery, "endpointslices")),
		clusterRole("system:persistent-volume-provisioner",
			rule("create delete "+read, core, "persistentvolumes"),
			rule("update "+read, core, "persistentvolumeclaims"),
			rule(read, storage, "storageclasses"),
			rule("watch", core, "events"),
			record()),
		clusterRole("system:volume-scheduler",
			rule(read+" patch update", core, "persistentvolumes"),
			rule(read, storage, "storageclasses"),
			rule(read+" patch update", core, "persistentvolumeclaims")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient", rule("create", certificates, "certificatesigningrequests/nodeclient")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rule("create", certificates, "certificatesigningrequests/selfnodeclient")),
		clusterRole("system:certificates.k8s.io:legacy-unknown-approver", named("approve", certificates, "signers", "kubernetes.io/legacy-unknown")),
		clusterRole("system:certificates.k8s.io:kubelet-serving-approver", named("approve", certificates, "signers", "kubernetes.io/kubelet-serving")),
		clusterRole("system:certificates.k8s.io:kube-apiserver-client-approver", named("approve", certificates, "signers", "kubernetes.io/kube-apiserver-client")),
		clusterRole("system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", named("approve", certificates, "signers", "kubernetes.io/kube-apiserver-client-kubelet")),
		clusterRole("system:kube-controller-manager",
			record(),
			rule("create", coordination, "leases"),
			named("get update", coordination, "leases", "kube-controller-manager"),
			rule("create", core, "secrets serviceaccounts"),
			rule("delete", core, "secrets"),
			rule("get", core, "namespaces secrets serviceaccounts configmaps"),
			rule("update", core, "secrets serviceaccounts"),
			rule("create", authentication, "tokenreviews"),
			rule("create", authorization, "subjectaccessreviews"),
			rule("list watch", "*", "*"),
			rule("create", core, "serviceaccounts/token")),
		clusterRole("system:kube-scheduler",
			record(),
			rule("create", coordination, "leases"),
			named("get list update watch", coordination, "leases", "kube-scheduler"),
			rule(read, core, "nodes"),
			rule("delete "+read, core, "pods"),
			rule("create", core, "bindings pods/binding"),
			rule("patch update", core, "pods/status"),
			rule(read, core, "replicationcontrollers services"),
			rule(read, apps+" "+extensions, "replicasets"),
			rule(read, apps, "statefulsets"),
			rule(read, policy, "poddisruptionbudgets"),
			rule(read, core, "persistentvolumeclaims persistentvolumes"),
			rule("create", authentication, "tokenreviews"),
			rule("create", authorization, "subjectaccessreviews"),
			rule(read, storage, "csinodes volumeattachments csidrivers csistoragecapacities"),
			rule(read, core, "namespaces"),
			rule(read, resource, "deviceclasses resourceslices"),
			rule(read+" patch update", resource, "resourceclaims resourceclaims/status"),
			rule(read+" patch update", core, "pods/finalizers")),
		clusterRole("system:node", NodeRules()...),
	}
}
