package plugins

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// TestStrategies: the node has 2 cores, 1 GiB, one gpu; another pod uses half of cpu and memory. Numbers are those of upstream's scorers.
func TestStrategies(t *testing.T) {
	node := view(t, nil, asking(quantities("cpu", "1", "memory", "512Mi")))
	of := func(kind configv1.ScoringStrategyType, resources ...configv1.ResourceSpec) *configv1.NodeResourcesFitArgs {
		return &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{Type: kind, Resources: resources}}
	}
	ratio := func(shape []configv1.UtilizationShapePoint, resources ...configv1.ResourceSpec) *configv1.NodeResourcesFitArgs {
		args := of(configv1.RequestedToCapacityRatio, resources...)
		args.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: shape}
		return args
	}
	cpu, memory, gpu := configv1.ResourceSpec{Name: "cpu", Weight: 1}, configv1.ResourceSpec{Name: "memory", Weight: 3}, configv1.ResourceSpec{Name: "example.com/gpu", Weight: 4}
	rising := []configv1.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}
	bent := []configv1.UtilizationShapePoint{{Utilization: 60, Score: 10}, {Utilization: 80, Score: 0}}
	pod := asking(quantities("cpu", "500m", "memory", "256Mi")) // then 75 % of both are used
	greedy := asking(quantities("cpu", "500m", "memory", "256Mi", "example.com/gpu", "1"))
	for _, test := range []struct {
		name string
		args *configv1.NodeResourcesFitArgs
		pod  *corev1.Pod
		want int64
	}{
		{"default", nil, pod, 25},
		{"least", of(configv1.LeastAllocated, cpu, memory), pod, 25},
		{"most", of(configv1.MostAllocated, cpu, memory), pod, 75},
		{"most, weighted", of(configv1.MostAllocated, cpu, memory), asking(quantities("cpu", "1", "memory", "128Mi")), (100 + 3*62) / 4},
		{"a resource that is not asked for", of(configv1.MostAllocated, cpu, gpu), pod, 75},
		{"a resource that is", of(configv1.MostAllocated, cpu, gpu), greedy, (75 + 4*100) / 5},
		{"a resource that the node does not have", of(configv1.MostAllocated, cpu, configv1.ResourceSpec{Name: "ephemeral-storage", Weight: 5}), pod, 75},
		{"rising", ratio(rising, cpu, memory), pod, 75},
		{"on the bend", ratio(bent, cpu), pod, 25},
		{"before the first point", ratio(bent, cpu), asking(quantities("cpu", "1m", "memory", "1Mi")), 100},
		{"after the last point", ratio(bent, cpu), asking(quantities("cpu", "1", "memory", "1Mi")), 0},
		{"zeros do not count", ratio(bent, cpu, memory), asking(quantities("cpu", "1", "memory", "256Mi")), 25},
		{"more than there is", of(configv1.LeastAllocated, cpu), asking(quantities("cpu", "9")), 0},
		{"more than there is, most", of(configv1.MostAllocated, cpu), asking(quantities("cpu", "9")), 100},
	} {
		args := Args{Fit: test.args}
		if got := args.allocation()(seen(t, test.pod), node); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestBalance(t *testing.T) {
	node := view(t, nil)
	for _, test := range []struct {
		name string
		args *configv1.NodeResourcesBalancedAllocationArgs
		pod  *corev1.Pod
		want int64
	}{
		{"even", nil, asking(quantities("cpu", "1", "memory", "512Mi")), 100},
		{"half of the distance", nil, asking(quantities("cpu", "1", "memory", "1Gi")), 75},
		{"three", &configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}, {Name: "example.com/gpu", Weight: 1}}},
			asking(quantities("cpu", "2", "memory", "1Gi", "example.com/gpu", "1")), 100},
		{"three, uneven", &configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}, {Name: "example.com/gpu", Weight: 1}}},
			asking(quantities("cpu", "1", "memory", "512Mi", "example.com/gpu", "1")), 76}, // 0.5, 0.5, 1: deviation 0.2357
		{"only one of them", &configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}}}, asking(quantities("cpu", "1")), 100},
	} {
		args := Args{Balanced: test.args}
		if got := args.balance()(seen(t, test.pod), node); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestIgnoredResources(t *testing.T) {
	node := view(t, func(n *corev1.Node) { n.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("0") })
	wants := func(names ...string) *corev1.Pod {
		list := corev1.ResourceList{}
		for _, name := range names {
			list[corev1.ResourceName(name)] = resource.MustParse("5")
		}
		return asking(list)
	}
	args := Args{Fit: &configv1.NodeResourcesFitArgs{IgnoredResources: []string{"example.com/a", "cpu"}, IgnoredResourceGroups: []string{"far.example.com"}}, IgnoredResources: []string{"example.com/c"}}
	for _, test := range []struct {
		pod  *corev1.Pod
		want int
	}{
		{wants("example.com/a", "far.example.com/b", "example.com/c"), 0},
		{wants("example.com/d"), 1},
		{wants("cpu"), 1}, // only extended resources can be ignored
		{wants("hugepages-2Mi"), 1},
	} {
		if got := newFit(args).Filter(nil, seen(t, test.pod), node).Reasons(); len(got) != test.want {
			t.Errorf("%v: %q, want %d reasons", test.pod.Spec.Containers[0].Resources.Requests, got, test.want)
		}
	}
}
