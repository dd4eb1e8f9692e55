package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"vigil/scheduler/framework"
	"vigil/scheduler/plugins"
	"vigil/scheduler/volumes"
)

// Profile is how pods of one spec.schedulerName are scheduled. The names of plug-ins are upstream's.
type Profile struct {
	Name string // spec.schedulerName
	// Filters are the plug-ins that say where a pod may run. Names of no plug-in that is here have no effect but on what pods are told.
	Filters map[string]bool
	// Scores are the weights of the plug-ins that say where it runs best.
	Scores map[string]int64
	Args   plugins.Args
	// Volumes are the rules of claims.
	Volumes volumes.Rules
	// PercentageOfNodesToScore is how many of the nodes are found that would do, of which the best is taken, in percent of all, but at least
	// 100. 0: 50 and fewer the more nodes there are, at least 5.
	PercentageOfNodesToScore int
}

// Plug-ins of upstream that are not here, and whose rules a pod is told about when it is placed without regard to them.
const (
	interPodAffinity  = "InterPodAffinity"
	podTopologySpread = "PodTopologySpread"
)

// DefaultProfile is upstream's.
func DefaultProfile() Profile {
	return Profile{
		Name: corev1.DefaultSchedulerName,
		Filters: map[string]bool{
			plugins.NodeName: true, plugins.NodeUnschedulable: true, plugins.TaintToleration: true, plugins.NodeAffinity: true, plugins.NodePorts: true,
			plugins.NodeResourcesFit: true, plugins.DynamicResources: true, interPodAffinity: true, podTopologySpread: true,
		},
		Scores:  plugins.Weights(),
		Volumes: volumes.AllRules(),
	}
}

// profile is a Profile at work: its plug-ins by the points at which they are asked.
type profile struct {
	Profile
	recorder record.EventRecorder

	preFilters  []framework.PreFilterPlugin
	filters     []framework.FilterPlugin
	postFilters []framework.PostFilterPlugin
	preScores   []framework.PreScorePlugin
	scores      []weighted
	reserves    []framework.ReservePlugin
	permits     []framework.PermitPlugin
	preBinds    []framework.PreBindPlugin
	binds       []framework.BindPlugin
}

// weighted is a score that counts so much.
type weighted struct {
	framework.ScorePlugin
	weight int64
}

// newProfile finds out at which points the plug-ins are asked: those of package plugins as far as p has them filter and score, and all of
// others.
func newProfile(p Profile, recorder record.EventRecorder, others ...framework.Plugin) *profile {
	made := &profile{Profile: p, recorder: recorder}
	for _, plugin := range plugins.All(p.Args) {
		if p.Filters[plugin.Name()] {
			made.addFilter(plugin)
		}
		made.addScore(plugin, p.Scores[plugin.Name()])
	}
	for _, plugin := range others {
		weight, ok := p.Scores[plugin.Name()]
		if !ok {
			weight = 1
		}
		made.addFilter(plugin)
		made.addScore(plugin, weight)
		add(&made.postFilters, plugin)
		add(&made.reserves, plugin)
		add(&made.permits, plugin)
		add(&made.preBinds, plugin)
		add(&made.binds, plugin)
	}
	return made
}

func (p *profile) addFilter(plugin framework.Plugin) {
	add(&p.preFilters, plugin)
	add(&p.filters, plugin)
}

func (p *profile) addScore(plugin framework.Plugin, weight int64) {
	if score, ok := plugin.(framework.ScorePlugin); ok && weight != 0 {
		add(&p.preScores, plugin)
		p.scores = append(p.scores, weighted{score, weight})
	}
}

// add appends a plug-in to those of a point, if it is one of them.
func add[T framework.Plugin](point *[]T, plugin framework.Plugin) {
	if at, ok := plugin.(T); ok {
		*point = append(*point, at)
	}
}

// feasibleEnough is how many nodes that would do are scored: all of up to 100, and a share of more, as upstream's
// percentageOfNodesToScore does.
func (p *profile) feasibleEnough(total int) int {
	const all = 100
	percent := p.PercentageOfNodesToScore
	if total <= all || percent >= 100 {
		return total
	}
	if percent == 0 {
		percent = max(5, 50-total/125)
	}
	return max(all, total*percent/100)
}
