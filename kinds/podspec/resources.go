package podspec

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"vigil/kinds/validate"
)

// nameRule checks a resource name in its place: in a container, in a pod, on a node.
type nameRule func(corev1.ResourceName, *field.Path) field.ErrorList

func (c *checker) checkResources(r *corev1.ResourceRequirements, names nameRule, path *field.Path) {
	c.checkResourceList(r, names, path)
	c.checkClaimRefs(r.Claims, path.Child("claims"))
}

// checkResourceList checks limits and requests: names, quantities, and that no request is over its limit.
func (c *checker) checkResourceList(r *corev1.ResourceRequirements, names nameRule, path *field.Path) {
	compute, huge := false, false
	check := func(list corev1.ResourceList, path *field.Path) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			quantity, at := list[name], path.Key(string(name))
			c.add(names(name, at)...)
			c.add(ResourceQuantity(name, quantity, at)...)
			if isHugePages(name) {
				huge = true
				if !c.tolerate.hugePages && !wholePages(name, quantity) {
					c.add(field.Invalid(at, quantity.String(), fmt.Sprintf("%s is not positive integer multiple of %s", quantity.String(), name)))
				}
			}
			compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}
	}
	limits, requests := path.Child("limits"), path.Child("requests")
	check(r.Limits, limits)
	check(r.Requests, requests)
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case !limited && !overcommittable(name):
			c.add(field.Required(limits, "Limit must be set for non overcommitable resources"))
		case !limited:
		case !overcommittable(name) && request.Cmp(limit) != 0:
			c.add(field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case request.Cmp(limit) > 0:
			c.add(field.Invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	if huge && !compute {
		c.add(field.Forbidden(path, "HugePages require cpu or memory"))
	}
}

// checkHugePages has the one rule on resources that came late.
func (c *checker) checkHugePages() {
	VisitContainers(c.spec, field.NewPath("spec"), func(container *corev1.Container, path *field.Path) {
		for _, list := range []corev1.ResourceList{container.Resources.Limits, container.Resources.Requests} {
			for name, quantity := range list {
				if isHugePages(name) && !wholePages(name, quantity) {
					c.add(field.Invalid(path, quantity.String(), ""))
				}
			}
		}
	})
}

// checkPodResources checks the resources of the pod as a whole (KEP-2837): its containers must fit in.
func (c *checker) checkPodResources(path *field.Path) {
	r := c.spec.Resources
	if r == nil {
		return
	}
	if r.Claims != nil {
		c.add(field.Forbidden(path.Child("claims"), "claims cannot be set for Resources at pod-level"))
	}
	c.checkResources(r, podResourceName, path)
	sums := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *c.spec}, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		sum, request := sums[name], r.Requests[name]
		if sum.Cmp(request) > 0 {
			c.add(field.Invalid(path.Child("requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String())))
		}
	}
	for i, container := range c.spec.Containers {
		for _, name := range slices.Sorted(maps.Keys(container.Resources.Limits)) {
			limit := container.Resources.Limits[name]
			if podLimit, ok := r.Limits[name]; ok && limit.Cmp(podLimit) > 0 {
				c.add(field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
					fmt.Sprintf("must be less than or equal to pod limits of %s", podLimit.String())))
			}
		}
	}
}

// ResourceQuantity rejects negative quantities, and fractions of what is counted.
func ResourceQuantity(name corev1.ResourceName, quantity resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if quantity.Cmp(resource.Quantity{}) < 0 {
		errs = append(errs, field.Invalid(path, quantity.String(), "must be greater than or equal to 0"))
	}
	if (countedResources.Has(name) || isExtended(name)) && quantity.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, quantity.String(), textNotInteger))
	}
	return errs
}

// countedResources come in whole numbers only.
var countedResources = sets.New[corev1.ResourceName](
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers)

// wholePages says whether quantity is a multiple of the page size that the name ends in: hugepages-2Mi.
func wholePages(name corev1.ResourceName, quantity resource.Quantity) bool {
	size, err := validate.ParseQuantity(string(name)[len(corev1.ResourceHugePagesPrefix):])
	return err == nil && size.Sign() > 0 && quantity.MilliValue()%1000 == 0 && quantity.Value()%size.Value() == 0
}
