package quota

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Evaluator measures the objects of one resource. The functions that are nil do nothing.
type Evaluator struct {
	Resource schema.GroupResource
	// measure adds what an object uses besides its being there; now decides whether a pod that is being deleted still counts.
	measure func(obj runtime.Object, now time.Time) corev1.ResourceList
	// owns says whether a name of a quota is about these objects, besides their number.
	owns func(name corev1.ResourceName) bool
	// inScope says whether an object is in one scope of a quota; nil: objects are in none.
	inScope func(obj runtime.Object, s corev1.ScopedResourceSelectorRequirement) bool
	// constraints refuses objects that do not say what a quota has to count.
	constraints func(obj runtime.Object, names []corev1.ResourceName) error
	// updates says that the use changes with updates, not only when objects come and go.
	updates bool
}

// Count is the name under which a quota counts the objects of a resource: count/deployments.apps.
func Count(resource schema.GroupResource) corev1.ResourceName {
	if resource.Group == "" {
		return corev1.ResourceName("count/" + resource.Resource)
	}
	return corev1.ResourceName("count/" + resource.Resource + "." + resource.Group)
}

// plain are the resources that quotas have always counted, under their own names.
var plain = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
	{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
	{Resource: "secrets"}:                corev1.ResourceSecrets,
	{Resource: "services"}:               corev1.ResourceServices,
	{Resource: "persistentvolumeclaims"}: corev1.ResourcePersistentVolumeClaims,
}

// For returns the evaluator of a resource. Every resource has one: its objects can at least be counted.
func For(resource schema.GroupResource) Evaluator {
	switch resource {
	case schema.GroupResource{Resource: "pods"}:
		return pods
	case schema.GroupResource{Resource: "services"}:
		return services
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return claims
	case resourceClaims.Resource:
		return resourceClaims
	}
	return Evaluator{Resource: resource}
}

// ChangesWithUpdates says whether an update may change what an object uses.
func (e *Evaluator) ChangesWithUpdates() bool { return e.updates }

// Usage is what an object uses at a time. Its number is always part of it.
func (e *Evaluator) Usage(obj runtime.Object, now time.Time) corev1.ResourceList {
	use := corev1.ResourceList{}
	if e.measure != nil {
		use = e.measure(obj, now)
	}
	use[Count(e.Resource)] = one()
	if name, ok := plain[e.Resource]; ok {
		use[name] = one()
	}
	return use
}

// Counted returns the resource whose objects a name of a quota counts, and false when that is not what the name is about.
func Counted(name corev1.ResourceName) (schema.GroupResource, bool) {
	if rest, ok := strings.CutPrefix(string(name), "count/"); ok {
		return schema.ParseGroupResource(rest), true
	}
	for resource, old := range plain {
		if old == name {
			return resource, true
		}
	}
	return schema.GroupResource{}, false
}

// Matching returns those names of a quota that are about the objects.
func (e *Evaluator) Matching(names []corev1.ResourceName) []corev1.ResourceName {
	count, old := Count(e.Resource), plain[e.Resource]
	var some []corev1.ResourceName
	for _, name := range names {
		if name == count || name == old || e.owns != nil && e.owns(name) {
			some = append(some, name)
		}
	}
	return some
}

// Matches says whether a quota with these limits concerns an object: one of its names does, and all of its scopes.
func (e *Evaluator) Matches(q *corev1.ResourceQuota, hard corev1.ResourceList, obj runtime.Object) bool {
	return len(e.Matching(Names(hard))) > 0 && e.InScopes(q, obj)
}

// InScopes says whether an object is in all scopes of a quota.
func (e *Evaluator) InScopes(q *corev1.ResourceQuota, obj runtime.Object) bool {
	for _, scope := range Scopes(q) {
		if e.inScope == nil || !e.inScope(obj, scope) {
			return false
		}
	}
	return true
}

// Scopes are the scopes of a quota in one form.
func Scopes(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, name := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// Constraints refuses an object that does not say how much it uses of what a quota limits.
func (e *Evaluator) Constraints(obj runtime.Object, names []corev1.ResourceName) error {
	if e.constraints == nil {
		return nil
	}
	return e.constraints(obj, names)
}

// selects evaluates a scope's selector on a name of a class ("" for none).
func selects(s corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(s.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(s.Values, class)
	}
	return false
}
