package schedulerfile

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentbaseconfig "k8s.io/component-base/config"
	componentbasev1alpha1 "k8s.io/component-base/config/v1alpha1"
	componentbasevalidation "k8s.io/component-base/config/validation"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Validate says what is wrong with a configuration: upstream's rules (pkg/scheduler/apis/config/validation), and then what is right and
// cannot be had here.
func (f *File) Validate() error {
	c := &f.Config
	var all field.ErrorList
	var client componentbaseconfig.ClientConnectionConfiguration
	var election componentbaseconfig.LeaderElectionConfiguration
	if err := componentbasev1alpha1.Convert_v1alpha1_ClientConnectionConfiguration_To_config_ClientConnectionConfiguration(&c.ClientConnection, &client, nil); err != nil {
		return err
	}
	if err := componentbasev1alpha1.Convert_v1alpha1_LeaderElectionConfiguration_To_config_LeaderElectionConfiguration(&c.LeaderElection, &election, nil); err != nil {
		return err
	}
	all = append(all, componentbasevalidation.ValidateClientConnectionConfiguration(&client, field.NewPath("clientConnection"))...)
	all = append(all, componentbasevalidation.ValidateLeaderElectionConfiguration(&election, field.NewPath("leaderElection"))...)
	if election.LeaderElect && election.ResourceLock != "leases" {
		all = append(all, field.Invalid(field.NewPath("leaderElection", "resourceLock"), election.ResourceLock, `resourceLock value must be "leases"`))
	}
	if *c.Parallelism <= 0 {
		all = append(all, field.Invalid(field.NewPath("parallelism"), *c.Parallelism, "should be an integer value greater than zero"))
	}
	names := map[string]int{}
	for i := range c.Profiles {
		p, path := &c.Profiles[i], field.NewPath("profiles").Index(i)
		name := ""
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		if name == "" {
			all = append(all, field.Required(path.Child("schedulerName"), ""))
		}
		if first, ok := names[name]; ok {
			all = append(all, field.Duplicate(path.Child("schedulerName"), field.NewPath("profiles").Index(first).Child("schedulerName").String()))
		}
		names[name] = i
		all = append(all, percentage(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)...)
		all = append(all, validatePlugins(path, p)...)
	}
	all = append(all, percentage(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore)...)
	if *c.PodInitialBackoffSeconds <= 0 {
		all = append(all, field.Invalid(field.NewPath("podInitialBackoffSeconds"), *c.PodInitialBackoffSeconds, "must be greater than 0"))
	}
	if *c.PodMaxBackoffSeconds < *c.PodInitialBackoffSeconds {
		all = append(all, field.Invalid(field.NewPath("podMaxBackoffSeconds"), *c.PodMaxBackoffSeconds, "must be greater than or equal to PodInitialBackoffSeconds"))
	}
	if len(c.Extenders) > 0 {
		all = append(all, field.Invalid(field.NewPath("extenders"), fmt.Sprintf("%d extenders", len(c.Extenders)), "extenders are not asked yet"))
	}
	if len(all) > 0 {
		return utilerrors.Flatten(all.ToAggregate())
	}
	for i := range c.Profiles {
		if err := possible(&c.Profiles[i], field.NewPath("profiles").Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func percentage(path *field.Path, given *int32) field.ErrorList {
	if given != nil && (*given < 0 || *given > 100) {
		return field.ErrorList{field.Invalid(path, *given, "not in valid range [0-100]")}
	}
	return nil
}

func validatePlugins(path *field.Path, p *configv1.KubeSchedulerProfile) (all field.ErrorList) {
	removed := func(path *field.Path, name string) bool {
		if !slices.Contains(removedPlugins, name) {
			return false
		}
		version := configv1.SchemeGroupVersion.String()
		all = append(all, field.Invalid(path, name, fmt.Sprintf("was invalid in version %q (KubeSchedulerConfiguration is version %q)", "v1", version)))
		return true
	}
	for _, point := range extensionPoints {
		for i, plugin := range point.of(p.Plugins).Enabled {
			removed(path.Child("plugins", point.field, "enabled").Index(i), plugin.Name)
		}
	}
	seen := map[string]bool{}
	for i := range p.PluginConfig {
		path, config := path.Child("pluginConfig").Index(i), &p.PluginConfig[i]
		if seen[config.Name] {
			all = append(all, field.Duplicate(path, config.Name))
		}
		seen[config.Name] = true
		if !removed(path, config.Name) {
			all = append(all, validateArgs(path.Child("args"), config.Args.Object)...)
		}
	}
	return all
}

// validateArgs checks the arguments of a plug-in.
func validateArgs(path *field.Path, object runtime.Object) (all field.ErrorList) {
	refuse := func(path *field.Path, value any, why string) { all = append(all, field.Invalid(path, value, why)) }
	switch args := object.(type) {
	case *configv1.DefaultPreemptionArgs:
		percentagePath, absolutePath := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
		percentage, absolute := *args.MinCandidateNodesPercentage, *args.MinCandidateNodesAbsolute
		if percentage < 0 || percentage > 100 {
			refuse(percentagePath, percentage, "not in valid range [0, 100]")
		}
		if absolute < 0 {
			refuse(absolutePath, absolute, "not in valid range [0, inf)")
		}
		if percentage == 0 && absolute == 0 {
			refuse(percentagePath, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute")
			refuse(absolutePath, absolute, "cannot be zero at the same time as minCandidateNodesPercentage")
		}
	case *configv1.InterPodAffinityArgs:
		if w := *args.HardPodAffinityWeight; w < 0 || w > 100 {
			refuse(path.Child("hardPodAffinityWeight"), w, "not in valid range [0, 100]")
		}
	case *configv1.VolumeBindingArgs:
		if *args.BindTimeoutSeconds < 0 {
			refuse(path.Child("bindTimeoutSeconds"), *args.BindTimeoutSeconds, "invalid BindTimeoutSeconds, should not be a negative value")
		}
		if args.Shape != nil {
			refuse(path.Child("shape"), args.Shape, "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")
		}
	case *configv1.NodeResourcesBalancedAllocationArgs:
		seen := map[string]bool{}
		for i, r := range args.Resources {
			path := path.Child("resources").Index(i)
			if seen[r.Name] {
				all = append(all, field.Duplicate(path.Child("name"), r.Name))
			}
			seen[r.Name] = true
			if r.Weight != 1 {
				refuse(path.Child("weight"), r.Weight, "must be 1")
			}
		}
	case *configv1.NodeAffinityArgs:
		all = validateAddedAffinity(path.Child("addedAffinity"), args.AddedAffinity)
	case *configv1.PodTopologySpreadArgs:
		all = validateSpread(path, args)
	case *configv1.NodeResourcesFitArgs:
		all = validateFit(path, args)
	case *configv1.DynamicResourcesArgs:
		if args.FilterTimeout.Duration < 0 {
			refuse(path.Child("filterTimeout"), args.FilterTimeout, "must be zero or positive")
		}
		if args.BindingTimeout.Duration < seconds(1) {
			refuse(path.Child("bindingTimeout"), args.BindingTimeout, "must be at least 1 second")
		}
	}
	return all
}

func validateAddedAffinity(path *field.Path, affinity *corev1.NodeAffinity) (all field.ErrorList) {
	if affinity == nil {
		return nil
	}
	wrong := func(err error) {
		if several, ok := err.(utilerrors.Aggregate); ok {
			for _, err := range several.Errors() {
				if one, ok := err.(*field.Error); ok {
					all = append(all, one)
				}
			}
		} else if one, ok := err.(*field.Error); ok {
			all = append(all, one)
		}
	}
	if terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution; terms != nil {
		_, err := nodeaffinity.NewNodeSelector(terms, field.WithPath(path.Child("requiredDuringSchedulingIgnoredDuringExecution")))
		wrong(err)
	}
	if terms := affinity.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		_, err := nodeaffinity.NewPreferredSchedulingTerms(terms, field.WithPath(path.Child("preferredDuringSchedulingIgnoredDuringExecution")))
		wrong(err)
	}
	return all
}

func validateSpread(path *field.Path, args *configv1.PodTopologySpreadArgs) (all field.ErrorList) {
	typePath := path.Child("defaultingType")
	switch {
	case args.DefaultingType != configv1.SystemDefaulting && args.DefaultingType != configv1.ListDefaulting:
		all = append(all, field.NotSupported(typePath, args.DefaultingType, []string{string(configv1.SystemDefaulting), string(configv1.ListDefaulting)}))
	case args.DefaultingType == configv1.SystemDefaulting && len(args.DefaultConstraints) > 0:
		all = append(all, field.Invalid(typePath, args.DefaultingType, "when .defaultConstraints are not empty"))
	}
	type repeated struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	seen := map[repeated]bool{}
	for i, c := range args.DefaultConstraints {
		path := path.Child("defaultConstraints").Index(i)
		if c.MaxSkew <= 0 {
			all = append(all, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
		}
		if c.TopologyKey == "" {
			all = append(all, field.Required(path.Child("topologyKey"), "can not be empty"))
		} else {
			all = append(all, metav1validation.ValidateLabelName(c.TopologyKey, path.Child("topologyKey"))...)
		}
		switch c.WhenUnsatisfiable {
		case corev1.DoNotSchedule, corev1.ScheduleAnyway:
		case "":
			all = append(all, field.Required(path.Child("whenUnsatisfiable"), "can not be empty"))
		default:
			all = append(all, field.NotSupported(path.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, []string{string(corev1.DoNotSchedule), string(corev1.ScheduleAnyway)}))
		}
		if c.LabelSelector != nil {
			all = append(all, field.Forbidden(path.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
		}
		if pair := (repeated{c.TopologyKey, c.WhenUnsatisfiable}); seen[pair] {
			all = append(all, field.Duplicate(path, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		} else {
			seen[pair] = true
		}
	}
	return all
}

func validateFit(path *field.Path, args *configv1.NodeResourcesFitArgs) (all field.ErrorList) {
	for i, name := range args.IgnoredResources {
		all = append(all, metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range args.IgnoredResourceGroups {
		path := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			all = append(all, field.Invalid(path, group, "resource group name can't contain '/'"))
		}
		all = append(all, metav1validation.ValidateLabelName(group, path)...)
	}
	strategy, path := args.ScoringStrategy, path.Child("scoringStrategy")
	ratio := path.Child("requestedToCapacityRatio")
	switch strategy.Type {
	case configv1.RequestedToCapacityRatio:
		if strategy.RequestedToCapacityRatio == nil {
			all = append(all, field.Required(ratio, "must be specified when type is RequestedToCapacityRatio"))
		} else {
			all = append(all, validateShape(ratio.Child("shape"), strategy.RequestedToCapacityRatio.Shape)...)
		}
	case configv1.LeastAllocated, configv1.MostAllocated:
		if strategy.RequestedToCapacityRatio != nil {
			all = append(all, field.Forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
		}
	default:
		all = append(all, field.NotSupported(path.Child("type"), strategy.Type, []string{string(configv1.LeastAllocated), string(configv1.MostAllocated), string(configv1.RequestedToCapacityRatio)}))
	}
	for i, r := range strategy.Resources {
		if r.Weight <= 0 || r.Weight > 100 {
			all = append(all, field.Invalid(path.Child("resources").Index(i).Child("weight"), r.Weight, fmt.Sprintf("resource weight of %v not in valid range (0, 100]", r.Name)))
		}
	}
	return all
}

func validateShape(path *field.Path, shape []configv1.UtilizationShapePoint) (all field.ErrorList) {
	if len(shape) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	for i := 1; i < len(shape); i++ {
		if shape[i-1].Utilization >= shape[i].Utilization {
			all = append(all, field.Invalid(path.Index(i).Child("utilization"), shape[i].Utilization, "values must be sorted in increasing order"))
			break
		}
	}
	for i, point := range shape {
		if point.Utilization < 0 || point.Utilization > 100 {
			all = append(all, field.Invalid(path.Index(i).Child("utilization"), point.Utilization, "not in valid range [0, 100]"))
		}
		if point.Score < 0 || point.Score > 10 {
			all = append(all, field.Invalid(path.Index(i).Child("score"), point.Score, "not in valid range [0, 10]"))
		}
	}
	return all
}

// possible says what of a profile that is valid cannot be had here.
func possible(p *configv1.KubeSchedulerProfile, path *field.Path) error {
	e, err := expand(p.Plugins)
	if err != nil {
		return err
	}
	if err := e.possible(*p.SchedulerName, path.Child("plugins")); err != nil {
		return err
	}
	for i := range p.PluginConfig {
		path, name := path.Child("pluginConfig").Index(i), p.PluginConfig[i].Name
		if _, ok := upstreamPluginOf(name); !ok {
			return field.Invalid(path.Child("name"), name, "there is no such plugin")
		}
		path = path.Child("args")
		switch args := p.PluginConfig[i].Args.Object.(type) {
		case *configv1.DefaultPreemptionArgs:
			if *args.MinCandidateNodesPercentage != 10 || *args.MinCandidateNodesAbsolute != 100 {
				return field.Invalid(path, "minCandidateNodesPercentage, minCandidateNodesAbsolute", "this scheduler does not preempt yet: only the defaults 10 and 100 are possible")
			}
		case *configv1.InterPodAffinityArgs:
			if *args.HardPodAffinityWeight != 1 {
				return field.Invalid(path.Child("hardPodAffinityWeight"), *args.HardPodAffinityWeight, "this scheduler knows no affinity between pods yet: only the default 1 is possible")
			}
		case *configv1.PodTopologySpreadArgs:
			if len(args.DefaultConstraints) > 0 {
				return field.Invalid(path.Child("defaultConstraints"), len(args.DefaultConstraints), "this scheduler does not spread pods over topologies yet: only an empty list is possible")
			}
		case *configv1.DynamicResourcesArgs:
			if args.FilterTimeout.Duration != configv1.DynamicResourcesFilterTimeoutDefault || args.BindingTimeout.Duration != configv1.DynamicResourcesBindingTimeoutDefault {
				return field.Invalid(path, "filterTimeout, bindingTimeout", "this scheduler allocates no devices yet: only the defaults 10s and 10m0s are possible")
			}
		}
	}
	return nil
}
