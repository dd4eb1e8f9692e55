package discovery

import (
	"cmp"
	"slices"

	apiversion "k8s.io/apimachinery/pkg/version"
)

// groupPriority is upstream's order of groups (kube-apiserver's aggregator priorities): when two groups have a resource
// of the same name, clients that were given only the name take the earlier group. Groups that are not listed follow in
// alphabetical order.
var groupPriority = []string{
	"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
	"certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
	"discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "resource.k8s.io", "storagemigration.k8s.io",
}

func compareGroups(a, b string) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

func rank(group string) int {
	if n := slices.Index(groupPriority, group); n >= 0 {
		return n
	}
	return len(groupPriority)
}

// compareVersions puts the preferred version first: GA before beta before alpha, newer before older.
func compareVersions(a, b string) int { return apiversion.CompareKubeAwareVersionStrings(b, a) }
