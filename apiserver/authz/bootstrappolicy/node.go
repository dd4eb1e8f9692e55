package bootstrappolicy

import rbacv1 "k8s.io/api/rbac/v1"

// NodeRules are what a kubelet may do at most. No binding refers to the role that has them; the node authorizer works with them
// and narrows what concerns objects to those of its own node.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "subjectaccessreviews localsubjectaccessreviews"),
		rule(read, core, "services"),
		rule("create "+read, core, "nodes"),
		rule("patch update", core, "nodes/status"),
		rule("patch update", core, "nodes"),
		rule("create patch update", core+" "+events, "events"),
		rule(read, core, "pods"),
		rule("create delete", core, "pods"),
		rule("patch update", core, "pods/status"),
		rule("create", core, "pods/eviction"),
		rule(read, core, "secrets configmaps"),
		rule("get", core, "persistentvolumeclaims persistentvolumes"),
		rule("get patch update", core, "persistentvolumeclaims/status"),
		rule("get", core, "endpoints"),
		rule("create "+read, certificates, "certificatesigningrequests"),
		rule("create delete get patch update", coordination, "leases"),
		rule("get", storage, "volumeattachments"),
		rule("create", core, "serviceaccounts/token"),
		rule("get", core, "serviceaccounts"),
		rule(read, storage, "csidrivers"),
		rule("create delete get patch update", storage, "csinodes"),
		rule(read, node, "runtimeclasses"),
		rule("get", resource, "resourceclaims"),
		rule("deletecollection", resource, "resourceslices"),
		rule(read, certificates, "clustertrustbundles"),
		rule("create "+read, certificates, "podcertificaterequests"),
	}
}
