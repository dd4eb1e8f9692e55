package core

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// podFrom returns a defaulted pod of YAML, with one container unless it has its own.
func podFrom(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", ResourceVersion: "7", Generation: 1}}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if pod.Spec.Containers == nil {
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
	}
	Pod().Default(pod)
	return pod
}

func TestPod_Create(t *testing.T) {
	pod := podFrom(t, `
spec: {schedulingGates: [{name: g}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [app]}]}
metadata: {labels: {app: web}}
status: {phase: Running, podIP: 1.2.3.4}`)
	row := Pod()
	row.PrepareCreate(pod)
	wantErrors(t, row.Validate(pod))
	wantSame(t, "status", corev1.PodStatus{
		Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated",
			Message: "Scheduling is blocked due to non-empty scheduling gates"}},
	}, pod.Status)
	wantSame(t, "selector", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web"}}}},
		pod.Spec.TopologySpreadConstraints[0].LabelSelector)
}

func TestPod_ValidateCreate(t *testing.T) {
	wantErrors(t, Pod().Validate(podFrom(t, `spec: {nodeName: node, schedulingGates: [{name: g}]}`)),
		`spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared`)
	wantErrors(t, Pod().Validate(podFrom(t, `spec: {ephemeralContainers: [{name: e, image: x}]}`)),
		`spec.ephemeralContainers: Forbidden: cannot be set on create`)
}

func TestPod_Update(t *testing.T) {
	row := Pod()
	old := podFrom(t, `status: {phase: Running}`)
	pod := podFrom(t, `{spec: {containers: [{name: c, image: "image:2"}]}, status: {phase: Failed}}`)
	row.PrepareUpdate(pod, old)
	wantErrors(t, row.ValidateUpdate(pod, old))
	wantSame(t, "status", old.Status, pod.Status)

	mirror := podFrom(t, `{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: node}}`)
	plain := podFrom(t, `spec: {nodeName: node}`)
	wantErrors(t, row.ValidateUpdate(plain, mirror),
		`metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not remove or update mirror pod annotation`)
	wantErrors(t, row.ValidateUpdate(mirror, plain),
		`metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation`)
}

func TestPod_Warnings(t *testing.T) {
	pod := podFrom(t, `{metadata: {name: a.b}, spec: {terminationGracePeriodSeconds: -1}}`)
	got := Pod().Warnings(pod, nil)
	if len(got) != 2 || !strings.HasPrefix(got[0], `metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [`) {
		t.Errorf("warnings on create: %q", got)
	}
	wantSame(t, "warnings on update", []string(nil), Pod().Warnings(pod, pod))
}

func TestPod_Graceful(t *testing.T) {
	for _, tc := range []struct {
		name, pod string
		asked     *int64
		want      int64
	}{
		{"default", `spec: {nodeName: node}`, nil, 30},
		{"its own", `spec: {nodeName: node, terminationGracePeriodSeconds: 5}`, nil, 5},
		{"asked for", `spec: {nodeName: node}`, ptr(int64(60)), 60},
		{"at once", `spec: {nodeName: node}`, ptr(int64(0)), 0},
		{"negative", `spec: {nodeName: node, terminationGracePeriodSeconds: -7}`, nil, 1},
		{"not scheduled", `spec: {}`, ptr(int64(60)), 0},
		{"succeeded", `{spec: {nodeName: node}, status: {phase: Succeeded}}`, nil, 0},
		{"failed", `{spec: {nodeName: node}, status: {phase: Failed}}`, ptr(int64(9)), 0},
	} {
		got, graceful := Pod().Graceful(podFrom(t, tc.pod), &metav1.DeleteOptions{GracePeriodSeconds: tc.asked})
		if got != tc.want || !graceful {
			t.Errorf("%s: %d s, graceful %v, want %d s", tc.name, got, graceful, tc.want)
		}
	}
}

func binding(node string) *corev1.Binding {
	return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
}

func TestPod_Bind(t *testing.T) {
	pod := podFrom(t, `
metadata: {labels: {a: b}}
status: {nominatedNodeName: m, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`)
	b := binding("node")
	b.Labels, b.Annotations = map[string]string{"zone": "z"}, map[string]string{"x": "y"}
	before := time.Now().Add(-time.Second)
	if err := Pod().Subresource("binding").Action(pod, b); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != "node" || pod.Status.NominatedNodeName != "" {
		t.Errorf("bound to %q, nominated to %q", pod.Spec.NodeName, pod.Status.NominatedNodeName)
	}
	wantSame(t, "labels", map[string]string{"a": "b", "zone": "z"}, pod.Labels)
	wantSame(t, "annotations", map[string]string{"x": "y"}, pod.Annotations)
	c := pod.Status.Conditions[0]
	if len(pod.Status.Conditions) != 1 || c.Status != corev1.ConditionTrue || c.Reason != "" || c.LastTransitionTime.Time.Before(before) || c.ObservedGeneration != 1 {
		t.Errorf("conditions %+v", pod.Status.Conditions)
	}
}

func TestPod_BindRefused(t *testing.T) {
	conflict := `Operation cannot be fulfilled on pods/binding "p": `
	for _, tc := range []struct {
		name, pod string
		change    func(*corev1.Binding)
		want      string
	}{
		{"bound", `spec: {nodeName: m}`, nil, conflict + `pod p is already assigned to node "m"`},
		{"bound there", `spec: {nodeName: node}`, nil, conflict + `pod p is already assigned to node "node"`},
		{"deleted", `metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}`, nil, conflict + `pod p is being deleted, cannot be assigned to a host`},
		{"gated", `spec: {schedulingGates: [{name: g}]}`, nil, conflict + `pod p has non-empty .spec.schedulingGates`},
		{"other uid", ``, func(b *corev1.Binding) { b.UID = types.UID("v") }, conflict + `Precondition failed: UID in precondition: v, UID in object meta: u`},
		{"other version", ``, func(b *corev1.Binding) { b.ResourceVersion = "6" }, conflict + `Precondition failed: ResourceVersion in precondition: 6, ResourceVersion in object meta: 7`},
		{"kind", ``, func(b *corev1.Binding) { b.Target.Kind = "Host" }, `Binding "p" is invalid: target.kind: Unsupported value: "Host": supported values: "Node", "<empty>"`},
		{"name", ``, func(b *corev1.Binding) { b.Target.Name = "" }, `Binding "p" is invalid: target.name: Required value`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := binding("node")
			if tc.change != nil {
				tc.change(b)
			}
			err := Pod().Subresource("binding").Action(podFrom(t, tc.pod), b)
			if err == nil || err.Error() != tc.want {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
			if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
				t.Errorf("%T is no Status a client understands", err)
			}
		})
	}
}

func TestPod_EphemeralContainers(t *testing.T) {
	sub := Pod().Subresource("ephemeralcontainers")
	old := podFrom(t, `spec: {ephemeralContainers: [{name: a, image: x}]}`)
	for _, tc := range []struct{ name, pod, want string }{
		{"added", `spec: {ephemeralContainers: [{name: b, image: x}, {name: a, image: x}]}`, ``},
		{"removed", `spec: {ephemeralContainers: [{name: b, image: x}]}`, `spec.ephemeralContainers: Forbidden: existing ephemeral containers "a" may not be removed`},
		{"changed", `spec: {ephemeralContainers: [{name: a, image: z}]}`, `spec.ephemeralContainers: Forbidden: existing ephemeral containers "a" may not be changed`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podFrom(t, tc.pod)
			pod.Spec.NodeName, pod.Labels, pod.Status.Phase = "else", map[string]string{"a": "b"}, corev1.PodFailed
			containers := pod.Spec.EphemeralContainers
			sub.Prepare(pod, old)
			if pod.Spec.NodeName != "" || pod.Labels != nil || pod.Status.Phase != "" || len(pod.Spec.EphemeralContainers) != len(containers) {
				t.Errorf("prepared %+v", pod)
			}
			errs := sub.Validate(pod, old)
			if tc.want == "" {
				wantErrors(t, errs)
			} else if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want %s", errs, tc.want)
			}
		})
	}
	mirror := podFrom(t, `{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: node}}`)
	pod := mirror.DeepCopy()
	pod.Spec.EphemeralContainers = old.Spec.EphemeralContainers
	if errs := sub.Validate(pod, mirror); len(errs) != 1 || errs[0].Detail != "static pods do not support ephemeral containers" {
		t.Errorf("static pod: %v", errs)
	}
}

func TestPod_Resize(t *testing.T) {
	sub := Pod().Subresource("resize")
	container := func(resources string) string {
		return `spec: {containers: [{name: c, image: "image:1", resources: ` + resources + `}]}`
	}
	burstable := container(`{requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m}}`)
	for _, tc := range []struct{ name, old, pod, want string }{
		{"cpu and memory", burstable, container(`{requests: {cpu: 150m, memory: 32Mi}, limits: {cpu: 300m}}`), ``},
		{"limit added", burstable, container(`{requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 128Mi}}`), ``},
		{"policy", burstable, strings.Replace(burstable, "resources", "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}], resources", 1), ``},
		{"request removed", burstable, container(`{requests: {memory: 64Mi}}`), `spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed`},
		{"device", burstable, container(`{requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, example.com/x: 1}}`), `spec: Forbidden: only cpu and memory resources are mutable`},
		{"quality of service", burstable, container(`{requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}`), `spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing`},
		{"container renamed", burstable, strings.Replace(burstable, "name: c", "name: d", 1), `spec: Forbidden: only cpu and memory resources are mutable`},
		{"container added", burstable, `spec: {containers: [{name: c, image: x}, {name: d, image: x}]}`, `spec: Forbidden: only cpu and memory resources are mutable`},
		{"windows", `spec: {os: {name: windows}}`, `spec: {os: {name: windows}}`, `<nil>: Forbidden: windows pods cannot be resized`},
		{"static", `{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: node}}`, ``, `<nil>: Forbidden: static pods cannot be resized`},
		{"node of old", burstable + "\nstatus: {containerStatuses: [{name: c, state: {running: {}}, image: '', imageID: '', ready: true, restartCount: 0}]}",
			burstable, `spec: Forbidden: Pod running on node without support for resize`},
		{"init container", `spec: {initContainers: [{name: i, image: x}]}`, `spec: {initContainers: [{name: i, image: x, resources: {requests: {cpu: 1}}}]}`,
			`spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing`},
		{"sidecar", `spec: {initContainers: [{name: i, image: x, restartPolicy: Always, resources: {requests: {cpu: 1}}}]}`,
			`spec: {initContainers: [{name: i, image: x, restartPolicy: Always, resources: {requests: {cpu: 2}}}]}`, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, pod := podFrom(t, tc.old), podFrom(t, tc.pod)
			sub.Prepare(pod, old)
			errs := sub.Validate(pod, old)
			if tc.want == "" {
				wantErrors(t, errs)
			} else if len(errs) == 0 || !containsText(errs.ToAggregate().Error(), strings.TrimPrefix(tc.want, "<nil>: ")) {
				t.Errorf("got %v, want %s", errs, tc.want)
			}
		})
	}
}

func containsText(all, part string) bool { return strings.Contains(all, part) }

func TestPod_Status(t *testing.T) {
	sub := Pod().Subresource("status")
	old := podFrom(t, `
metadata: {ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: u}]}
spec: {restartPolicy: Never, resourceClaims: [{name: gpu, resourceClaimName: x}]}
status:
  qosClass: BestEffort
  observedGeneration: 3
  conditions: [{type: Ready, status: "True", observedGeneration: 3}]
  containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}, image: "", imageID: "", ready: false, restartCount: 0}]`)
	prepared := func(status string) *corev1.Pod {
		pod := podFrom(t, "spec: {nodeName: else}\nstatus: "+status)
		pod.Labels = map[string]string{"new": "label"}
		sub.Prepare(pod, old)
		return pod
	}
	t.Run("keeps", func(t *testing.T) {
		pod := prepared(`{phase: Running, conditions: [{type: Ready, status: "False"}, {type: Other, status: "True", observedGeneration: 9}]}`)
		wantErrors(t, sub.Validate(pod, old))
		wantSame(t, "spec", old.Spec, pod.Spec)
		wantSame(t, "owners", old.OwnerReferences, pod.OwnerReferences)
		wantSame(t, "labels", map[string]string{"new": "label"}, pod.Labels)
		wantSame(t, "status", corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBestEffort, ObservedGeneration: 3,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, ObservedGeneration: 3}, {Type: "Other", Status: corev1.ConditionTrue, ObservedGeneration: 9}},
		}, pod.Status)
	})
	for _, tc := range []struct {
		name, status string
		want         []string
	}{
		{"class", `{qosClass: Burstable}`, []string{`status.qosClass: Invalid value: "Burstable": field is immutable`}},
		{"terminated container runs", `{containerStatuses: [{name: c, state: {running: {}}, image: "", imageID: "", ready: false, restartCount: 0}]}`,
			[]string{`status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state`}},
		{"addresses", `{podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], hostIP: 1.2.3.4, hostIPs: [{ip: x}]}`, []string{
			`status.podIPs: Invalid value: "10.0.0.1,10.0.0.2": may specify no more than one IP for each IP family`,
			`status.hostIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			"status.hostIPs[0].ip: Invalid value: \"x\": must be equal to `hostIP`",
		}},
		{"two families", `{podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}`, nil},
		{"nominated node", `{nominatedNodeName: A_}`, []string{`status.nominatedNodeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		{"claims", `{resourceClaimStatuses: [{name: gpu}, {name: gpu}, {name: fpga}]}`, []string{
			`status.resourceClaimStatuses[1].name: Duplicate value: "gpu"`,
			"status.resourceClaimStatuses[2].name: Invalid value: \"fpga\": must match the name of an entry in `spec.resourceClaims`",
		}},
		{"user", `{containerStatuses: [{name: d, user: {linux: {uid: -1, gid: 0}}, image: "", imageID: "", ready: false, restartCount: 0}]}`,
			[]string{`status.containerStatuses[0].linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantErrors(t, sub.Validate(prepared(tc.status), old), tc.want...)
		})
	}
}
