package plugins

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"vigil/kinds/podspec"
	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// Args are what plug-ins can be told, in the terms of a KubeSchedulerConfiguration. They are valid; zero is upstream's default.
type Args struct {
	// Fit: resources that are not looked at, and what makes a node good. Nil: LeastAllocated over cpu and memory.
	Fit *configv1.NodeResourcesFitArgs
	// Balanced: the resources that should be used to the same degree. Nil: cpu and memory.
	Balanced *configv1.NodeResourcesBalancedAllocationArgs
	// AddedAffinity is what nodes must have, or should, for all pods of the profile. Nil: nothing.
	AddedAffinity *corev1.NodeAffinity
	// IgnoredResources are extended resources that an extender counts.
	IgnoredResources []string
}

func (a *Args) fitResources() []configv1.ResourceSpec {
	if a.Fit != nil && a.Fit.ScoringStrategy != nil && len(a.Fit.ScoringStrategy.Resources) > 0 {
		return a.Fit.ScoringStrategy.Resources
	}
	return cpuAndMemory
}

func (a *Args) balancedResources() []configv1.ResourceSpec {
	if a.Balanced != nil && len(a.Balanced.Resources) > 0 {
		return a.Balanced.Resources
	}
	return cpuAndMemory
}

var cpuAndMemory = []configv1.ResourceSpec{{Name: string(corev1.ResourceCPU), Weight: 1}, {Name: string(corev1.ResourceMemory), Weight: 1}}

// ignored says which extended resources NodeResourcesFit does not look at; nil: it looks at all.
func (a *Args) ignored() func(corev1.ResourceName) bool {
	names, groups := a.IgnoredResources, []string(nil)
	if a.Fit != nil {
		names, groups = slices.Concat(names, a.Fit.IgnoredResources), a.Fit.IgnoredResourceGroups
	}
	if len(names)+len(groups) == 0 {
		return nil
	}
	return func(name corev1.ResourceName) bool {
		if !podspec.IsExtendedResourceName(name) {
			return false
		}
		group, _, _ := strings.Cut(string(name), "/")
		return slices.Contains(names, string(name)) || slices.Contains(groups, group)
	}
}

// strategy is how good it is that so much of a resource is used once the pod is there, from 0 to MaxScore. used may be more than there is;
// has is more than 0. skipsZero says that resources which give nothing do not count at all, as upstream's RequestedToCapacityRatio has it.
func (a *Args) strategy() (of func(used, has int64) int64, skipsZero bool) {
	if a.Fit == nil || a.Fit.ScoringStrategy == nil {
		return leastAllocated, false
	}
	switch a.Fit.ScoringStrategy.Type {
	case configv1.MostAllocated:
		return mostAllocated, false
	case configv1.RequestedToCapacityRatio:
		shape := a.Fit.ScoringStrategy.RequestedToCapacityRatio.Shape
		return func(used, has int64) int64 { return along(shape, percent(used, has)) }, true
	}
	return leastAllocated, false
}

// leastAllocated prefers nodes with much left.
func leastAllocated(used, has int64) int64 {
	if used > has {
		return 0
	}
	return share(has-used, has)
}

// mostAllocated prefers nodes that are full: machines that nobody needs can be given back.
func mostAllocated(used, has int64) int64 { return share(min(used, has), has) }

func percent(used, has int64) int64 {
	if used > has {
		return 100
	}
	return used * 100 / has
}

func share(part, whole int64) int64 { return part * framework.MaxScore / whole }

// mostShapeScore is the best score of a shape's points.
const mostShapeScore = 10

// along is the score at a utilization (0 to 100) on the line through the points of a shape, which are sorted.
func along(shape []configv1.UtilizationShapePoint, utilization int64) int64 {
	const scale = framework.MaxScore / mostShapeScore
	for i, point := range shape {
		if utilization > int64(point.Utilization) {
			continue
		}
		if i == 0 {
			return int64(point.Score) * scale
		}
		before := shape[i-1]
		return int64(before.Score)*scale + int64(point.Score-before.Score)*scale*(utilization-int64(before.Utilization))/int64(point.Utilization-before.Utilization)
	}
	return int64(shape[len(shape)-1].Score) * scale
}

// allocation scores a node by what of its resources would be used: the weighted mean of the strategy over them. A resource that the node
// does not have, and an extended one that the pod does not ask for, does not count.
func (a *Args) allocation() func(pod *nodecache.Pod, node *nodecache.Node) int64 {
	of, skipsZero := a.strategy()
	resources := a.fitResources()
	return func(pod *nodecache.Pod, node *nodecache.Node) int64 {
		var sum, weights int64
		for i := range resources {
			used, has := usage(pod, node, corev1.ResourceName(resources[i].Name))
			if has <= 0 {
				continue
			}
			score := of(used, has)
			if score == 0 && skipsZero {
				continue
			}
			sum, weights = sum+score*resources[i].Weight, weights+resources[i].Weight
		}
		if weights == 0 {
			return 0
		}
		if skipsZero {
			return int64(math.Round(float64(sum) / float64(weights)))
		}
		return sum / weights
	}
}

// usage is what of a resource would be used with the pod there, and what the node has; has is 0 for what does not count.
func usage(pod *nodecache.Pod, node *nodecache.Node, name corev1.ResourceName) (used, has int64) {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
	default:
		if pod.Requests.Of(name) == 0 {
			return 0, 0
		}
	}
	return node.NonZero.Of(name) + pod.NonZero.Of(name), node.Allocatable.Of(name)
}

// balance prefers nodes on which resources would be used to the same degree: MaxScore minus the standard deviation of the shares.
func (a *Args) balance() func(pod *nodecache.Pod, node *nodecache.Node) int64 {
	resources := a.balancedResources()
	return func(pod *nodecache.Pod, node *nodecache.Node) int64 {
		var buffer [4]float64
		shares, sum := buffer[:0], 0.0
		for i := range resources {
			used, has := usage(pod, node, corev1.ResourceName(resources[i].Name))
			if has > 0 {
				share := math.Min(1, float64(used)/float64(has))
				shares, sum = append(shares, share), sum+share
			}
		}
		if len(shares) < 2 {
			return framework.MaxScore
		}
		mean, squares := sum/float64(len(shares)), 0.0
		for _, share := range shares {
			squares += (share - mean) * (share - mean)
		}
		return int64((1 - math.Sqrt(squares/float64(len(shares)))) * framework.MaxScore)
	}
}

// addedAffinity is what AddedAffinity requires and prefers. It was validated, so it can be understood.
func (a *Args) addedAffinity() (required *nodeaffinity.NodeSelector, preferred *nodeaffinity.PreferredSchedulingTerms) {
	if a.AddedAffinity == nil {
		return nil, nil
	}
	if terms := a.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; terms != nil {
		required, _ = nodeaffinity.NewNodeSelector(terms)
	}
	if terms := a.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		preferred, _ = nodeaffinity.NewPreferredSchedulingTerms(terms)
	}
	return required, preferred
}
