package schedulerfile

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentbasev1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// complete fills in what a configuration does not say: upstream's defaults (pkg/scheduler/apis/config/v1/defaults.go). Plug-ins of each profile
// are the default ones changed by what is given, all as multiPoint plug-ins and their own points.
func complete(c *configv1.KubeSchedulerConfiguration) {
	ensure(&c.Parallelism, 16)
	ensure(&c.PercentageOfNodesToScore, 0)
	ensure(&c.PodInitialBackoffSeconds, 1)
	ensure(&c.PodMaxBackoffSeconds, 10)
	ensure(&c.EnableProfiling, true)
	if *c.EnableProfiling {
		ensure(&c.EnableContentionProfiling, true)
	}
	either(&c.LeaderElection.ResourceLock, "leases")
	either(&c.LeaderElection.ResourceNamespace, configv1.SchedulerDefaultLockObjectNamespace)
	either(&c.LeaderElection.ResourceName, configv1.SchedulerDefaultLockObjectName)
	componentbasev1alpha1.RecommendedDefaultLeaderElectionConfiguration(&c.LeaderElection)
	componentbasev1alpha1.RecommendedDefaultClientConnectionConfiguration(&c.ClientConnection)
	if len(c.Profiles) == 0 {
		c.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if len(c.Profiles) == 1 { // several must have names
		ensure(&c.Profiles[0].SchedulerName, corev1.DefaultSchedulerName)
	}
	for i := range c.Profiles {
		completeProfile(&c.Profiles[i])
	}
}

func completeProfile(p *configv1.KubeSchedulerProfile) {
	if p.Plugins == nil {
		p.Plugins = &configv1.Plugins{}
	}
	p.Plugins.MultiPoint = merge(defaultPlugins(), p.Plugins.MultiPoint)
	given := map[string]bool{}
	for i := range p.PluginConfig {
		given[p.PluginConfig[i].Name] = true
		completeArgs(p.PluginConfig[i].Args.Object)
	}
	for _, name := range slices.Sorted(maps.Keys(used(p.Plugins))) {
		gvk := configv1.SchemeGroupVersion.WithKind(name + "Args")
		if given[name] || !scheme.Recognizes(gvk) {
			continue
		}
		args, err := scheme.New(gvk)
		if err != nil {
			continue
		}
		completeArgs(args)
		args.GetObjectKind().SetGroupVersionKind(gvk)
		p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Object: args}})
	}
}

// completeArgs fills in what the arguments of a plug-in do not say.
func completeArgs(object runtime.Object) {
	resources := func(given *[]configv1.ResourceSpec) {
		if len(*given) == 0 {
			*given = []configv1.ResourceSpec{{Name: string(corev1.ResourceCPU), Weight: 1}, {Name: string(corev1.ResourceMemory), Weight: 1}}
		}
		for i := range *given {
			either(&(*given)[i].Weight, 1)
		}
	}
	switch args := object.(type) {
	case *configv1.DefaultPreemptionArgs:
		ensure(&args.MinCandidateNodesPercentage, 10)
		ensure(&args.MinCandidateNodesAbsolute, 100)
	case *configv1.InterPodAffinityArgs:
		ensure(&args.HardPodAffinityWeight, 1)
	case *configv1.VolumeBindingArgs:
		ensure(&args.BindTimeoutSeconds, 600)
	case *configv1.NodeResourcesBalancedAllocationArgs:
		resources(&args.Resources)
	case *configv1.PodTopologySpreadArgs:
		either(&args.DefaultingType, configv1.SystemDefaulting)
	case *configv1.NodeResourcesFitArgs:
		if args.ScoringStrategy == nil {
			args.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
		}
		resources(&args.ScoringStrategy.Resources)
	case *configv1.DynamicResourcesArgs:
		ensure(&args.FilterTimeout, metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault})
		ensure(&args.BindingTimeout, metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault})
	}
}

func ensure[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}

func either[T comparable](at *T, value T) {
	var zero T
	if *at == zero {
		*at = value
	}
}

// seconds are those of a field, at most a hundred years.
func seconds(n int64) time.Duration {
	const most = 100 * 365 * 24 * 3600
	return time.Duration(min(n, most)) * time.Second
}
