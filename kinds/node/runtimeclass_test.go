package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type class = kindtest.Case[nodev1.RuntimeClass]

func good() *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
}

func TestRuntimeClass_Minimal(t *testing.T) {
	const minimal = `{metadata: {name: gvisor}, handler: runsc}`
	kindtest.Minimal(t, RuntimeClass(), minimal, minimal)
}

func TestRuntimeClass_Create(t *testing.T) {
	overhead := func(list corev1.ResourceList) func(*nodev1.RuntimeClass) {
		return func(c *nodev1.RuntimeClass) { c.Overhead = &nodev1.Overhead{PodFixed: list} }
	}
	kindtest.Create(t, RuntimeClass(), good(),
		class{
			Name: "no handler", Edit: func(c *nodev1.RuntimeClass) { c.Handler = "" },
			Want: []string{`handler: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		},
		class{Name: "overhead", Edit: overhead(corev1.ResourceList{"cpu": resource.MustParse("250m")})},
		class{
			Name: "negative overhead", Edit: overhead(corev1.ResourceList{"cpu": resource.MustParse("-1")}),
			Want: []string{`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
		},
		class{
			Name: "selector", Edit: func(c *nodev1.RuntimeClass) {
				c.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"a": "b c"}}
			},
			Want: []string{`scheduling.nodeSelector: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		},
		class{
			Name: "toleration", Edit: func(c *nodev1.RuntimeClass) {
				c.Scheduling = &nodev1.Scheduling{Tolerations: []corev1.Toleration{{Effect: "x", Operator: "Exists"}}}
			},
			Want: []string{`scheduling.tolerations[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		},
	)
}

func TestRuntimeClass_Update(t *testing.T) {
	kindtest.Update(t, RuntimeClass(), good(),
		class{Name: "scheduling", Edit: func(c *nodev1.RuntimeClass) { c.Scheduling = &nodev1.Scheduling{} }},
		class{
			Name: "handler", Edit: func(c *nodev1.RuntimeClass) { c.Handler = "kata" },
			Want: []string{`handler: Invalid value: "kata": field is immutable`},
		},
	)
}

func TestRuntimeClass_Row(t *testing.T) {
	kindtest.Row(t, RuntimeClass(), good(), time.Now(), "gvisor", "runsc", "<unknown>")
}
