package endpoints

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// testPod is a pod at 10.0.0.n on node n, ready or not.
func testPod(n int, ready bool, edit ...func(*corev1.Pod)) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	ip := fmt.Sprintf("10.0.%d.%d", n/250, n%250)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint("u", n))},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
			{Name: "web", ContainerPort: int32(8000 + n), Protocol: corev1.ProtocolTCP},
		}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}, {IP: fmt.Sprint("fd00::", n)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func testService(edit ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Labels: map[string]string{"app": "a"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.9", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

// show writes subsets as "ports: ready | not ready".
func show(subsets []corev1.EndpointSubset) []string {
	var lines []string
	for _, s := range subsets {
		line := ""
		for _, p := range s.Ports {
			line += fmt.Sprintf("%s=%d/%s ", p.Name, p.Port, p.Protocol)
		}
		line += ":"
		for _, a := range s.Addresses {
			line += fmt.Sprintf(" %s(%s@%s%s)", a.IP, a.TargetRef.Name, *a.NodeName, a.Hostname)
		}
		line += " |"
		for _, a := range s.NotReadyAddresses {
			line += " " + a.IP
		}
		lines = append(lines, line)
	}
	return lines
}

func TestWanted_Subsets(t *testing.T) {
	named := func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("web") }
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	always := corev1.ContainerRestartPolicyAlways
	tests := []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    []string
	}{
		{"no pods", testService(), nil, nil},
		{"ready and not", testService(), []*corev1.Pod{testPod(2, true), testPod(1, true), testPod(3, false)},
			[]string{"http=8080/TCP : 10.0.0.1(p1@n) 10.0.0.2(p2@n) | 10.0.0.3"}},
		{"only not ready", testService(), []*corev1.Pod{testPod(3, false)}, []string{"http=8080/TCP : | 10.0.0.3"}},
		{"a named port differs from pod to pod", testService(named), []*corev1.Pod{testPod(1, true), testPod(2, true)},
			[]string{"http=8001/TCP : 10.0.0.1(p1@n) |", "http=8002/TCP : 10.0.0.2(p2@n) |"}},
		{"a named port of a sidecar, of an init container, of nobody", testService(named), []*corev1.Pod{
			testPod(1, true, func(p *corev1.Pod) {
				p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
				p.Spec.InitContainers[0].RestartPolicy = &always
			}),
			testPod(2, true, func(p *corev1.Pod) { p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil }),
			testPod(3, true, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }),
		}, []string{"http=8001/TCP : 10.0.0.1(p1@n) |"}},
		{"ended, without address, deleted", testService(), []*corev1.Pod{
			testPod(1, true, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			testPod(2, false, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			testPod(3, false, func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }),
			testPod(4, true, deleting),
		}, nil},
		{"published although not ready or deleted", testService(publish), []*corev1.Pod{testPod(1, false), testPod(2, false, deleting)},
			[]string{"http=8080/TCP : 10.0.0.1(p1@n) 10.0.0.2(p2@n) |"}},
		{"two ports share a subset", testService(func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "admin", TargetPort: intstr.FromInt32(9000), Protocol: corev1.ProtocolTCP})
		}), []*corev1.Pod{testPod(1, true)}, []string{"admin=9000/TCP http=8080/TCP : 10.0.0.1(p1@n) |"}},
		{"headless without ports", testService(func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, "None" }),
			[]*corev1.Pod{testPod(1, true)}, []string{": 10.0.0.1(p1@n) |"}},
		{"the second family", testService(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }),
			[]*corev1.Pod{testPod(1, true)}, []string{"http=8080/TCP : fd00::1(p1@n) |"}},
		{"a hostname below the Service", testService(), []*corev1.Pod{
			testPod(1, true, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "-h", "s" }),
			testPod(2, true, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "-h", "other" }),
		}, []string{"http=8080/TCP : 10.0.0.1(p1@n-h) 10.0.0.2(p2@n) |"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := wanted(tt.service, tt.pods, nil)
			if diff := cmp.Diff(tt.want, show(got.Subsets)); diff != "" {
				t.Errorf("subsets (-want +got):\n%s", diff)
			}
			if !same(got, wanted(tt.service, tt.pods, got)) {
				t.Error("the same again is something else: it would be written for ever")
			}
		})
	}
}

func TestWanted_Metadata(t *testing.T) {
	headless := func(s *corev1.Service) { s.Spec.ClusterIP = "None" }
	got := wanted(testService(headless), nil, nil)
	want := map[string]string{"app": "a", corev1.IsHeadlessService: "", managedBy: managedByThis}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("labels of a headless Service's (-want +got):\n%s", diff)
	}
	current := got.DeepCopy()
	current.Annotations = map[string]string{"mine": "x", corev1.EndpointsOverCapacity: "truncated"}
	got = wanted(testService(), nil, current)
	if diff := cmp.Diff(map[string]string{"app": "a", managedBy: managedByThis}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	stamp(got, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if diff := cmp.Diff(map[string]string{"mine": "x", corev1.EndpointsLastChangeTriggerTime: "2026-01-02T03:04:05Z"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestWanted_TooMany(t *testing.T) {
	var pods []*corev1.Pod
	for n := range 900 {
		pods = append(pods, testPod(n, true), testPod(10000+n, false))
	}
	got := wanted(testService(), pods, nil)
	if n, m := len(got.Subsets[0].Addresses), len(got.Subsets[0].NotReadyAddresses); n != 900 || m != 100 {
		t.Errorf("%d ready and %d other addresses are left of 900 and 900, want all ready ones and 1000 together", n, m)
	}
	if a := got.Annotations[corev1.EndpointsOverCapacity]; a != "truncated" {
		t.Errorf("over-capacity is %q", a)
	}
}

func TestTriggers(t *testing.T) {
	at := func(s int) metav1.Time { return metav1.NewTime(time.Unix(int64(1000+s), 0)) }
	pod := func(n, s int) *corev1.Pod {
		return testPod(n, true, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = at(s) })
	}
	service := testService(func(s *corev1.Service) { s.CreationTimestamp = at(0) })
	tr := newTriggers()
	steps := []struct {
		what string
		pods []*corev1.Pod
		want metav1.Time
	}{
		{"the Service is new", nil, at(0)},
		{"nothing changed", nil, metav1.Time{}},
		{"two pods became ready", []*corev1.Pod{pod(1, 5), pod(2, 3)}, at(3)},
		{"nothing changed", []*corev1.Pod{pod(1, 5), pod(2, 3)}, metav1.Time{}},
		{"one changed again", []*corev1.Pod{pod(1, 5), pod(2, 9)}, at(9)},
		{"one went", []*corev1.Pod{pod(2, 9)}, metav1.Time{}},
	}
	for _, s := range steps {
		if got := tr.changed(service, s.pods); !got.Equal(s.want.Time) {
			t.Errorf("%s: %v, want %v", s.what, got, s.want)
		}
	}
}
