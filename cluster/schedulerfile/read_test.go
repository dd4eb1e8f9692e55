package schedulerfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"vigil/scheduler"
	"vigil/scheduler/plugins"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// TestDefault: testdata/default.yaml is what upstream's --write-config-to writes for its defaults. It is read, says what holds without a file, is
// written the same, and schedules as the scheduler does by itself.
func TestDefault(t *testing.T) {
	text, err := os.ReadFile("testdata/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*File{"read": mustRead(t, string(text)), "nothing": mustRead(t, head), "no file": Default()} {
		if err := f.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		written, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(written)); diff != "" {
			t.Errorf("%s is written (-want +got):\n%s", name, diff)
		}
		profiles, err := f.Profiles()
		if err != nil || len(profiles) != 1 {
			t.Fatalf("%s: %d profiles, %v", name, len(profiles), err)
		}
		got, want := profiles[0], scheduler.DefaultProfile()
		for _, name := range []string{"NodeVolumeLimits", "VolumeRestrictions", "VolumeBinding", "VolumeZone", "NodeDeclaredFeatures"} {
			delete(got.Filters, name) // no rules of their own
		}
		for _, name := range []string{"PodTopologySpread", "InterPodAffinity", "ImageLocality", "VolumeBinding", "DynamicResources"} {
			delete(got.Scores, name)
		}
		got.Args = plugins.Args{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: profile (-want +got):\n%s", name, diff)
		}
	}
}

func mustRead(t *testing.T, text string) *File {
	t.Helper()
	f, err := read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func profile(t *testing.T, text string) scheduler.Profile {
	t.Helper()
	f := mustRead(t, head+text)
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	profiles, err := f.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	return profiles[0]
}

func TestPlugins(t *testing.T) {
	for _, c := range []struct {
		name, text string
		filters    map[string]bool // of some
		scores     map[string]int64
	}{
		{"all by default", ``, map[string]bool{"NodePorts": true, "TaintToleration": true}, map[string]int64{"TaintToleration": 3, "NodeResourcesFit": 1}},
		{"one off everywhere", `profiles: [{plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}}]`,
			map[string]bool{"NodePorts": true, "TaintToleration": false}, map[string]int64{"TaintToleration": 0, "NodeResourcesFit": 1}},
		{"one off at a point", `profiles: [{plugins: {score: {disabled: [{name: TaintToleration}]}}}]`,
			map[string]bool{"TaintToleration": true}, map[string]int64{"TaintToleration": 0, "NodeAffinity": 2}},
		{"no scores", `profiles: [{plugins: {preScore: {disabled: [{name: "*"}]}, score: {disabled: [{name: "*"}]}}}]`,
			map[string]bool{"TaintToleration": true}, map[string]int64{"TaintToleration": 0, "NodeAffinity": 0, "NodeResourcesFit": 0}},
		{"weight at the point wins", `profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}, score: {enabled: [{name: NodeAffinity, weight: 9}]}}}]`,
			map[string]bool{"NodeAffinity": true}, map[string]int64{"NodeAffinity": 9}},
		{"weight everywhere", `profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}}]`, nil, map[string]int64{"NodeAffinity": 7, "TaintToleration": 3}},
		{"weight not said", `profiles: [{plugins: {score: {enabled: [{name: NodeAffinity}]}}}]`, nil, map[string]int64{"NodeAffinity": 1}},
		{"disabled and enabled", `profiles: [{plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 5}]}}}]`,
			nil, map[string]int64{"NodeResourcesFit": 5, "TaintToleration": 0}},
		{"only some", `profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: SchedulingGates}, {name: PrioritySort}, {name: NodeName}, {name: DefaultBinder}]}}}]`,
			map[string]bool{"NodeName": true, "NodePorts": false, "NodeResourcesFit": false, "VolumeBinding": false}, map[string]int64{"NodeResourcesFit": 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := profile(t, c.text)
			for name, on := range c.filters {
				if p.Filters[name] != on {
					t.Errorf("filter %s: %t, want %t", name, p.Filters[name], on)
				}
			}
			for name, weight := range c.scores {
				if p.Scores[name] != weight {
					t.Errorf("score %s: weight %d, want %d", name, p.Scores[name], weight)
				}
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	f := mustRead(t, head+`
parallelism: 3
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 9223372036854775807
profiles:
- schedulerName: one
  percentageOfNodesToScore: 70
  plugins: {multiPoint: {disabled: [{name: VolumeZone}]}}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: example.com/gpu, weight: 9}, {name: cpu}]}, ignoredResources: [example.com/x]}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 0}}
- schedulerName: two
`)
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	if b := f.Backoff(); b.Initial != 2*time.Second || b.Max < 99*365*24*time.Hour {
		t.Errorf("backoff %v", b)
	}
	profiles, err := f.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	one, two := profiles[0], profiles[1]
	if one.Name != "one" || one.PercentageOfNodesToScore != 70 || two.Name != "two" || two.PercentageOfNodesToScore != 40 {
		t.Errorf("profiles %+v", profiles)
	}
	if one.Volumes.Zone || !one.Volumes.Binding || one.Volumes.BindTimeout != 0 || !two.Volumes.Zone || two.Volumes.BindTimeout != 10*time.Minute {
		t.Errorf("rules of volumes: %+v and %+v", one.Volumes, two.Volumes)
	}
	strategy := one.Args.Fit.ScoringStrategy
	if strategy.Type != configv1.MostAllocated || strategy.Resources[1].Weight != 1 || two.Args.Fit.ScoringStrategy.Type != configv1.LeastAllocated {
		t.Errorf("strategies %+v and %+v", strategy, two.Args.Fit.ScoringStrategy)
	}
}

// TestRefusals: each row is one mistake, with what is said.
func TestRefusals(t *testing.T) {
	plugin := func(text string) string { return "profiles: [{plugins: {" + text + "}}]" }
	args := func(name, args string) string {
		return "profiles: [{pluginConfig: [{name: " + name + ", args: {" + args + "}}]}]"
	}
	for _, c := range []struct{ text, want string }{
		// Not a configuration.
		{"", "Object 'Kind' is missing"},
		{"apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n", "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, Kind=NodeAffinityArgs"},
		{"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n", `no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3"`},
		{head + "algorithmSource: {}\n", `strict decoding error: unknown field "algorithmSource"`},
		{head + "parallelism: 1\nparallelism: 2\n", `strict decoding error: yaml: unmarshal errors`},
		{head + args("NodeAffinity", "added: 1"), `decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeAffinity: strict decoding error: unknown field "added"`},
		{head + args("NodeAffinity", "kind: InterPodAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1"), "args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io"},
		// Upstream's rules.
		{head + "parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"},
		{head + "clientConnection: {burst: -1}", "clientConnection.burst: Invalid value: -1: must be non-negative"},
		{head + "leaderElection: {leaseDuration: 5s}", "leaderElection.leaseDuration: Invalid value"},
		{head + "leaderElection: {resourceLock: endpoints}", `leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"`},
		{head + "percentageOfNodesToScore: 101", "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"},
		{head + "podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"},
		{head + "podMaxBackoffSeconds: 1\npodInitialBackoffSeconds: 2", "podMaxBackoffSeconds: Invalid value: 1: must be greater than or equal to PodInitialBackoffSeconds"},
		{head + "profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"},
		{head + "profiles: [{schedulerName: a}, {schedulerName: a}]", `profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName"`},
		{head + "profiles: [{percentageOfNodesToScore: -1}]", "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"},
		{head + plugin("filter: {enabled: [{name: EBSLimits}]}"), `profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1"`},
		{head + plugin("filter: {enabled: [{name: Mine}]}"), `FilterPlugin "Mine" does not exist`},
		{head + plugin("multiPoint: {enabled: [{name: Mine}]}"), `PreEnqueuePlugin "Mine" does not exist`},
		{head + plugin("score: {enabled: [{name: NodePorts}]}"), `plugin "NodePorts" does not extend ScorePlugin plugin`},
		{head + plugin("score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}"), `plugin "NodeAffinity" already registered as "ScorePlugin"`},
		{head + plugin("multiPoint: {disabled: [{name: PrioritySort}]}"), `only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0`},
		{head + plugin("multiPoint: {disabled: [{name: DefaultBinder}]}"), `at least one bind plugin is needed for profile with scheduler name "default-scheduler"`},
		{head + "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]", `profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"`},
		{head + args("DefaultPreemption", "minCandidateNodesPercentage: 101"), "profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"},
		{head + args("InterPodAffinity", "hardPodAffinityWeight: 101"), "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"},
		{head + args("NodeAffinity", "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Maybe}]}]}}"),
			`profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Maybe"`},
		{head + args("NodeResourcesBalancedAllocation", "resources: [{name: cpu, weight: 2}]"), "profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1"},
		{head + args("NodeResourcesFit", "scoringStrategy: {type: Best}"), `profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Best"`},
		{head + args("NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio}"), "args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio"},
		{head + args("NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 50, score: 1}, {utilization: 0, score: 11}]}}"),
			"shape[1].utilization: Invalid value: 0: values must be sorted in increasing order"},
		{head + args("NodeResourcesFit", "ignoredResourceGroups: [a/b]"), `ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/'`},
		{head + args("NodeResourcesFit", "scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}"), "resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]"},
		{head + args("PodTopologySpread", "defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"), `args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty`},
		{head + args("PodTopologySpread", "defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]"), "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"},
		{head + args("VolumeBinding", "bindTimeoutSeconds: -1"), "args.bindTimeoutSeconds: Invalid value: -1"},
		{head + args("VolumeBinding", "shape: [{utilization: 0, score: 1}]"), "remove it or turn on the feature gate StorageCapacityScoring"},
		// What cannot be had here.
		{head + plugin("score: {enabled: [{name: InterPodAffinity, weight: 5}]}"), `profiles[0].plugins.score: Invalid value: "InterPodAffinity": this scheduler has no such score yet: the weight can only be 2`},
		{head + plugin("preEnqueue: {disabled: [{name: SchedulingGates}]}"), `profiles[0].plugins.preEnqueue: Invalid value: "SchedulingGates": cannot be off`},
		{head + plugin("preFilter: {disabled: [{name: NodeAffinity}]}"), `profiles[0].plugins.preFilter: Invalid value: "NodeAffinity": can only be off when filter is, too`},
		{head + plugin("preBind: {disabled: [{name: VolumeBinding}]}"), `profiles[0].plugins.preBind: Invalid value: "VolumeBinding": can only be off when filter is, too`},
		{head + args("DefaultPreemption", "minCandidateNodesPercentage: 11"), "does not preempt yet"},
		{head + args("InterPodAffinity", "hardPodAffinityWeight: 2"), "args.hardPodAffinityWeight: Invalid value: 2: this scheduler knows no affinity between pods yet"},
		{head + args("PodTopologySpread", "defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]"), "args.defaultConstraints: Invalid value: 1: this scheduler does not spread pods"},
		{head + args("DynamicResources", "filterTimeout: 0s"), "allocates no devices yet"},
		{head + args("Mine", "a: 1"), `profiles[0].pluginConfig[0].name: Invalid value: "Mine": there is no such plugin`},
		{head + "extenders: [{urlPrefix: http://127.0.0.1, filterVerb: filter}]", "extenders are not asked yet"},
	} {
		f, err := read([]byte(c.text))
		if err == nil {
			err = f.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}
