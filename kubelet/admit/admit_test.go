package admit

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet"
)

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "ephemeral-storage": resource.MustParse("10Gi"),
			"pods": resource.MustParse("4"), "example.com/gpu": resource.MustParse("1"),
		}},
	}
}

// pod makes a pod of one container that requests, and is limited to, these: "cpu=1 memory=1Gi".
func testPod(name, requested, limits string, change func(*corev1.Pod)) *corev1.Pod {
	list := func(s string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for _, item := range strings.Fields(s) {
			name, quantity, _ := strings.Cut(item, "=")
			l[corev1.ResourceName(name)] = resource.MustParse(quantity)
		}
		return l
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requested), Limits: list(limits)}}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func withPort(ip string, protocol corev1.Protocol, port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: 80}}
	}
}

func TestNode(t *testing.T) {
	other := testPod("other", "cpu=500m memory=256Mi", "", nil)
	full := []*corev1.Pod{testPod("1", "", "", nil), testPod("2", "", "", nil), testPod("3", "", "", nil), testPod("4", "", "", nil)}
	taint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	}
	tests := []struct {
		name   string
		pod    *corev1.Pod
		others []*corev1.Pod
		node   func(*corev1.Node)
		want   *kubelet.Refusal
	}{
		{"fits", testPod("p", "cpu=1500m memory=768Mi", "", nil), []*corev1.Pod{other}, nil, nil},
		{"cpu", testPod("p", "cpu=1501m", "", nil), []*corev1.Pod{other}, nil,
			&kubelet.Refusal{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 1501, used: 500, capacity: 2000"}},
		{"memory", testPod("p", "memory=1Gi", "", nil), []*corev1.Pod{other}, nil,
			&kubelet.Refusal{Reason: "OutOfmemory", Message: "Node didn't have enough resource: memory, requested: 1073741824, used: 268435456, capacity: 1073741824"}},
		{"disk", testPod("p", "ephemeral-storage=11Gi", "", nil), nil, nil,
			&kubelet.Refusal{Reason: "OutOfephemeral-storage", Message: "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"}},
		{"cpu is told first", testPod("p", "cpu=9 memory=9Gi example.com/gpu=2", "", nil), nil, nil,
			&kubelet.Refusal{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 2000"}},
		{"pods", testPod("p", "", "", nil), full, nil, &kubelet.Refusal{Reason: "OutOfpods", Message: "Node didn't have enough resource: pods, requested: 1, used: 4, capacity: 4"}},
		{"extended", testPod("p", "example.com/gpu=2", "", nil), nil, nil,
			&kubelet.Refusal{Reason: "OutOfexample.com/gpu", Message: "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1"}},
		{"extended that the node does not know", testPod("p", "example.com/licence=2", "", nil), nil, nil, nil},
		{"hugepages that the node does not have", testPod("p", "hugepages-2Mi=2Mi", "", nil), nil, nil,
			&kubelet.Refusal{Reason: "OutOfhugepages-2Mi", Message: "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0"}},
		{"nothing of what is used up", testPod("p", "", "", nil), []*corev1.Pod{testPod("o", "cpu=5", "", nil)}, nil, nil},
		{"overhead", testPod("p", "cpu=1", "", func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1001m")} }), nil, nil,
			&kubelet.Refusal{Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu, requested: 2001, used: 0, capacity: 2000"}},
		{"selector", testPod("p", "", "", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }), nil, nil,
			&kubelet.Refusal{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}},
		{"selector of one that has begun", testPod("p", "", "", func(p *corev1.Pod) {
			p.Spec.NodeSelector, p.Status.StartTime = map[string]string{"zone": "b"}, &metav1.Time{}
		}), nil, taint, nil},
		{"name", testPod("p", "", "", func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }), nil, nil,
			&kubelet.Refusal{Reason: "NodeName", Message: "Predicate NodeName failed: node(s) didn't match the requested node name"}},
		{"port", testPod("p", "", "", withPort("", "", 80)), []*corev1.Pod{testPod("o", "", "", withPort("192.0.2.1", "TCP", 80))}, nil,
			&kubelet.Refusal{Reason: "NodePorts", Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}},
		{"port of another protocol", testPod("p", "", "", withPort("", "UDP", 80)), []*corev1.Pod{testPod("o", "", "", withPort("", "TCP", 80))}, nil, nil},
		{"port of another address", testPod("p", "", "", withPort("192.0.2.2", "TCP", 80)), []*corev1.Pod{testPod("o", "", "", withPort("192.0.2.1", "TCP", 80))}, nil, nil},
		{"taint", testPod("p", "", "", nil), nil, taint,
			&kubelet.Refusal{Reason: "TaintToleration", Message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}},
		{"tolerated taint", testPod("p", "", "", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		}), nil, taint, nil},
		{"taint and a static pod", testPod("p", "", "", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }), nil, taint, nil},
		{"label of another system", testPod("p", "", "", func(p *corev1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "plan9"} }), nil, nil,
			&kubelet.Refusal{Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}},
		{"other system", testPod("p", "", "", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }), nil, nil,
			&kubelet.Refusal{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"}},
		{"this system", testPod("p", "", "", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.OSName(runtime.GOOS)} }), nil, nil, nil},
		{"groups", testPod("p", "", "", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict)}
		}), nil, nil, &kubelet.Refusal{Reason: "SupplementalGroupsPolicyNotSupported", Message: "SupplementalGroupsPolicy=Strict is not supported in this node"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := testNode()
			if test.node != nil {
				test.node(node)
			}
			n := &Node{Get: func() (*corev1.Node, error) { return node, nil }}
			if diff := cmp.Diff(test.want, n.Admit(test.pod, test.others)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	lost := &Node{Get: func() (*corev1.Node, error) { return nil, errors.New("no") }}
	if got := lost.Admit(other, nil); got == nil || got.Reason != "InvalidNodeInfo" {
		t.Errorf("without a node: %v", got)
	}
}

func TestNode_Preempts(t *testing.T) {
	priority := func(p int32) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Priority = &p }
	}
	guaranteed := func(name, r string) *corev1.Pod { return testPod(name, r, r, nil) }
	tests := []struct {
		name   string
		pod    *corev1.Pod
		others []*corev1.Pod
		ended  []string
		want   string // reason of the refusal
	}{
		{"not critical", testPod("p", "cpu=1", "", priority(1000)), []*corev1.Pod{testPod("a", "cpu=2", "", nil)}, nil, "OutOfcpu"},
		{"one is enough", testPod("p", "cpu=1", "", priority(systemCritical)), []*corev1.Pod{testPod("a", "cpu=500m", "", nil), testPod("b", "cpu=1", "", nil), testPod("c", "cpu=500m", "", nil)}, []string{"b"}, ""},
		{"the smallest that is enough", testPod("p", "memory=512Mi", "", priority(systemCritical)),
			[]*corev1.Pod{testPod("a", "memory=600Mi", "", nil), testPod("b", "memory=400Mi", "", nil)}, []string{"a"}, ""},
		{"burstable before guaranteed", testPod("p", "cpu=1", "", priority(systemCritical)),
			[]*corev1.Pod{guaranteed("a", "cpu=1 memory=1Mi"), testPod("b", "cpu=500m", "", nil), testPod("c", "cpu=500m", "", nil)}, []string{"b", "c"}, ""},
		{"guaranteed when it must", testPod("p", "cpu=1500m", "", priority(systemCritical)),
			[]*corev1.Pod{guaranteed("a", "cpu=1 memory=1Mi"), testPod("b", "cpu=1", "", nil)}, []string{"a", "b"}, ""},
		{"best effort for a place", testPod("p", "", "", priority(systemCritical)),
			[]*corev1.Pod{guaranteed("a", "cpu=1m memory=1Mi"), testPod("b", "cpu=1m", "", nil), testPod("c", "", "", nil), testPod("d", "cpu=1m", "", nil)}, []string{"c"}, ""},
		{"critical ones stay", testPod("p", "cpu=1", "", priority(systemCritical)), []*corev1.Pod{testPod("a", "cpu=2", "", priority(systemCritical))}, nil, "UnexpectedAdmissionError"},
		{"less critical ones do not", testPod("p", "cpu=1", "", priority(systemCritical+1)), []*corev1.Pod{testPod("a", "cpu=2", "", priority(systemCritical))}, []string{"a"}, ""},
		{"other reasons stay", testPod("p", "cpu=1", "", func(p *corev1.Pod) {
			priority(systemCritical)(p)
			withPort("", "", 80)(p)
		}), []*corev1.Pod{testPod("a", "cpu=2", "", withPort("", "", 80))}, nil, "NodePorts"},
		{"static", testPod("p", "cpu=1", "", func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }),
			[]*corev1.Pod{testPod("a", "cpu=2", "", nil)}, []string{"a"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var ended []string
			n := &Node{Get: func() (*corev1.Node, error) { return testNode(), nil }}
			got := ""
			if refusal := n.Admit(test.pod, test.others); refusal != nil {
				for _, victim := range refusal.Victims {
					ended = append(ended, victim.Name)
				}
				if got = refusal.Reason; len(ended) > 0 {
					got = ""
				}
			}
			slices.Sort(ended)
			if got != test.want || !slices.Equal(ended, test.ended) {
				t.Errorf("refused with %q after %v ended, want %q after %v", got, ended, test.want, test.ended)
			}
		})
	}
}

func TestSysctls(t *testing.T) {
	s, err := NewSysctls([]string{"net.core.*", "kernel/msgmax"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		host bool
		want string
	}{
		{"net.ipv4.tcp_syncookies", false, ""}, {"net/ipv4/ping_group_range", false, ""}, {"net.core.somaxconn", false, ""}, {"kernel.msgmax", false, ""},
		{"kernel.shm_rmid_forced", false, ""},
		{"net.ipv4.ip_forward", false, `forbidden sysctl: "net.ipv4.ip_forward" not allowlisted`},
		{"vm.swappiness", false, `forbidden sysctl: "vm.swappiness" not allowlisted`},
		{"net.core.somaxconn", true, `forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled`},
		{"kernel.msgmax", true, `forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`},
	} {
		pod := testPod("p", "", "", func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.Spec.HostIPC = test.host, test.host
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: test.name, Value: "1"}}}
		})
		got := ""
		if refusal := s.Admit(pod, nil); refusal != nil {
			got = refusal.Message
			if refusal.Reason != "SysctlForbidden" {
				t.Errorf("%s: reason %s", test.name, refusal.Reason)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	if refusal := s.Admit(testPod("p", "", "", nil), nil); refusal != nil {
		t.Errorf("a pod that sets none: %v", refusal)
	}
	if _, err := NewSysctls([]string{"vm.*"}); fmt.Sprint(err) != `the sysctls "vm.*" are not known to be namespaced` {
		t.Errorf("parameters of the whole node: %v", err)
	}
}

func TestAppArmor(t *testing.T) {
	wants := testPod("p", "", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
	})
	want := &kubelet.Refusal{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	if diff := cmp.Diff(want, AppArmor{}.Admit(wants, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (AppArmor{Enabled: true}).Admit(wants, nil); got != nil {
		t.Errorf("with AppArmor: %v", got)
	}
	unconfined := testPod("p", "", "", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}
	})
	old := testPod("p", "", "", func(p *corev1.Pod) {
		p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "localhost/x"}
	})
	if (AppArmor{}).Admit(unconfined, nil) != nil || (AppArmor{}).Admit(old, nil) == nil {
		t.Error("want: unconfined pods let in, profiles in annotations noticed")
	}
	wants.Status.Phase = corev1.PodRunning
	if got := (AppArmor{}).Admit(wants, nil); got != nil {
		t.Errorf("a pod that runs: %v", got)
	}
}
