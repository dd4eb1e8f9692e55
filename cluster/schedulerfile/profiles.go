package schedulerfile

import (
	"fmt"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"vigil/scheduler"
	"vigil/scheduler/queue"
	"vigil/scheduler/volumes"
)

// Profiles are what the scheduler works with. The configuration is valid.
func (f *File) Profiles() ([]scheduler.Profile, error) {
	var all []scheduler.Profile
	for i := range f.Config.Profiles {
		p := &f.Config.Profiles[i]
		e, err := expand(p.Plugins)
		if err != nil {
			return nil, fmt.Errorf("profiles[%d]: %w", i, err)
		}
		made := scheduler.Profile{
			Name: *p.SchedulerName, Filters: e.on["filter"], Scores: e.weights,
			Volumes: volumes.Rules{
				Binding: e.has("filter", volumeBinding), Restrictions: e.has("filter", volumeRestrictions), Zone: e.has("filter", volumeZone),
				BindTimeout: volumes.BindTimeout,
			},
			PercentageOfNodesToScore: int(*f.Config.PercentageOfNodesToScore),
		}
		if p.PercentageOfNodesToScore != nil {
			made.PercentageOfNodesToScore = int(*p.PercentageOfNodesToScore)
		}
		for j := range p.PluginConfig {
			switch args := p.PluginConfig[j].Args.Object.(type) {
			case *configv1.NodeResourcesFitArgs:
				made.Args.Fit = args
			case *configv1.NodeResourcesBalancedAllocationArgs:
				made.Args.Balanced = args
			case *configv1.NodeAffinityArgs:
				made.Args.AddedAffinity = args.AddedAffinity
			case *configv1.VolumeBindingArgs:
				made.Volumes.BindTimeout = seconds(*args.BindTimeoutSeconds)
			}
		}
		all = append(all, made)
	}
	return all, nil
}

// Backoff is how long pods wait between attempts.
func (f *File) Backoff() queue.Backoff {
	return queue.Backoff{Initial: seconds(*f.Config.PodInitialBackoffSeconds), Max: seconds(*f.Config.PodMaxBackoffSeconds)}
}
