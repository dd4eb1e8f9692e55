package bootstrappolicy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRoleBindings returns who holds the roles of the cluster.
func ClusterRoleBindings() []rbacv1.ClusterRoleBinding {
	const everyone, nobody = "system:authenticated", "system:unauthenticated"
	bindings := []rbacv1.ClusterRoleBinding{
		clusterBinding("cluster-admin", "cluster-admin", group("system:masters")),
		clusterBinding("system:monitoring", "system:monitoring", group("system:monitoring")),
		clusterBinding("system:discovery", "system:discovery", group(everyone)),
		clusterBinding("system:basic-user", "system:basic-user", group(everyone)),
		clusterBinding("system:public-info-viewer", "system:public-info-viewer", group(everyone), group(nobody)),
		clusterBinding("system:node-proxier", "system:node-proxier", user("system:kube-proxy")),
		clusterBinding("system:kube-controller-manager", "system:kube-controller-manager", user("system:kube-controller-manager")),
		clusterBinding("system:kube-dns", "system:kube-dns", account("kube-dns")),
		clusterBinding("system:kube-scheduler", "system:kube-scheduler", user("system:kube-scheduler")),
		clusterBinding("system:volume-scheduler", "system:volume-scheduler", user("system:kube-scheduler")),
		clusterBinding("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", group("system:serviceaccounts")),
		clusterBinding("system:cluster-trust-bundle-discovery", "system:cluster-trust-bundle-discovery", group("system:serviceaccounts")),
		clusterBinding("system:node", "system:node"),
	}
	for _, c := range controllers() {
		bindings = append(bindings, clusterBinding(c.roleName(), c.roleName(), account(c.name)))
	}
	return bindings
}

// inNamespace is a role of a namespace with those who hold it.
type inNamespace struct {
	namespace, name string
	rules           []rbacv1.PolicyRule
	subjects        []rbacv1.Subject
}

func namespaced() []inNamespace {
	const system, public = metav1.NamespaceSystem, metav1.NamespacePublic
	lock := func(component string) inNamespace {
		return inNamespace{system, "system::leader-locking-" + component, can(
			named("get update", coordination, "leases", component),
			rule("create list watch", coordination, "leases"),
		), []rbacv1.Subject{user("system:" + component), account(component)}}
	}
	return []inNamespace{
		{system, "extension-apiserver-authentication-reader",
			can(named(read, core, "configmaps", "extension-apiserver-authentication")),
			[]rbacv1.Subject{user("system:kube-controller-manager"), user("system:kube-scheduler")}},
		{system, "system:controller:bootstrap-signer", can(rule(read, core, "secrets")), []rbacv1.Subject{account("bootstrap-signer")}},
		{system, "system:controller:cloud-provider", can(rule("create "+read, core, "configmaps")), []rbacv1.Subject{account("cloud-provider")}},
		{system, "system:controller:token-cleaner", can(rule("delete "+read, core, "secrets"), record()), []rbacv1.Subject{account("token-cleaner")}},
		lock("kube-controller-manager"),
		lock("kube-scheduler"),
		{public, "system:controller:bootstrap-signer",
			can(rule(read, core, "configmaps"), named("update", core, "configmaps", "cluster-info"), record()),
			[]rbacv1.Subject{account("bootstrap-signer")}},
	}
}

// Roles returns the roles of single namespaces.
func Roles() []rbacv1.Role {
	var roles []rbacv1.Role
	for _, n := range namespaced() {
		roles = append(roles, rbacv1.Role{ObjectMeta: meta(n.namespace, n.name), Rules: n.rules})
	}
	return roles
}

// RoleBindings returns who holds the roles of single namespaces.
func RoleBindings() []rbacv1.RoleBinding {
	var bindings []rbacv1.RoleBinding
	for _, n := range namespaced() {
		bindings = append(bindings, rbacv1.RoleBinding{
			ObjectMeta: meta(n.namespace, n.name), Subjects: n.subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: n.name},
		})
	}
	return bindings
}
