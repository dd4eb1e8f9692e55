package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"vigil/internal/eventually"
	"vigil/scheduler"
	"vigil/scheduler/plugins"
	"vigil/scheduler/queue"
)

// with has the scheduler work with these profiles; each begins as the default one.
func with(profiles map[string]func(*scheduler.Profile)) func(*scheduler.Config) {
	return func(c *scheduler.Config) {
		for name, change := range profiles {
			p := scheduler.DefaultProfile()
			p.Name = name
			change(&p)
			c.Profiles = append(c.Profiles, p)
		}
	}
}

func by(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

// Two profiles place the same pods differently: one fills nodes, the other spreads. Events come from the profile, and who names none of them waits.
func TestProfiles_PackAndSpread(t *testing.T) {
	c := start(t, with(map[string]func(*scheduler.Profile){
		"spreading": func(*scheduler.Profile) {},
		"packing": func(p *scheduler.Profile) {
			p.Args.Fit = &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
				Type: configv1.MostAllocated, Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}},
			}}
			p.Scores = map[string]int64{plugins.NodeResourcesFit: 1}
		},
	}))
	c.node("a", "10", nil)
	c.node("b", "10", nil)
	c.pod("first", "2", func(p *corev1.Pod) { p.Spec.NodeName = "b" })
	for i := range 3 {
		name := fmt.Sprintf("packed-%d", i)
		c.pod(name, "1", by("packing"))
		c.bound(name, "b")
	}
	c.pod("spread", "1", by("spreading"))
	c.bound("spread", "a")
	c.hasEventFrom("packed-0", "Scheduled", "packing")
	c.hasEventFrom("spread", "Scheduled", "spreading")
	c.pod("nobodys", "1", nil) // the default scheduler is not there
	c.pod("last", "1", by("packing"))
	c.bound("last", "b")
	if p, err := c.client.CoreV1().Pods("default").Get(t.Context(), "nobodys", metav1.GetOptions{}); err != nil || p.Spec.NodeName != "" || len(p.Status.Conditions) > 0 {
		t.Errorf("a pod of no profile: node %q, %v, %v", p.Spec.NodeName, p.Status.Conditions, err)
	}
}

func (c cluster) hasEventFrom(pod, reason, source string) {
	c.Helper()
	eventually.True(c, source+" makes an event "+reason+" of "+pod, func() bool {
		events, err := c.client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
		if err != nil {
			c.Fatal(err)
		}
		return len(events.Items) == 1 && events.Items[0].Source.Component == source
	})
}

// A filter that is off no longer keeps pods away; one that is on still does.
func TestProfiles_FilterOff(t *testing.T) {
	off := func(names ...string) func(*scheduler.Profile) {
		return func(p *scheduler.Profile) {
			for _, name := range names {
				delete(p.Filters, name)
			}
		}
	}
	c := start(t, with(map[string]func(*scheduler.Profile){
		"default-scheduler": func(*scheduler.Profile) {},
		"bold":              off(plugins.TaintToleration, plugins.NodeUnschedulable),
		"roomy":             off(plugins.NodeResourcesFit),
		"blind":             off(plugins.NodeAffinity),
		"sharing":           off(plugins.NodePorts),
		"deviceless":        off("DynamicResources"),
		"apart":             off("InterPodAffinity"),
	}))
	c.node("good", "2", nil)
	c.node("tainted", "2", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		n.Spec.Unschedulable = true
		n.Labels = map[string]string{"zone": "t"}
	})
	onTainted := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "t"} }
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	for name, test := range map[string]struct {
		profile, cpu string
		change       func(*corev1.Pod)
		node         string
	}{
		"p-bold":  {"bold", "100m", onTainted, "tainted"},
		"p-roomy": {"roomy", "64", nil, "good"},
		"p-blind": {"blind", "100m", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "nowhere"} }, "good"},
		"p-deviceless": {"deviceless", "100m", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("mine")}}
		}, "good"},
	} {
		with := func(scheduler string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.SchedulerName = scheduler
				if test.change != nil {
					test.change(p)
				}
			}
		}
		c.pod(name, test.cpu, with(test.profile))
		c.pod(name+"-default", test.cpu, with("default-scheduler"))
		if name == "p-roomy" { // leaves no room for the others
			c.bound(name, test.node)
			c.patchPod(name, `{"status":{"phase":"Succeeded"}}`, "status")
		}
		c.bound(name, test.node)
		c.wait(name+"-default", "is refused", func(p *corev1.Pod) bool { return scheduled(p).Reason == "Unschedulable" && p.Spec.NodeName == "" })
	}
	for _, name := range []string{"port-1", "port-2"} {
		c.pod(name, "100m", func(p *corev1.Pod) { port(p); p.Spec.SchedulerName = "sharing" })
		c.bound(name, "good")
	}
	// Rules that the profile does not have are not missed.
	c.pod("apart", "100m", func(p *corev1.Pod) {
		p.Spec.SchedulerName = "apart"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}}}}}
	})
	c.bound("apart", "good")
	c.hasEventFrom("apart", "Scheduled", "apart")
	c.pod("later", "100m", by("apart")) // its events come after those of the pod before
	c.hasEventFrom("later", "Scheduled", "apart")
	events, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=apart,reason=ConstraintsIgnored"})
	if err != nil || len(events.Items) != 0 {
		t.Errorf("events of what was not asked for: %v, %v", events.Items, err)
	}
}

// Affinity that the profile adds counts for all of its pods.
func TestProfiles_AddedAffinity(t *testing.T) {
	term := func(key, value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
	}
	c := start(t, with(map[string]func(*scheduler.Profile){"default-scheduler": func(p *scheduler.Profile) {
		p.Args.AddedAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("pool", "x")}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term("disk", "fast")}},
		}
	}}))
	c.node("other", "64", nil)
	c.pod("p", "100m", nil)
	c.refused("p", "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity.")
	c.node("slow", "64", func(n *corev1.Node) { n.Labels = map[string]string{"pool": "x"} })
	c.bound("p", "slow")
	c.node("fast", "1", func(n *corev1.Node) { n.Labels = map[string]string{"pool": "x", "disk": "fast"} })
	c.pod("q", "100m", nil)
	c.bound("q", "fast")
}

// A pod waits for its backoff, the first and the longest as configured.
func TestBackoff(t *testing.T) {
	const initial, longest = 1500 * time.Millisecond, 2 * time.Second
	c := start(t, func(config *scheduler.Config) { config.Backoff = queue.Backoff{Initial: initial, Max: longest} })
	c.node("a", "1", nil)
	began := time.Now() // before the first attempt; its event may come late
	c.pod("p", "2", nil)
	c.refused("p", "0/1 nodes are available: 1 Insufficient cpu.")
	for i := range 3 { // something that might help
		c.patchNode("a", fmt.Sprintf(`{"status":{"allocatable":{"cpu":"%d","memory":"%dMi"}}}`, 1, 900+i), "status")
		want := i + 2
		eventually.True(c, "the pod is tried again", func() bool { return c.attempts("p") >= want })
	}
	// Attempts 2, 3 and 4 come after 1.5, 2 and 2 seconds; of a node's change the time counts from the refusal on.
	if took := time.Since(began); took < initial+2*longest-500*time.Millisecond {
		t.Errorf("three attempts took %v, want %v", took, initial+2*longest)
	}
}

// attempts is how often a pod was refused, as its events count.
func (c cluster) attempts(pod string) (n int) {
	c.Helper()
	events, err := c.client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=FailedScheduling"})
	if err != nil {
		c.Fatal(err)
	}
	for i := range events.Items {
		n += int(events.Items[i].Count)
	}
	return n
}

// Claims: a profile without VolumeBinding binds pods whose claims are not bound, one without VolumeZone does not look at zones.
func TestProfiles_Claims(t *testing.T) {
	c := start(t, with(map[string]func(*scheduler.Profile){
		"default-scheduler": func(*scheduler.Profile) {},
		"careless":          func(p *scheduler.Profile) { p.Volumes.Binding = false },
		"zoneless":          func(p *scheduler.Profile) { p.Volumes.Zone = false },
		"hasty":             func(p *scheduler.Profile) { p.Volumes.BindTimeout = 0 },
	}))
	c.binder()
	c.node("a", "4", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "x"} })
	c.claim("unbound", "", corev1.ReadWriteOnce)
	c.pod("waits", "100m", claims("unbound"))
	c.refused("waits", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
	c.pod("does-not", "100m", func(p *corev1.Pod) { claims("unbound")(p); by("careless")(p) })
	c.bound("does-not", "a")

	c.volume("far", "far", "", func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{corev1.LabelTopologyZone: "y"} })
	c.claim("remote", "far", corev1.ReadWriteOnce)
	c.pod("zoned", "100m", claims("remote"))
	c.refused("zoned", "0/1 nodes are available: 1 node(s) had no available volume zone.")
	c.pod("anywhere", "100m", func(p *corev1.Pod) { claims("remote")(p); by("zoneless")(p) })
	c.bound("anywhere", "a")

	// Nobody provisions: the pod that waits for no time says so at once.
	c.class("made", "example.com/nobody", func(*storagev1.StorageClass) {})
	c.claim("never", "made", corev1.ReadWriteOnce)
	c.pod("impatient", "100m", func(p *corev1.Pod) { claims("never")(p); by("hasty")(p) })
	c.hasEvent("impatient", corev1.EventTypeWarning, "FailedScheduling", `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`, "hasty")
}
