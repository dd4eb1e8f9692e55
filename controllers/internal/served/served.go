// Package served asks an API server which resources it has, for the controllers that deal with objects of every kind.
package served

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Resource is one resource as it is served in one version. Subresources are not listed.
type Resource struct {
	GVR        schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      []string
}

// Can says whether the resource has all these verbs.
func (r Resource) Can(verbs ...string) bool {
	for _, v := range verbs {
		if !slices.Contains(r.Verbs, v) {
			return false
		}
	}
	return true
}

// Resources is what a server has.
type Resources struct {
	// Preferred has every resource once, in its group's preferred version or the first that has it, in the server's order.
	Preferred []Resource
	// ByKind has the resource for every kind in every version.
	ByKind map[schema.GroupVersionKind]Resource
	// Malformed has an error for each group version that cannot be parsed.
	Malformed []error
	// Failed has the group versions that could not be asked about, with the reasons: of aggregated API servers that
	// are down. Nothing is known of their resources.
	Failed map[schema.GroupVersion]error
}

// Discover asks the server. An error means that nothing is known; what is known in part is no error.
func Discover(ctx context.Context, client discovery.DiscoveryInterface) (*Resources, error) {
	groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(client))
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && (!partial || len(lists) == 0) {
		return nil, fmt.Errorf("discover resources: %w", err)
	}
	found := read(groups, lists)
	found.Failed = failed
	return found, nil
}

// read makes one answer of discovery documents.
func read(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) *Resources {
	found := &Resources{ByKind: map[schema.GroupVersionKind]Resource{}}
	byVersion := map[string][]Resource{}
	for _, list := range lists {
		if list == nil {
			continue
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			found.Malformed = append(found.Malformed, err)
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			res := Resource{GVR: gv.WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs}
			byVersion[list.GroupVersion] = append(byVersion[list.GroupVersion], res)
			if gvk := gv.WithKind(r.Kind); found.ByKind[gvk].Kind == "" {
				found.ByKind[gvk] = res
			}
		}
	}
	seen := map[schema.GroupResource]bool{}
	for _, group := range groups {
		versions := []string{group.PreferredVersion.GroupVersion}
		for _, v := range group.Versions {
			versions = append(versions, v.GroupVersion)
		}
		for _, v := range versions {
			for _, r := range byVersion[v] {
				if gr := r.GVR.GroupResource(); !seen[gr] {
					seen[gr] = true
					found.Preferred = append(found.Preferred, r)
				}
			}
		}
	}
	return found
}
