package plugins

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

func view(t *testing.T, change func(*corev1.Node), pods ...*corev1.Pod) *nodecache.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("2"), "example.com/gpu": resource.MustParse("1")}}}
	if change != nil {
		change(node)
	}
	cache := nodecache.New()
	cache.SetNode(node)
	for i, pod := range pods {
		pod.UID, pod.Spec.NodeName = "other-"+pod.UID+"x", "n"
		if i > 0 {
			pod.UID += "y"
		}
		cache.AddPod(seen(t, pod))
	}
	return cache.Snapshot().Node("n")
}

func seen(t *testing.T, pod *corev1.Pod) *nodecache.Pod {
	t.Helper()
	p, err := nodecache.NewPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func asking(requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestFilters(t *testing.T) {
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: effect}} }
	}
	tolerating := func(toleration corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{toleration}}}
	}
	port := func(number int32) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Protocol: "TCP", HostPort: number}}}}}}
	}
	required := func(values ...string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: values}}}}}}}}}
	}
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		node   func(*corev1.Node)
		others []*corev1.Pod
		want   []string
	}{
		{name: "empty pod", pod: &corev1.Pod{}},
		{name: "fits exactly", pod: asking(quantities("cpu", "2", "memory", "1Gi", "example.com/gpu", "1"))},
		{name: "too much of two", pod: asking(quantities("cpu", "3", "memory", "2Gi")), want: []string{"Insufficient cpu", "Insufficient memory"}},
		{name: "others take it", pod: asking(quantities("cpu", "1500m")), others: []*corev1.Pod{asking(quantities("cpu", "1"))}, want: []string{"Insufficient cpu"}},
		{name: "extended resource", pod: asking(quantities("example.com/gpu", "2")), want: []string{"Insufficient example.com/gpu"}},
		{name: "unknown extended resource", pod: asking(quantities("example.com/fpga", "1")), want: []string{"Insufficient example.com/fpga"}},
		{name: "too many pods", pod: &corev1.Pod{}, others: []*corev1.Pod{{}, {}}, want: []string{"Too many pods"}},
		{name: "cordoned", pod: &corev1.Pod{}, node: func(n *corev1.Node) { n.Spec.Unschedulable = true }, want: []string{"node(s) were unschedulable"}},
		{name: "cordoned, tolerated", pod: tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}),
			node: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		{name: "tainted", pod: &corev1.Pod{}, node: taint(corev1.TaintEffectNoSchedule), want: []string{"node(s) had untolerated taint(s)"}},
		{name: "tainted NoExecute", pod: &corev1.Pod{}, node: taint(corev1.TaintEffectNoExecute), want: []string{"node(s) had untolerated taint(s)"}},
		{name: "tainted softly", pod: &corev1.Pod{}, node: taint(corev1.TaintEffectPreferNoSchedule)},
		{name: "tolerates all", pod: tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}), node: taint(corev1.TaintEffectNoSchedule)},
		{name: "tolerates equal", pod: tolerating(corev1.Toleration{Key: "k", Value: "v"}), node: taint(corev1.TaintEffectNoSchedule)},
		{name: "tolerates other value", pod: tolerating(corev1.Toleration{Key: "k", Value: "w"}), node: taint(corev1.TaintEffectNoSchedule), want: []string{"node(s) had untolerated taint(s)"}},
		{name: "tolerates other effect", pod: tolerating(corev1.Toleration{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}), node: taint(corev1.TaintEffectNoSchedule), want: []string{"node(s) had untolerated taint(s)"}},
		{name: "selector", pod: &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}}},
		{name: "selector misses", pod: &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "b"}}}, want: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{name: "affinity", pod: required("b", "a")},
		{name: "affinity misses", pod: required("b"), want: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{name: "host port", pod: port(80), others: []*corev1.Pod{port(81)}},
		{name: "host port taken", pod: port(80), others: []*corev1.Pod{port(80)}, want: []string{"node(s) didn't have free ports for the requested pod ports"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			node, pod := view(t, test.node, test.others...), seen(t, test.pod)
			var got []string
			state := &framework.CycleState{}
			for _, p := range All(Args{}) {
				if f, ok := p.(framework.FilterPlugin); ok {
					if got = f.Filter(state, pod, node).Reasons(); len(got) > 0 {
						break
					}
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestScores(t *testing.T) {
	small := seen(t, asking(quantities("cpu", "100m", "memory", "64Mi")))
	empty, busy := view(t, nil), view(t, nil, asking(quantities("cpu", "1", "memory", "512Mi")))
	args := Args{}
	least, balanced := args.allocation(), args.balance()
	if e, b := least(small, empty), least(small, busy); e <= b {
		t.Errorf("least allocated: empty %d, busy %d", e, b)
	}
	lopsided := view(t, nil, asking(quantities("cpu", "1900m", "memory", "1Mi")))
	if e, l := balanced(small, empty), balanced(small, lopsided); e <= l {
		t.Errorf("balance: even %d, lopsided %d", e, l)
	}
	soft := view(t, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	if got := intolerableTaints(small, soft); got != 1 {
		t.Errorf("soft taints: %d", got)
	}
	preferring := asking(nil)
	preferring.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: 30, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}}}}}
	if got := (nodeAffinity{}).Score(nil, seen(t, preferring), empty); got != 30 {
		t.Errorf("preferred affinity: %d", got)
	}
}

// The highest score becomes MaxScore; of taints, which are bad, 0.
func TestNormalizeScore(t *testing.T) {
	scores := []int64{3, 0, 6}
	nodeAffinity{}.NormalizeScore(nil, nil, scores)
	if !slices.Equal(scores, []int64{50, 0, 100}) {
		t.Errorf("affinity: %v", scores)
	}
	taints, none := []int64{3, 0, 6}, []int64{0, 0}
	taintToleration{}.NormalizeScore(nil, nil, taints)
	taintToleration{}.NormalizeScore(nil, nil, none)
	if !slices.Equal(taints, []int64{50, 100, 0}) || !slices.Equal(none, []int64{100, 100}) {
		t.Errorf("taints: %v, %v", taints, none)
	}
}
