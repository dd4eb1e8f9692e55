package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateUpdate(t *testing.T) {
	const fixed = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
	const (
		gated    = "schedulingGates: [{name: g}]\n"
		required = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
		terms    = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	)
	for _, tc := range []struct {
		name, old, spec, container string
		want                       string // the beginning of the only error; "" for none
	}{
		{name: "nothing"},
		{name: "image", container: `image: image:2`},
		{name: "image missing", container: `image: ""`, want: `spec.containers[0].image: Required value`},
		{name: "command", container: `command: [x]`, want: fixed + "\n"},
		{name: "node", spec: `nodeName: n`, want: fixed},
		{name: "container added", spec: `containers: [{name: c, image: "image:1"}, {name: d, image: x}]`,
			want: `spec.containers: Forbidden: pod updates may not add or remove containers`},
		{name: "init container added", spec: `initContainers: [{name: d, image: x}]`,
			want: `spec.initContainers: Forbidden: pod updates may not add or remove containers`},
		{name: "deadline set", spec: `activeDeadlineSeconds: 5`},
		{name: "deadline nearer", old: `activeDeadlineSeconds: 5`, spec: `activeDeadlineSeconds: 4`},
		{name: "deadline later", old: `activeDeadlineSeconds: 5`, spec: `activeDeadlineSeconds: 6`,
			want: `spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value`},
		{name: "deadline unset", old: `activeDeadlineSeconds: 5`,
			want: `spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value`},
		{name: "toleration added", old: `tolerations: [{key: a}]`, spec: `tolerations: [{key: b}, {key: a}]`},
		{name: "toleration's seconds", old: `tolerations: [{key: a, effect: NoExecute}]`, spec: `tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 5}]`},
		{name: "toleration changed", old: `tolerations: [{key: a}]`, spec: `tolerations: [{key: b}]`,
			want: `spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds`},
		{name: "negative grace period to 1", old: `terminationGracePeriodSeconds: -1`, spec: `terminationGracePeriodSeconds: 1`},
		{name: "negative grace period to 2", old: `terminationGracePeriodSeconds: -1`, spec: `terminationGracePeriodSeconds: 2`, want: fixed},
		{name: "gate removed", old: `schedulingGates: [{name: a}, {name: b}]`, spec: `schedulingGates: [{name: b}]`},
		{name: "gate added", old: `schedulingGates: [{name: a}]`, spec: `schedulingGates: [{name: a}, {name: b}]`,
			want: `spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'b'`},
		{name: "node selector", spec: `nodeSelector: {a: b}`, want: fixed},
		{name: "node selector of a gated pod", old: gated + `nodeSelector: {a: b}`, spec: gated + `nodeSelector: {a: b, c: d}`},
		{name: "node selector of a gated pod changed", old: gated + `nodeSelector: {a: b}`, spec: gated + `nodeSelector: {a: c}`,
			want: `spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)`},
		{name: "node affinity of a gated pod set", old: gated, spec: gated + required + `[{matchExpressions: [{key: a, operator: Exists}]}]}}}`},
		{name: "node affinity of a gated pod narrowed",
			old:  gated + required + `[{matchExpressions: [{key: a, operator: Exists}]}]}}}`,
			spec: gated + required + `[{matchExpressions: [{key: a, operator: Exists}, {key: b, operator: Exists}]}]}}}`},
		{name: "node affinity of a gated pod widened",
			old:  gated + required + `[{matchExpressions: [{key: a, operator: Exists}]}]}}}`,
			spec: gated + required + `[{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: b, operator: Exists}]}]}}}`,
			want: terms + `: Invalid value: [{"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]: no additions/deletions to non-empty NodeSelectorTerms list are allowed`},
		{name: "node affinity of a gated pod changed",
			old:  gated + required + `[{matchExpressions: [{key: a, operator: Exists}]}]}}}`,
			spec: gated + required + `[{matchExpressions: [{key: b, operator: Exists}]}]}}}`,
			want: terms + `[0]: Invalid value: {"matchExpressions":[{"key":"b","operator":"Exists"}]}: only additions are allowed (no mutations or deletions)`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, pod := newPod(t, tc.old, ``), newPod(t, tc.spec, tc.container)
			got := texts(ValidateUpdate(&pod.Spec, &old.Spec, field.NewPath("spec")))
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tc.want)):
				t.Errorf("got %q, want one that begins with %q", got, tc.want)
			}
		})
	}
}

// What the stored object has may stay although it is refused in new ones.
func TestValidatePod_Tolerates(t *testing.T) {
	for _, tc := range []struct{ name, spec, container string }{
		{"huge pages", ``, `resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}}`},
		{"label value in affinity", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: In, values: ["b c"]}]}}]}}`, ``},
		{"label value in node affinity", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: ["b c"]}]}]}}}`, ``},
		{"spread selector", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: "b c"}}}]`, ``},
		{"token path", "serviceAccountName: sa\nvolumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: /t}}]}}]", ``},
		{"sysctl of the host", "hostNetwork: true\nsecurityContext: {sysctls: [{name: net.core.somaxconn, value: x}]}", ``},
		{"nameserver", `dnsConfig: {nameservers: [010.0.0.1]}`, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(t, tc.spec, tc.container)
			if errs := ValidatePod(pod, Options{}); len(errs) == 0 {
				t.Error("accepted in a new pod")
			}
			if errs := ValidatePod(pod, Options{Old: pod.Spec.DeepCopy()}); len(errs) > 0 {
				t.Errorf("refused although it is stored: %q", texts(errs))
			}
		})
	}
}

func TestMergeMatchLabelKeys(t *testing.T) {
	pod := newPod(t, `
topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [app, absent]}]
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchLabels: {x: z}}, mismatchLabelKeys: [app]}]`, ``)
	MergeMatchLabelKeys(&pod.Spec, pod.Labels)
	if diff := cmp.Diff("matchExpressions:\n- key: app\n  operator: In\n  values:\n  - web\n",
		toYAML(t, pod.Spec.TopologySpreadConstraints[0].LabelSelector)); diff != "" {
		t.Errorf("spread (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("matchExpressions:\n- key: app\n  operator: NotIn\n  values:\n  - web\nmatchLabels:\n  x: z\n",
		toYAML(t, pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector)); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if errs := ValidatePod(pod, Options{}); len(errs) > 0 {
		t.Errorf("merged keys are refused: %q", texts(errs))
	}
}

// A key that the client selects by itself stands there twice after the merge.
func TestMergeMatchLabelKeys_ClientSelectsToo(t *testing.T) {
	pod := newPod(t, `
topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [app]}]
affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [app]}]}}`, ``)
	MergeMatchLabelKeys(&pod.Spec, pod.Labels)
	want := []string{
		`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`,
		`spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`,
	}
	if diff := cmp.Diff(want, texts(ValidatePod(pod, Options{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
