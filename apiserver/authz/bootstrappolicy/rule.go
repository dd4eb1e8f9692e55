package bootstrappolicy

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verbs that go together.
const (
	read  = "get list watch"
	write = "create delete deletecollection patch update"
	all   = write + " " + read
)

// API groups, as rule takes them: core is the empty one.
const (
	core           = "core"
	apps           = "apps"
	authentication = "authentication.k8s.io"
	authorization  = "authorization.k8s.io"
	autoscaling    = "autoscaling"
	batch          = "batch"
	certificates   = "certificates.k8s.io"
	coordination   = "coordination.k8s.io"
	discovery      = "discovery.k8s.io"
	events         = "events.k8s.io"
	extensions     = "extensions"
	networking     = "networking.k8s.io"
	node           = "node.k8s.io"
	policy         = "policy"
	rbac           = "rbac.authorization.k8s.io"
	resource       = "resource.k8s.io"
	storage        = "storage.k8s.io"
)

// rule grants verbs on resources of groups; each is a list separated by spaces.
func rule(verbs, groups, resources string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: strings.Fields(groups), Resources: strings.Fields(resources)}
	for i, group := range r.APIGroups {
		if group == core {
			r.APIGroups[i] = ""
		}
	}
	return r
}

// named is rule for the objects of these names only.
func named(verbs, groups, resources, names string) rbacv1.PolicyRule {
	r := rule(verbs, groups, resources)
	r.ResourceNames = strings.Fields(names)
	return r
}

// paths grants verbs on paths that are not resources.
func paths(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
}

// record lets a component write events.
func record() rbacv1.PolicyRule { return rule("create patch update", core+" "+events, "events") }

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
}

// aggregated adds what makes a role part of another: the label of the one that it is for.
func aggregated(role rbacv1.ClusterRole, to string) rbacv1.ClusterRole {
	role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] = "true"
	return role
}

// aggregating makes a role out of all that are labelled to be part of it.
func aggregating(name string) rbacv1.ClusterRole {
	role := clusterRole(name)
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + name: "true"}},
	}}
	return role
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}

func clusterBinding(name, role string, subjects ...rbacv1.Subject) rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}
