package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quantities makes a list of pairs of name and quantity.
func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestResourceQuota_Validate(t *testing.T) {
	const misplaced = `unsupported scope applied to resource`
	for name, tc := range map[string]struct {
		spec corev1.ResourceQuotaSpec
		want []string
	}{
		"empty": {},
		"known": {spec: corev1.ResourceQuotaSpec{Hard: quantities("pods", "3", "limits.cpu", "2", "count/jobs.batch", "4", "hugepages-2Mi", "2Mi", "requests.example.com/x", "1")}},
		"names": {
			spec: corev1.ResourceQuotaSpec{Hard: quantities("storage", "1", "x", "1")},
			want: []string{
				`spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota`,
				`spec.hard[x]: Invalid value: "x": must be a standard resource type or fully qualified`,
				`spec.hard[x]: Invalid value: "x": must be a standard resource for quota`,
			},
		},
		"quantities": {
			spec: corev1.ResourceQuotaSpec{Hard: quantities("cpu", "-1", "pods", "500m")},
			want: []string{
				`spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
				`spec.hard[pods]: Invalid value: "500m": must be an integer`,
			},
		},
		"scopes": {
			spec: corev1.ResourceQuotaSpec{
				Hard:   quantities("services", "1"),
				Scopes: []corev1.ResourceQuotaScope{"BestEffort", "NotBestEffort", "X"},
			},
			want: []string{
				`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: ` + misplaced,
				`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: ` + misplaced,
				`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: unsupported scope`,
				`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","X"]: conflicting scopes`,
			},
		},
		"selector": {
			spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: "Terminating", Operator: "In", Values: []string{"a"}},
				{ScopeName: "PriorityClass", Operator: "In"},
				{ScopeName: "PriorityClass", Operator: "Exists", Values: []string{"a"}},
				{ScopeName: "X", Operator: "Y"},
			}}},
			want: []string{
				`spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exists' when scope is any of`,
				"spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
				"spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
				`spec.scopeSelector.matchExpressions.scopeName: Invalid value: "X": unsupported scope`,
				`spec.scopeSelector.matchExpressions.operator: Invalid value: "Y": not a valid selector operator`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantPrefixes(t, errorTexts(ResourceQuota().Validate(&corev1.ResourceQuota{Spec: tc.spec})), tc.want)
		})
	}
}

func TestResourceQuota_Update(t *testing.T) {
	old := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Terminating"}}}
	wantErrors(t, ResourceQuota().ValidateUpdate(&corev1.ResourceQuota{}, old), `spec.scopes: Invalid value: null: field is immutable`)
	bad := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Used: quantities("pods", "-1")}}
	wantErrors(t, ResourceQuota().Subresource("status").Validate(bad, old), `status.used[pods]: Invalid value: "-1": must be greater than or equal to 0`)
}

func TestResourceQuota_Row(t *testing.T) {
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Status: corev1.ResourceQuotaStatus{
			Hard: quantities("pods", "3", "cpu", "1", "limits.cpu", "2"), Used: quantities("pods", "1", "limits.cpu", "500m"),
		},
	}
	wantSame(t, "row", []any{"q", "cpu: 0/1, pods: 1/3", "limits.cpu: 500m/2", "<unknown>"}, ResourceQuota().Row(q, time.Now()))
}

func TestLimitRange_Defaults(t *testing.T) {
	r := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Max: quantities("cpu", "2"), Min: quantities("memory", "1Mi")},
		{Type: corev1.LimitTypePod, Max: quantities("cpu", "2")},
	}}}
	want := r.DeepCopy()
	want.Spec.Limits[0].Default = quantities("cpu", "2")
	want.Spec.Limits[0].DefaultRequest = quantities("cpu", "2", "memory", "1Mi")
	LimitRange().Default(r)
	wantSame(t, "defaults", want, r)
}

func TestLimitRange_Validate(t *testing.T) {
	for name, tc := range map[string]struct {
		items []corev1.LimitRangeItem
		want  []string
	}{
		"minimal": {items: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: quantities("cpu", "1")}}},
		"types": {
			items: []corev1.LimitRangeItem{{Type: "X"}, {Type: corev1.LimitTypePod}, {Type: corev1.LimitTypePod}, {Type: "example.com/x"}},
			want: []string{
				`spec.limits[0].type: Invalid value: "X": must be a standard limit type or fully qualified`,
				`spec.limits[2].type: Duplicate value: "Pod"`,
			},
		},
		"names": {
			items: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: quantities("pods", "1")}},
			want:  []string{`spec.limits[0].max[pods]: Invalid value: "pods": must be a standard resource for containers`},
		},
		"pod": {
			items: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Default: quantities("cpu", "1"), DefaultRequest: quantities("cpu", "1")}},
			want: []string{
				"spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
				"spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
			},
		},
		"claim": {
			items: []corev1.LimitRangeItem{{Type: corev1.LimitTypePersistentVolumeClaim}},
			want:  []string{"spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"},
		},
		"order": {
			items: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Min: quantities("cpu", "4"), Max: quantities("cpu", "1"), Default: quantities("cpu", "2"), DefaultRequest: quantities("cpu", "3"),
			}},
			want: []string{
				`spec.limits[0].min[cpu]: Invalid value: "4": min value 4 is greater than max value 1`,
				`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": min value 4 is greater than default request value 3`,
				`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 1`,
				`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default limit value 2`,
				`spec.limits[0].default[cpu]: Invalid value: "4": min value 4 is greater than default value 2`,
				`spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1`,
			},
		},
		"ratios": {
			items: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypePod, Min: quantities("cpu", "1"), Max: quantities("cpu", "2"), MaxLimitRequestRatio: quantities("cpu", "3", "memory", "500m"),
			}},
			want: []string{
				`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`,
				`spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "500m": ratio 500m is less than 1`,
			},
		},
		"devices": {
			items: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypeContainer, Default: quantities("example.com/gpu", "2"), DefaultRequest: quantities("example.com/gpu", "1"),
			}},
			want: []string{`spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantErrors(t, LimitRange().Validate(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: tc.items}}), tc.want...)
		})
	}
}
