package bootstrappolicy

import rbacv1 "k8s.io/api/rbac/v1"

// controller is the role of a controller, held by the service account of its name in kube-system.
type controller struct {
	name  string
	quiet bool // it writes no events
	rules []rbacv1.PolicyRule
}

func (c controller) roleName() string { return "system:controller:" + c.name }

// controllerRoles are the roles of all controllers.
func controllerRoles() []rbacv1.ClusterRole {
	var roles []rbacv1.ClusterRole
	for _, c := range controllers() {
		rules := c.rules
		if !c.quiet {
			rules = append(rules, record())
		}
		roles = append(roles, clusterRole(c.roleName(), rules...))
	}
	return roles
}

func can(rules ...rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }

const (
	everything = "create delete " + read + " patch update"
	finish     = "patch update"
)

// controllers are in upstream's order: as far as the role's name goes, alphabetical.
func controllers() []controller {
	return []controller{
		{name: "attachdetach-controller", rules: can(
			rule("list watch", core, "persistentvolumes persistentvolumeclaims"),
			rule(read, core, "nodes"),
			rule(finish, core, "nodes/status"),
			rule("list watch", core, "pods"),
			rule("create delete "+read, storage, "volumeattachments"),
			rule(read, storage, "csidrivers csinodes"))},
		{name: "certificate-controller", rules: can(
			rule("delete "+read, certificates, "certificatesigningrequests"),
			rule("update", certificates, "certificatesigningrequests/approval certificatesigningrequests/status"),
			named("approve", certificates, "signers", "kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving"), // the second is ours
			named("sign", certificates, "signers", "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"),
			rule("create", authorization, "subjectaccessreviews"))},
		{name: "clusterrole-aggregation-controller", quiet: true, rules: can(
			rule("escalate "+read+" patch update", rbac, "clusterroles"))},
		{name: "cronjob-controller", rules: can(
			rule(read+" update", batch, "cronjobs"),
			rule(everything, batch, "jobs"),
			rule("update", batch, "cronjobs/status"),
			rule("update", batch, "cronjobs/finalizers"),
			rule("delete list watch", core, "pods"))},
		{name: "daemon-set-controller", rules: can(
			rule(read, extensions+" "+apps, "daemonsets"),
			rule("update", extensions+" "+apps, "daemonsets/status"),
			rule("update", extensions+" "+apps, "daemonsets/finalizers"),
			rule("list watch", core, "nodes"),
			rule("create delete list patch watch", core, "pods"),
			rule("create", core, "pods/binding"),
			rule(everything, apps, "controllerrevisions"))},
		{name: "deployment-controller", rules: can(
			rule(read+" update", extensions+" "+apps, "deployments"),
			rule("update", extensions+" "+apps, "deployments/status"),
			rule("update", extensions+" "+apps, "deployments/finalizers"),
			rule(everything, extensions+" "+apps, "replicasets"),
			rule(read+" update", core, "pods"))},
		{name: "device-taint-eviction-controller", rules: can(
			rule("delete "+read, core, "pods"),
			rule(finish, core, "pods/status"),
			rule(read, resource, "resourceclaims resourceslices deviceclasses"))},
		{name: "disruption-controller", rules: can(
			rule(read, extensions+" "+apps, "deployments"),
			rule(read, extensions+" "+apps, "replicasets"),
			rule(read, core, "replicationcontrollers"),
			rule(read, policy, "poddisruptionbudgets"),
			rule(read, apps, "statefulsets"),
			rule("update", policy, "poddisruptionbudgets/status"),
			rule(finish, core, "pods/status"),
			rule("get", "*", "*/scale"))},
		{name: "endpoint-controller", rules: can(
			rule(read, core, "services pods"),
			rule("create delete "+read+" update", core, "endpoints"),
			rule("create", core, "endpoints/restricted"))},
		{name: "endpointslice-controller", rules: can(
			rule(read, core, "services pods nodes"),
			rule("update", core, "services/finalizers"),
			rule("create delete "+read+" update", discovery, "endpointslices"))},
		{name: "endpointslicemirroring-controller", rules: can(
			rule(read, core, "services endpoints"),
			rule("update", core, "services/finalizers"),
			rule("update", core, "endpoints/finalizers"),
			rule("create delete "+read+" update", discovery, "endpointslices"))},
		{name: "ephemeral-volume-controller", rules: can(
			rule("update", core, "pods/finalizers"),
			rule(read, core, "pods"),
			rule("create "+read, core, "persistentvolumeclaims"))},
		{name: "expand-controller", rules: can(
			rule(read+" patch update", core, "persistentvolumes"),
			rule(finish, core, "persistentvolumeclaims/status"),
			rule(read, core, "persistentvolumeclaims"))},
		{name: "generic-garbage-collector", rules: can(
			rule("delete "+read+" patch update", "*", "*"))},
		{name: "horizontal-pod-autoscaler", rules: can(
			rule(read, autoscaling, "horizontalpodautoscalers"),
			rule("update", autoscaling, "horizontalpodautoscalers/status"),
			rule("get update", "*", "*/scale"),
			rule("list watch", core, "pods"),
			rule("list watch", "metrics.k8s.io", "pods"),
			rule(read, "custom.metrics.k8s.io", "*"),
			rule(read, "external.metrics.k8s.io", "*"))},
		{name: "job-controller", rules: can(
			rule(read+" patch update", batch, "jobs"),
			rule("update", batch, "jobs/status"),
			rule("update", batch, "jobs/finalizers"),
			rule("create delete list patch watch", core, "pods"))},
		{name: "legacy-service-account-token-cleaner", quiet: true, rules: can(
			named("get", core, "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
			rule("delete patch", core, "secrets"))},
		{name: "local-volume-provisioner", rules: can( // ours
			rule("create delete "+read+" update", core, "persistentvolumes"),
			rule(read+" update", core, "persistentvolumeclaims"),
			rule(read+" patch", core, "nodes"),
			rule(read, storage, "storageclasses"))},
		{name: "namespace-controller", quiet: true, rules: can(
			rule("delete "+read, core, "namespaces"),
			rule("update", core, "namespaces/finalize namespaces/status"),
			rule("delete deletecollection "+read, "*", "*"))},
		{name: "node-controller", rules: can(
			rule("delete "+read+" patch update", core, "nodes"),
			rule(finish, core, "nodes/status"),
			rule(finish, core, "pods/status"),
			rule("delete "+read, core, "pods"),
			rule(read, coordination, "leases"))},
		{name: "persistent-volume-binder", rules: can(
			rule("create delete "+read+" update", core, "persistentvolumes"),
			rule("update", core, "persistentvolumes/status"),
			rule(read+" update", core, "persistentvolumeclaims"),
			rule("update", core, "persistentvolumeclaims/status"),
			rule("create delete "+read, core, "pods"),
			rule(read, storage, "storageclasses"),
			rule("list watch", core, "nodes"),
			rule("watch", core, "events"))},
		{name: "pod-garbage-collector", quiet: true, rules: can(
			rule("delete list watch", core, "pods"),
			rule(read, core, "nodes"),
			rule("patch", core, "pods/status"))},
		{name: "pv-protection-controller", rules: can(
			rule(read+" update", core, "persistentvolumes"))},
		{name: "pvc-protection-controller", rules: can(
			rule(read+" update", core, "persistentvolumeclaims"),
			rule("update", core, "persistentvolumeclaims/status"),
			rule(read, core, "pods"))},
		{name: "replicaset-controller", rules: can(
			rule(read+" update", extensions+" "+apps, "replicasets"),
			rule("update", extensions+" "+apps, "replicasets/status"),
			rule("update", extensions+" "+apps, "replicasets/finalizers"),
			rule("create delete list patch watch", core, "pods"))},
		{name: "replication-controller", rules: can(
			rule(read+" update", core, "replicationcontrollers"),
			rule("update", core, "replicationcontrollers/status"),
			rule("update", core, "replicationcontrollers/finalizers"),
			rule("create delete list patch watch", core, "pods"))},
		{name: "resource-claim-controller", rules: can(
			rule("update", core, "pods/finalizers"),
			rule(read, core, "pods"),
			rule(everything, resource, "resourceclaims"),
			rule(finish, resource, "resourceclaims/binding"),
			rule(finish, resource, "resourceclaims/status"),
			rule(finish, core, "pods/status"))},
		{name: "resourcequota-controller", rules: can(
			rule("list watch", "*", "*"),
			rule("update", core, "resourcequotas/status"))},
		{name: "root-ca-cert-publisher", rules: can(
			rule("create update", core, "configmaps"))},
		{name: "route-controller", rules: can(
			rule("list watch", core, "nodes"),
			rule("patch", core, "nodes/status"))},
		{name: "selinux-warning-controller", rules: can(
			rule(read, core, "persistentvolumes persistentvolumeclaims pods"),
			rule(read, storage, "csidrivers"))},
		{name: "service-account-controller", rules: can(
			rule("create", core, "serviceaccounts"))},
		{name: "service-cidrs-controller", rules: can(
			rule(read+" patch update", networking, "servicecidrs"),
			rule(finish, networking, "servicecidrs/finalizers"),
			rule(finish, networking, "servicecidrs/status"),
			rule(read, networking, "ipaddresses"))},
		{name: "service-controller", rules: can(
			rule(read, core, "services"),
			rule(finish, core, "services/status"),
			rule("list watch", core, "nodes"))},
		{name: "statefulset-controller", rules: can(
			rule("list watch", core, "pods"),
			rule(read, apps, "statefulsets"),
			rule("update", apps, "statefulsets/status"),
			rule("update", apps, "statefulsets/finalizers"),
			rule("create delete get patch update", core, "pods"),
			rule(everything, apps, "controllerrevisions"),
			rule("create delete "+read+" update", core, "persistentvolumeclaims"),
			rule("update", core, "pods/finalizers"))},
		{name: "ttl-after-finished-controller", rules: can(
			rule("delete "+read, batch, "jobs"))},
		{name: "ttl-controller", rules: can(
			rule("list patch update watch", core, "nodes"))},
		{name: "validatingadmissionpolicy-status-controller", rules: can(
			rule(read, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
			rule("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"))},
		{name: "volumeattributesclass-protection-controller", rules: can(
			rule(read, core, "persistentvolumeclaims persistentvolumes"),
			rule(read+" update", storage, "volumeattributesclasses"))},
	}
}
