package schedulerfile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"vigil/scheduler/framework"
	"vigil/scheduler/plugins"
)

// upstreamPlugin is a plug-in of kube-scheduler.
type upstreamPlugin struct {
	name   string
	weight int32  // by default, of its score; 0: it has none
	points string // where it is asked
	// absent says that nothing here does what it does: it may be on as by default, or off.
	absent bool
}

const (
	schedulingGates    = "SchedulingGates"
	prioritySort       = "PrioritySort"
	defaultBinder      = "DefaultBinder"
	defaultPreemption  = "DefaultPreemption"
	interPodAffinity   = "InterPodAffinity"
	podTopologySpread  = "PodTopologySpread"
	dynamicResources   = "DynamicResources"
	volumeBinding      = "VolumeBinding"
	volumeRestrictions = "VolumeRestrictions"
	volumeZone         = "VolumeZone"
)

// upstreamPlugins are all that are on by default, in upstream's order.
var upstreamPlugins = []upstreamPlugin{
	{name: schedulingGates, points: "preEnqueue"},
	{name: prioritySort, points: "queueSort"},
	{name: plugins.NodeUnschedulable, points: "filter"},
	{name: plugins.NodeName, points: "filter"},
	{name: plugins.TaintToleration, weight: 3, points: "filter preScore score"},
	{name: plugins.NodeAffinity, weight: 2, points: "preFilter filter preScore score"},
	{name: plugins.NodePorts, points: "preFilter filter"},
	{name: plugins.NodeResourcesFit, weight: 1, points: "preFilter filter preScore score"},
	{name: volumeRestrictions, points: "preFilter filter"},
	{name: "NodeVolumeLimits", points: "preFilter filter", absent: true},
	{name: volumeBinding, points: "preFilter filter reserve preBind preScore score"},
	{name: volumeZone, points: "preFilter filter"},
	{name: podTopologySpread, weight: 2, points: "preFilter filter preScore score", absent: true},
	{name: interPodAffinity, weight: 2, points: "preFilter filter preScore score", absent: true},
	{name: "NodeDeclaredFeatures", points: "preFilter filter", absent: true},
	{name: dynamicResources, points: "preEnqueue preFilter filter postFilter reserve preBind score"},
	{name: defaultPreemption, points: "preEnqueue postFilter", absent: true},
	{name: plugins.NodeResourcesBalancedAllocation, weight: 1, points: "preScore score"},
	{name: "ImageLocality", weight: 1, points: "score", absent: true},
	{name: defaultBinder, points: "bind"},
}

func upstreamPluginOf(name string) (upstreamPlugin, bool) {
	if i := slices.IndexFunc(upstreamPlugins, func(p upstreamPlugin) bool { return p.name == name }); i >= 0 {
		return upstreamPlugins[i], true
	}
	return upstreamPlugin{}, false
}

func (p upstreamPlugin) at(point string) bool {
	return slices.Contains(strings.Fields(p.points), point)
}

// removedPlugins were upstream's before v1 of the API.
var removedPlugins = []string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}

func defaultPlugins() configv1.PluginSet {
	var set configv1.PluginSet
	for _, p := range upstreamPlugins {
		plugin := configv1.Plugin{Name: p.name}
		if p.weight != 0 {
			plugin.Weight = &p.weight
		}
		set.Enabled = append(set.Enabled, plugin)
	}
	return set
}

// merge puts what is given into the default set: what is disabled goes, what is enabled replaces a default or comes after all of them.
func merge(usual, given configv1.PluginSet) configv1.PluginSet {
	off := func(name string) bool {
		return slices.ContainsFunc(given.Disabled, func(p configv1.Plugin) bool { return p.Name == name || p.Name == "*" })
	}
	set := configv1.PluginSet{Disabled: given.Disabled}
	replaced := map[int]bool{}
	for _, p := range usual.Enabled {
		if off(p.Name) {
			continue
		}
		if i := slices.IndexFunc(given.Enabled, func(g configv1.Plugin) bool { return g.Name == p.Name }); i >= 0 {
			p, replaced[i] = given.Enabled[i], true
		}
		set.Enabled = append(set.Enabled, p)
	}
	for i, p := range given.Enabled {
		if !replaced[i] {
			set.Enabled = append(set.Enabled, p)
		}
	}
	return set
}

// extensionPoint is where plug-ins are asked: the field's name, and what upstream calls the plug-ins in errors.
type extensionPoint struct {
	field, kind string
	of          func(*configv1.Plugins) *configv1.PluginSet
}

var extensionPoints = []extensionPoint{
	{"preEnqueue", "PreEnqueuePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreEnqueue }},
	{"queueSort", "QueueSortPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.QueueSort }},
	{"preFilter", "PreFilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreFilter }},
	{"filter", "FilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Filter }},
	{"postFilter", "PostFilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PostFilter }},
	{"preScore", "PreScorePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreScore }},
	{"score", "ScorePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Score }},
	{"reserve", "ReservePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Reserve }},
	{"permit", "PermitPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Permit }},
	{"preBind", "PreBindPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PreBind }},
	{"bind", "BindPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.Bind }},
	{"postBind", "PostBindPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PostBind }},
	{"placementGenerate", "PlacementGeneratePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PlacementGenerate }},
	{"placementScore", "PlacementScorePlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PlacementScore }},
	{"podGroupPostFilter", "PodGroupPostFilterPlugin", func(p *configv1.Plugins) *configv1.PluginSet { return &p.PodGroupPostFilter }},
}

// used are the names of all plug-ins that are on somewhere.
func used(p *configv1.Plugins) map[string]bool {
	names := map[string]bool{}
	for _, plugin := range p.MultiPoint.Enabled {
		names[plugin.Name] = true
	}
	for _, point := range extensionPoints {
		for _, plugin := range point.of(p).Enabled {
			names[plugin.Name] = true
		}
	}
	return names
}

// effective are the plug-ins of a profile: by point the names of those that are asked there, and the weights of scores.
type effective struct {
	on      map[string]map[string]bool
	weights map[string]int64
}

func (e *effective) has(point, plugin string) bool { return e.on[point][plugin] }

// mostWeight keeps the sum of all scores within 64 bits.
const mostWeight = math.MaxInt64 / framework.MaxScore

// expand says what is on where: what a point names itself, and the multiPoint plug-ins that it has not disabled. Texts of errors are those
// with which upstream's framework refuses to start.
func expand(p *configv1.Plugins) (*effective, error) {
	e := &effective{on: map[string]map[string]bool{}, weights: map[string]int64{}}
	for _, point := range extensionPoints {
		set, on := point.of(p), map[string]bool{}
		e.on[point.field] = on
		for _, plugin := range set.Enabled {
			known, ok := upstreamPluginOf(plugin.Name)
			switch {
			case !ok:
				return nil, fmt.Errorf("%s %q does not exist", point.kind, plugin.Name)
			case !known.at(point.field):
				return nil, fmt.Errorf("plugin %q does not extend %s plugin", plugin.Name, point.kind)
			case on[plugin.Name]:
				return nil, fmt.Errorf("plugin %q already registered as %q", plugin.Name, point.kind)
			}
			on[plugin.Name] = true
		}
		disabled := func(name string) bool {
			return slices.ContainsFunc(set.Disabled, func(p configv1.Plugin) bool { return p.Name == name })
		}
		own, several := len(on), map[string]bool{}
		if disabled("*") {
			continue
		}
		for _, plugin := range p.MultiPoint.Enabled {
			known, ok := upstreamPluginOf(plugin.Name)
			switch {
			case !ok:
				return nil, fmt.Errorf("%s %q does not exist", point.kind, plugin.Name)
			case !known.at(point.field), disabled(plugin.Name), own > 0 && on[plugin.Name] && !several[plugin.Name]:
				continue
			case several[plugin.Name]:
				return nil, fmt.Errorf("plugin %q already registered as %q", plugin.Name, point.kind)
			}
			on[plugin.Name], several[plugin.Name] = true, true
		}
	}
	return e, e.weigh(append(slices.Clone(p.Score.Enabled), p.MultiPoint.Enabled...))
}

// weigh finds the weights of scores: what the point score says wins over multiPoint; none is 1.
func (e *effective) weigh(given []configv1.Plugin) error {
	total := int64(0)
	for _, plugin := range given {
		if _, seen := e.weights[plugin.Name]; seen || !e.has("score", plugin.Name) {
			continue
		}
		weight := int64(1)
		if plugin.Weight != nil && *plugin.Weight != 0 {
			weight = int64(*plugin.Weight)
		}
		if weight > mostWeight-total {
			return errors.New("total score of Score plugins could overflow")
		}
		e.weights[plugin.Name] = weight
		total += weight
	}
	return nil
}

// possible says what of a profile's plug-ins cannot be had here.
func (e *effective) possible(name string, path *field.Path) error {
	if n := len(e.on["queueSort"]); n != 1 {
		return fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d", name, n)
	}
	if len(e.on["bind"]) == 0 {
		return fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", name)
	}
	if !e.has("preEnqueue", schedulingGates) {
		return field.Invalid(path.Child("preEnqueue"), schedulingGates, "cannot be off: the API server binds no pod that has scheduling gates")
	}
	for _, p := range upstreamPlugins {
		if weight := e.weights[p.name]; p.absent && weight != 0 && weight != int64(p.weight) {
			return field.Invalid(path.Child("score"), p.name, fmt.Sprintf("this scheduler has no such score yet: the weight can only be %d", p.weight))
		}
		if p.absent {
			continue
		}
		filters, scores := e.has("filter", p.name), e.has("score", p.name)
		for _, pair := range []struct {
			point string
			with  bool
			need  string
		}{{"preFilter", filters, "filter"}, {"preScore", scores && p.weight != 0, "score"}, {"reserve", filters, "filter"}, {"preBind", filters, "filter"}} {
			if p.at(pair.point) && pair.with && !e.has(pair.point, p.name) {
				return field.Invalid(path.Child(pair.point), p.name, "can only be off when "+pair.need+" is, too")
			}
		}
	}
	return nil
}
