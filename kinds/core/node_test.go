package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func nodeFrom(t *testing.T, text string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if err := yaml.UnmarshalStrict([]byte(text), node); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	Node().Default(node)
	return node
}

func TestNode_Default(t *testing.T) {
	wantSame(t, "minimal", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nodeFrom(t, ``))
	for _, tc := range []struct{ name, in, want string }{
		{"allocatable", `status: {capacity: {cpu: 0.5}}`, `status: {capacity: {cpu: 500m}, allocatable: {cpu: 500m}}`},
		{"its own allocatable", `status: {capacity: {cpu: 1}, allocatable: {cpu: 900m}}`, `status: {capacity: {cpu: 1}, allocatable: {cpu: 900m}}`},
		{"one cidr", `spec: {podCIDR: 10.0.0.0/24}`, `spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24]}`},
		{"list of cidrs", `spec: {podCIDRs: [10.0.0.0/24, "fd00::/64"]}`, `spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24, "fd00::/64"]}`},
		{"cidrs differ", `spec: {podCIDR: 10.0.1.0/24, podCIDRs: [10.0.0.0/24]}`, `spec: {podCIDR: 10.0.1.0/24, podCIDRs: [10.0.1.0/24]}`},
	} {
		got, err := yaml.Marshal(nodeFrom(t, tc.in))
		if err != nil {
			t.Fatal(err)
		}
		want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if err := yaml.UnmarshalStrict([]byte(tc.want), want); err != nil {
			t.Fatal(err)
		}
		wanted, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, tc.name, string(wanted), string(got))
	}
}

func TestNode_Validate(t *testing.T) {
	for _, tc := range []struct {
		name, node string
		want       []string
	}{
		{"with status", `{spec: {podCIDR: 10.0.0.0/24, taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]}, status: {capacity: {cpu: 1, pods: 110}}}`, nil},
		{"cidr", `spec: {podCIDRs: [10.0.0.0]}`, []string{`spec.podCIDRs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`}},
		{"two cidrs of one family", `spec: {podCIDRs: [10.0.0.0/24, 10.0.1.0/24]}`,
			[]string{`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family`}},
		{"taint twice", `spec: {taints: [{key: a, effect: NoSchedule, value: x}, {key: a, effect: NoSchedule}]}`,
			[]string{`metadata.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key and effect pair`}},
		{"taint", `spec: {taints: [{key: "a b", effect: NoRun}]}`, []string{
			`metadata.taints[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`metadata.taints[0].effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`,
		}},
		{"taint without effect", `spec: {taints: [{key: a, effect: ""}]}`, []string{`metadata.taints[0].effect: Required value`}},
		{"capacity", `status: {capacity: {pods: 1.5, cpu: -1}, allocatable: {}}`, []string{
			`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`,
			`status.capacity.pods: Invalid value: "1500m": must be an integer`,
		}},
		{"addresses", `status: {addresses: [{type: InternalIP, address: 1.2.3.4}, {type: InternalIP, address: 1.2.3.4}]}`,
			[]string{`status.addresses[1]: Duplicate value: {"type":"InternalIP","address":"1.2.3.4"}`}},
		{"kubelet configuration", `spec: {configSource: {configMap: {namespace: a, name: b, uid: u, kubeletConfigKey: k}}}`,
			[]string{`spec.configSource.configMap.uid: Forbidden: uid must not be set in spec`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantErrors(t, Node().Validate(nodeFrom(t, tc.node)), tc.want...)
		})
	}
}

func TestNode_Update(t *testing.T) {
	old := nodeFrom(t, `spec: {podCIDR: 10.0.0.0/24, providerID: a}`)
	for _, tc := range []struct {
		name, node string
		want       []string
	}{
		{"cordoned", `spec: {podCIDR: 10.0.0.0/24, providerID: a, unschedulable: true, taints: [{key: a, effect: NoSchedule}]}`, nil},
		{"cidr", `spec: {podCIDR: 10.0.1.0/24, providerID: a}`, []string{`spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`}},
		{"provider", `spec: {podCIDR: 10.0.0.0/24, providerID: b}`, []string{`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`}},
		{"external id", `spec: {podCIDR: 10.0.0.0/24, providerID: a, externalID: x}`, []string{`spec.externalID: Forbidden: may not be updated`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantErrors(t, Node().ValidateUpdate(nodeFrom(t, tc.node), old), tc.want...)
		})
	}
	wantErrors(t, Node().ValidateUpdate(old, nodeFrom(t, ``)))
}

func TestNode_Parts(t *testing.T) {
	old := nodeFrom(t, `{spec: {providerID: a}, status: {nodeInfo: {kubeletVersion: v1}}}`)
	old.Status.NodeInfo.KubeletVersion = "v1"
	changed := func() *corev1.Node {
		node := nodeFrom(t, `spec: {providerID: b}`)
		node.Labels, node.Status.NodeInfo.KubeletVersion = map[string]string{"a": "b"}, "v2"
		return node
	}
	node := changed()
	Node().PrepareUpdate(node, old)
	wantSame(t, "status of an update", "v1", node.Status.NodeInfo.KubeletVersion)
	node = changed()
	status := Node().Subresource("status")
	status.Prepare(node, old)
	wantErrors(t, status.Validate(node, old))
	wantSame(t, "spec of a status update", old.Spec, node.Spec)
	wantSame(t, "labels of a status update", map[string]string{"a": "b"}, node.Labels)
	wantSame(t, "status", "v2", node.Status.NodeInfo.KubeletVersion)
}

func TestNode_Row(t *testing.T) {
	for _, tc := range []struct {
		name, node string
		want       []any
	}{
		{"new", ``, []any{"n", "Unknown", "<none>", "<unknown>", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"}},
		{"ready", `
metadata:
  creationTimestamp: "2026-01-01T10:00:00Z"
  labels: {node-role.kubernetes.io/worker: "", node-role.kubernetes.io/control-plane: "", kubernetes.io/role: worker}
spec: {unschedulable: true}
status:
  conditions: [{type: MemoryPressure, status: "False"}, {type: Ready, status: "True"}]
  addresses: [{type: Hostname, address: h}, {type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: 10.0.0.2}, {type: ExternalIP, address: 1.2.3.4}]
  nodeInfo: {kubeletVersion: v1.37.2, osImage: Linux, kernelVersion: "6.1", containerRuntimeVersion: "containerd://2", machineID: "", systemUUID: "", bootID: "", kubeProxyVersion: "", operatingSystem: "", architecture: ""}`,
			[]any{"n", "Ready,SchedulingDisabled", "control-plane,worker", "120m", "v1.37.2", "10.0.0.1", "1.2.3.4", "Linux", "6.1", "containerd://2"}},
		{"not ready", `status: {conditions: [{type: Ready, status: Unknown}]}`,
			[]any{"n", "NotReady", "<none>", "<unknown>", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if err := yaml.Unmarshal([]byte(tc.node), node); err != nil {
				t.Fatal(err)
			}
			wantSame(t, "row", tc.want, Node().Row(node, podNow))
		})
	}
}

func TestNode_Warnings(t *testing.T) {
	node := nodeFrom(t, `spec: {externalID: x, podCIDRs: ["FD00::/64"]}`)
	wantSame(t, "on create", []string{
		"spec.externalID: this field is deprecated, and is unused",
		`spec.podCIDRs[0]: IPv6 CIDR value "FD00::/64" should be in RFC 5952 canonical format ("fd00::/64")`,
	}, Node().Warnings(node, nil))
	wantSame(t, "on update", []string{"spec.externalID: this field is deprecated, and is unused"}, Node().Warnings(node, node))
}
