package nodelifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testNode(name string, status corev1.ConditionStatus, edit ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", CreationTimestamp: metav1.Unix(1000, 0)}}
	if status != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Unix(1100, 0)}}
	}
	for _, e := range edit {
		e(n)
	}
	return n
}

func TestHealth(t *testing.T) {
	const grace, startup = 40 * time.Second, 60 * time.Second
	at := func(s int) time.Time { return time.Unix(2000+int64(s), 0) }
	left := func(h *healthTable, s int) time.Duration { return h.left("n", at(s), grace, startup) }
	expect := func(t *testing.T, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("time left is %v, want %v", got, want)
		}
	}
	t.Run("leases", func(t *testing.T) {
		h := newHealthTable()
		h.observed(testNode("n", corev1.ConditionTrue), at(0))
		expect(t, left(h, 10), 30*time.Second)
		h.renewed("n", "a", at(10))
		expect(t, left(h, 10), 40*time.Second)
		h.renewed("n", "a", at(30)) // the same Lease once more is no renewal
		expect(t, left(h, 49), time.Second)
		expect(t, left(h, 50), 0)
		if !h.renewed("n", "b", at(60)) {
			t.Error("a renewal of a node that was given up is not reported")
		}
		expect(t, left(h, 60), 40*time.Second)
	})
	t.Run("heartbeats", func(t *testing.T) {
		h := newHealthTable()
		h.observed(testNode("n", corev1.ConditionTrue), at(0))
		h.observed(testNode("n", corev1.ConditionTrue), at(20)) // something else changed
		expect(t, left(h, 20), 20*time.Second)
		h.observed(testNode("n", corev1.ConditionTrue, func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Unix(1110, 0) }), at(20))
		expect(t, left(h, 20), 40*time.Second)
		expect(t, left(h, 60), 0)
		h.observed(testNode("n", corev1.ConditionUnknown), at(61)) // what this controller writes is no sign of life
		expect(t, left(h, 61), 0)
		h.observed(testNode("n", corev1.ConditionFalse), at(62))
		expect(t, left(h, 62), 40*time.Second)
	})
	t.Run("a node that never reports", func(t *testing.T) {
		h := newHealthTable()
		h.observed(testNode("n", "", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(at(0)) }), at(5))
		expect(t, left(h, 50), 10*time.Second)
		expect(t, left(h, 60), 0)
	})
	t.Run("another node of the name", func(t *testing.T) {
		h := newHealthTable()
		h.observed(testNode("n", corev1.ConditionTrue), at(0))
		h.observed(testNode("n", corev1.ConditionTrue, func(n *corev1.Node) { n.UID = "other" }), at(30))
		expect(t, left(h, 30), 40*time.Second)
	})
}

func TestGiveUp(t *testing.T) {
	n := testNode("n", corev1.ConditionTrue)
	now := metav1.Unix(5000, 0)
	if !giveUp(n, now) {
		t.Error("nothing changed")
	}
	show := func(n *corev1.Node) (lines []string) {
		for _, c := range n.Status.Conditions {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s (%d, %d)", c.Type, c.Status, c.Reason, c.Message, c.LastHeartbeatTime.Unix(), c.LastTransitionTime.Unix()))
		}
		return lines
	}
	want := []string{
		"Ready Unknown NodeStatusUnknown: Kubelet stopped posting node status. (1100, 5000)",
		"MemoryPressure Unknown NodeStatusNeverUpdated: Kubelet never posted node status. (1000, 5000)",
		"DiskPressure Unknown NodeStatusNeverUpdated: Kubelet never posted node status. (1000, 5000)",
		"PIDPressure Unknown NodeStatusNeverUpdated: Kubelet never posted node status. (1000, 5000)",
	}
	if diff := cmp.Diff(want, show(n)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if giveUp(n, metav1.Unix(6000, 0)) {
		t.Error("given up once more")
	}
}

func TestDesiredTaints(t *testing.T) {
	now := metav1.Unix(9000, 0)
	show := func(taints []corev1.Taint) (lines []string) {
		for _, t := range taints {
			line := t.Key + ":" + string(t.Effect)
			if t.TimeAdded != nil {
				line += fmt.Sprint("@", t.TimeAdded.Unix())
			}
			lines = append(lines, line)
		}
		return lines
	}
	early := metav1.Unix(8000, 0)
	with := func(taints ...corev1.Taint) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = taints }
	}
	pressure := func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
			corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionUnknown})
	}
	const ns, ne = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	tests := []struct {
		name string
		node *corev1.Node
		want []string
	}{
		{"ready", testNode("n", corev1.ConditionTrue), nil},
		{"not ready", testNode("n", corev1.ConditionFalse), []string{"node.kubernetes.io/not-ready:NoSchedule@9000", "node.kubernetes.io/not-ready:NoExecute@9000"}},
		{"unreachable", testNode("n", corev1.ConditionUnknown), []string{"node.kubernetes.io/unreachable:NoSchedule@9000", "node.kubernetes.io/unreachable:NoExecute@9000"}},
		{"new", testNode("n", ""), []string{"node.kubernetes.io/not-ready:NoSchedule@9000"}},
		{"cordoned, full disk", testNode("n", corev1.ConditionTrue, pressure, func(n *corev1.Node) { n.Spec.Unschedulable = true }),
			[]string{"node.kubernetes.io/disk-pressure:NoSchedule@9000", "node.kubernetes.io/unschedulable:NoSchedule@9000"}},
		{"back again", testNode("n", corev1.ConditionTrue, with(
			corev1.Taint{Key: "mine", Effect: ne}, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: ns}, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: ne},
		)), []string{"mine:NoExecute"}},
		{"times stay", testNode("n", corev1.ConditionUnknown, with(
			corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: ns, TimeAdded: &early}, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: ne, TimeAdded: &early},
		)), []string{"node.kubernetes.io/unreachable:NoSchedule@8000", "node.kubernetes.io/unreachable:NoExecute@8000"}},
		{"from not ready to unreachable", testNode("n", corev1.ConditionUnknown, with(
			corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: ns}, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: ne},
		)), []string{"node.kubernetes.io/unreachable:NoSchedule@9000", "node.kubernetes.io/unreachable:NoExecute@9000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := desiredTaints(tt.node, noSchedule(tt.node), noExecute(tt.node), now)
			if diff := cmp.Diff(tt.want, show(got)); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStateOfZone(t *testing.T) {
	tests := []struct {
		ready, notReady int
		want            zoneState
	}{
		{0, 0, zoneNormal}, {1, 0, zoneNormal}, {0, 1, zoneFull}, {1, 1, zoneNormal}, {0, 5, zoneFull},
		{1, 2, zoneNormal}, {2, 3, zonePartial}, {9, 10, zoneNormal}, {9, 11, zonePartial}, {45, 55, zonePartial}, {46, 54, zoneNormal},
	}
	for _, tt := range tests {
		if got := stateOfZone(tt.ready, tt.notReady); got != tt.want {
			t.Errorf("%d ready, %d not: state %d, want %d", tt.ready, tt.notReady, got, tt.want)
		}
	}
}

func TestZones_Admit(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	z := newZoneTable(10 * time.Second)
	for i := range 10 {
		z.observed(testNode(fmt.Sprint(i), corev1.ConditionTrue))
	}
	if z.disrupted() {
		t.Error("disrupted with all nodes ready")
	}
	fail := func(i int) (turned bool) { return z.observed(testNode(fmt.Sprint(i), corev1.ConditionUnknown)) }
	fail(0)
	fail(1)
	if ok, _ := z.admit("0", at(0)); !ok {
		t.Error("the first node has to wait")
	}
	if ok, wait := z.admit("1", at(7)); ok || wait != 3*time.Second {
		t.Errorf("the second node after 7 s: %v, wait %v; want 3 s more", ok, wait)
	}
	if ok, _ := z.admit("1", at(10)); !ok {
		t.Error("the second node has to wait longer than 10 s")
	}
	z.retract("1")
	if ok, _ := z.admit("1", at(11)); !ok {
		t.Error("the second node has to wait although its taint was not written")
	}
	for i := range 6 {
		fail(i)
	}
	if ok, _ := z.admit("5", at(100)); ok {
		t.Error("6 of 10 nodes are gone, and evictions go on")
	}
	for i := range 9 {
		if fail(i) {
			t.Errorf("disrupted after %d of 10 nodes", i+1)
		}
	}
	if !fail(9) || !z.disrupted() {
		t.Error("not disrupted with no node ready")
	}
	if !z.observed(testNode("3", corev1.ConditionTrue)) || z.disrupted() {
		t.Error("disrupted with a ready node")
	}
	if !z.forget("3") {
		t.Error("not disrupted after the only ready node was deleted")
	}
}

// Nodes that come and go say nothing about their zone.
func TestZones_Excluded(t *testing.T) {
	exclude := func(n *corev1.Node) { n.Labels = map[string]string{excludeLabel: ""} }
	z := newZoneTable(time.Second)
	if z.observed(testNode("a", corev1.ConditionUnknown, exclude)) || z.disrupted() {
		t.Error("disrupted by a node that does not count")
	}
	if !z.observed(testNode("b", corev1.ConditionUnknown)) {
		t.Error("not disrupted by the only node that counts")
	}
	if z.observed(testNode("a", corev1.ConditionTrue, exclude)) {
		t.Error("a node that does not count ended the disruption")
	}
	if !z.observed(testNode("a", corev1.ConditionTrue)) || z.disrupted() {
		t.Error("disrupted although the node counts now")
	}
	if !z.observed(testNode("a", corev1.ConditionTrue, exclude)) || !z.forget("b") || z.disrupted() {
		t.Error("disrupted without a node that counts")
	}
}

// The pods of a node are marked once for each time that its conditions are turned, and once after a restart.
func TestHealth_Mark(t *testing.T) {
	h, now := newHealthTable(), time.Unix(2000, 0)
	expect := func(what string, want bool) {
		t.Helper()
		if got := h.toMark("n"); got != want {
			t.Errorf("%s: to mark %v, want %v", what, got, want)
		}
	}
	h.observed(testNode("n", corev1.ConditionTrue), now)
	expect("a ready node", false)
	h.observed(testNode("n", corev1.ConditionFalse), now)
	expect("its kubelet says that it is not", false)
	h.turned("n", corev1.ConditionFalse)
	expect("then it falls silent", true)
	h.observed(testNode("n", corev1.ConditionUnknown), now)
	expect("which is seen", true)
	h.marked("n")
	h.observed(testNode("n", corev1.ConditionUnknown), now)
	expect("pods are marked", false)
	h.observed(testNode("n", corev1.ConditionTrue), now)
	h.turned("n", corev1.ConditionTrue)
	h.observed(testNode("n", corev1.ConditionTrue), now)
	expect("it comes back before its pods are marked", false)

	h = newHealthTable()
	h.observed(testNode("n", corev1.ConditionUnknown), now)
	expect("after a restart", true)
	h = newHealthTable()
	h.observed(testNode("n", ""), now)
	h.turned("n", "")
	expect("a node that never spoke", false)
}

func TestLeaveAt(t *testing.T) {
	taint := func(key string, since int64) heldTaint {
		return heldTaint{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}, since: time.Unix(since, 0)}
	}
	tolerate := func(key string, seconds ...int64) corev1.Toleration {
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if len(seconds) > 0 {
			t.TolerationSeconds = &seconds[0]
		}
		return t
	}
	unreachable := taint(corev1.TaintNodeUnreachable, 2000)
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		taints      []heldTaint
		defaults    int64
		want        int64 // 0: stays
	}{
		{"no taints", nil, nil, 300, 0},
		{"says nothing", nil, []heldTaint{unreachable}, 300, 2300},
		{"says nothing, no defaults", nil, []heldTaint{unreachable}, -1, 2000},
		{"another taint", nil, []heldTaint{taint("mine", 2000)}, 300, 2000},
		{"another taint, tolerated for ever", []corev1.Toleration{tolerate("mine")}, []heldTaint{taint("mine", 2000)}, 300, 0},
		{"says for how long", []corev1.Toleration{tolerate(corev1.TaintNodeUnreachable, 7)}, []heldTaint{unreachable}, 300, 2007},
		{"says for ever", []corev1.Toleration{tolerate(corev1.TaintNodeUnreachable)}, []heldTaint{unreachable}, 300, 0},
		{"tolerates everything", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []heldTaint{unreachable, taint("mine", 1)}, 300, 0},
		{"negative is at once", []corev1.Toleration{tolerate(corev1.TaintNodeUnreachable, -5)}, []heldTaint{unreachable}, 300, 2000},
		{"the shortest counts", []corev1.Toleration{tolerate("a", 50), tolerate("b", 20)}, []heldTaint{taint("a", 2000), taint("b", 2010)}, 300, 2030},
		{"bound after the taint came", []corev1.Toleration{tolerate("a", 50)}, []heldTaint{taint("a", 1000)}, 300, 1550},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(100, 0)}, Spec: corev1.PodSpec{Tolerations: tt.tolerations}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1500, 0)}}
			at, stays := leaveAt(pod, tt.taints, tt.defaults)
			if stays != (tt.want == 0) || !stays && at.Unix() != tt.want {
				t.Errorf("leaves at %d (stays %v), want %d", at.Unix(), stays, tt.want)
			}
		})
	}
}

func TestOldest(t *testing.T) {
	pod := func(name string, created int64, reason string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0)}, Status: corev1.PodStatus{Reason: reason}}
	}
	var got []string
	for _, p := range oldest([]*corev1.Pod{pod("c", 3, ""), pod("a", 1, ""), pod("evicted", 9, "Evicted"), pod("b", 2, "")}, 3) {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"evicted", "a", "b"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
