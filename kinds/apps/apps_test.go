package apps

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"vigil/kinds"
)

// tableNow is when the tables of these tests are printed.
var tableNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// template is what every valid workload needs: a selector and pods that it finds.
const template = `
selector: {matchLabels: {app: web}}
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "image:1"}]}}
`

// from returns a defaulted object of YAML: its spec over template, and its status.
func from(t *testing.T, k *kinds.Kind, spec, status string) kinds.Object {
	t.Helper()
	obj := k.New()
	obj.SetName("w")
	obj.SetNamespace("ns")
	for _, part := range []string{template, spec} {
		if strings.TrimSpace(part) != "" {
			unmarshal(t, "spec:\n  "+strings.ReplaceAll(strings.TrimSpace(part), "\n", "\n  "), obj)
		}
	}
	if status != "" {
		unmarshal(t, "status: "+status, obj)
	}
	k.Default(obj)
	return obj
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

func wantSame(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const defaultedTemplate = `  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - image: image:1
        imagePullPolicy: IfNotPresent
        name: c
        resources: {}
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
`

func TestDefaults(t *testing.T) {
	for _, tc := range []struct {
		k    *kinds.Kind
		want string
	}{
		{Deployment(), `metadata:
  name: w
  namespace: ns
spec:
  progressDeadlineSeconds: 600
  replicas: 1
  revisionHistoryLimit: 10
  selector:
    matchLabels:
      app: web
  strategy:
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 25%
    type: RollingUpdate
` + defaultedTemplate + "status: {}\n"},
		{ReplicaSet(), `metadata:
  name: w
  namespace: ns
spec:
  replicas: 1
  selector:
    matchLabels:
      app: web
` + defaultedTemplate + "status:\n  replicas: 0\n"},
	} {
		obj := from(t, tc.k, ``, ``)
		got, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, tc.k.Resource, tc.want, string(got))
		if errs := tc.k.Validate(obj); len(errs) > 0 {
			t.Errorf("a minimal %s is refused: %v", tc.k.Singular, errs)
		}
	}
}

func TestDeployment_DefaultKeepsZero(t *testing.T) {
	d := from(t, Deployment(), "replicas: 0\nstrategy: {rollingUpdate: {maxUnavailable: 0}}", ``).(*appsv1.Deployment)
	if *d.Spec.Replicas != 0 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.String() != "0" || d.Spec.Strategy.RollingUpdate.MaxSurge.String() != "25%" {
		t.Errorf("spec %+v", d.Spec)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		want       []string // of both kinds
	}{
		{"replicas", `replicas: -1`, []string{`spec.replicas: Invalid value: -1: must be greater than or equal to 0`}},
		{"min ready seconds", `minReadySeconds: -1`, []string{`spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0`}},
		{"no selector", `selector: null`, []string{
			`spec.selector: Required value`,
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
		}},
		{"empty selector", `selector: {matchLabels: null}`, []string{`spec.selector: Invalid value: {}: empty selector is invalid for deployment`}},
		{"selector's operator", `selector: {matchExpressions: [{key: app, operator: Is}]}`, []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"Is"}]}: invalid label selector`,
		}},
		{"labels of the template", `template: {metadata: {labels: {app: other}}}`,
			[]string{"spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`"}},
		{"restart policy", `template: {spec: {restartPolicy: Never}}`,
			[]string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{"deadline", `template: {spec: {activeDeadlineSeconds: 5}}`,
			[]string{`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`}},
		{"container", `template: {spec: {containers: [{name: c, image: ""}]}}`, []string{`spec.template.spec.containers[0].image: Required value`}},
	} {
		for _, k := range []*kinds.Kind{Deployment(), ReplicaSet()} {
			t.Run(k.Resource+"/"+tc.name, func(t *testing.T) {
				wantSame(t, "errors", tc.want, errorTexts(k.Validate(from(t, k, tc.spec, ``))))
			})
		}
	}
}

func errorTexts[E error](errs []E) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestDeployment_Validate(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		want       []string
	}{
		{"recreate", `strategy: {type: Recreate}`, nil},
		{"recreate with rolling update", `strategy: {type: Recreate, rollingUpdate: {}}`,
			[]string{"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		{"strategy", `strategy: {type: BlueGreen}`,
			[]string{`spec.strategy: Unsupported value: "BlueGreen": supported values: "Recreate", "RollingUpdate"`}},
		{"no room", `strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}`,
			[]string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"}},
		{"no room in percent", `strategy: {rollingUpdate: {maxUnavailable: 0%, maxSurge: 0%}}`,
			[]string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"}},
		{"more than all", `strategy: {rollingUpdate: {maxUnavailable: 101%}}`,
			[]string{`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{"surge of more than all", `strategy: {rollingUpdate: {maxSurge: 200%}}`, nil},
		{"no percentage", `strategy: {rollingUpdate: {maxSurge: some}}`,
			[]string{`spec.strategy.rollingUpdate.maxSurge: Invalid value: "some": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`}},
		{"negative surge", `strategy: {rollingUpdate: {maxSurge: -1}}`,
			[]string{`spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0`}},
		{"deadline", "minReadySeconds: 10\nprogressDeadlineSeconds: 10",
			[]string{`spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds`}},
		{"history", `revisionHistoryLimit: -1`, []string{`spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantSame(t, "errors", tc.want, errorTexts(Deployment().Validate(from(t, Deployment(), tc.spec, ``))))
		})
	}
}

func TestUpdate(t *testing.T) {
	for _, k := range []*kinds.Kind{Deployment(), ReplicaSet()} {
		t.Run(k.Resource, func(t *testing.T) {
			old := from(t, k, ``, `{replicas: 3}`)
			obj := from(t, k, `replicas: 5`, `{replicas: 9}`)
			k.PrepareUpdate(obj, old)
			wantSame(t, "errors", []string(nil), errorTexts(k.ValidateUpdate(obj, old)))
			row := k.Row(obj, tableNow)
			if k.Resource == "replicasets" {
				wantSame(t, "row", []any{"w", int64(5), int64(3), int64(0), "<unknown>", "c", "image:1", "app=web"}, row)
			}

			selects := from(t, k, "selector: {matchLabels: {app: a}}\ntemplate: {metadata: {labels: {app: a}}}", ``)
			wantSame(t, "errors", []string{`spec.selector: Invalid value: {"matchLabels":{"app":"a"}}: field is immutable`},
				errorTexts(k.ValidateUpdate(selects, old)))
		})
	}
}

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		k                 *kinds.Kind
		name, old, status string
		want              []string
	}{
		{Deployment(), "rolling", ``, `{replicas: 4, updatedReplicas: 2, readyReplicas: 3, availableReplicas: 3, unavailableReplicas: 1}`, nil},
		{Deployment(), "too many", ``, `{replicas: 1, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 3}`, []string{
			`status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`,
		}},
		{Deployment(), "negative", ``, `{observedGeneration: -1, replicas: 0, unavailableReplicas: -2}`, []string{
			`status.observedGeneration: Invalid value: -1: must be greater than or equal to 0`,
			`status.unavailableReplicas: Invalid value: -2: must be greater than or equal to 0`,
		}},
		{Deployment(), "collisions", `{collisionCount: 2}`, `{collisionCount: 1}`, []string{`status.collisionCount: Invalid value: 1: cannot be decremented`}},
		{Deployment(), "collisions forgotten", `{collisionCount: 2}`, `{}`, []string{`status.collisionCount: Invalid value: 0: cannot be decremented`}},
		{ReplicaSet(), "too many", `{replicas: 0}`, `{replicas: 1, fullyLabeledReplicas: 2, readyReplicas: 1, availableReplicas: 2}`, []string{
			`status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas`,
		}},
		{ReplicaSet(), "negative", `{replicas: 0}`, `{replicas: -1}`, []string{`status.replicas: Invalid value: -1: must be greater than or equal to 0`}},
	} {
		t.Run(tc.k.Resource+"/"+tc.name, func(t *testing.T) {
			old, obj := from(t, tc.k, ``, tc.old), from(t, tc.k, `replicas: 7`, tc.status)
			obj.SetLabels(map[string]string{"a": "b"})
			sub := tc.k.Subresource("status")
			sub.Prepare(obj, old)
			got := errorTexts(sub.Validate(obj, old))
			if tc.name == "negative" && tc.k.Resource == "replicasets" {
				got = got[:1] // the other counters are above it
			}
			wantSame(t, "errors", tc.want, got)
			switch obj := obj.(type) {
			case *appsv1.Deployment:
				wantSame(t, "spec", old.(*appsv1.Deployment).Spec, obj.Spec)
				wantSame(t, "labels", map[string]string(nil), obj.Labels)
			case *appsv1.ReplicaSet:
				wantSame(t, "spec", old.(*appsv1.ReplicaSet).Spec, obj.Spec)
			}
		})
	}
}

func TestScale(t *testing.T) {
	for _, k := range []*kinds.Kind{Deployment(), ReplicaSet()} {
		t.Run(k.Resource, func(t *testing.T) {
			obj := from(t, k, `replicas: 3`, `{replicas: 2}`)
			obj.SetUID("u")
			obj.SetResourceVersion("7")
			obj.SetCreationTimestamp(metav1.NewTime(tableNow))
			obj.SetLabels(map[string]string{"not": "shown"})
			sub := k.Subresource("scale")
			view, err := sub.View(obj)
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, "view", &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(tableNow)},
				Spec:       autoscalingv1.ScaleSpec{Replicas: 3},
				Status:     autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=web"},
			}, view)

			scale := view.(*autoscalingv1.Scale)
			scale.Spec.Replicas, scale.Status.Replicas = 9, 8
			if errs := sub.Apply(obj, scale); len(errs) > 0 {
				t.Fatal(errs)
			}
			again, err := sub.View(obj)
			if err != nil {
				t.Fatal(err)
			}
			if s := again.(*autoscalingv1.Scale); s.Spec.Replicas != 9 || s.Status.Replicas != 2 {
				t.Errorf("after scaling %+v %+v", s.Spec, s.Status)
			}
			scale.Spec.Replicas = -4
			wantSame(t, "errors", []string{`spec.replicas: Invalid value: -4: must be greater than or equal to 0`}, errorTexts(sub.Apply(obj, scale)))
		})
	}
}

func TestDeployment_Row(t *testing.T) {
	d := from(t, Deployment(), `{replicas: 3, template: {spec: {containers: [{name: a, image: x}, {name: b, image: z}]}}}`,
		`{replicas: 4, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1}`).(*appsv1.Deployment)
	d.CreationTimestamp = metav1.NewTime(tableNow.Add(-49 * time.Hour))
	wantSame(t, "row", []any{"w", "1/3", int64(2), int64(1), "2d1h", "a,b", "x,z", "app=web"}, Deployment().Row(d, tableNow))
	d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
	wantSame(t, "bad selector", any("<invalid>"), Deployment().Row(d, tableNow)[7])
}

func TestWarnings(t *testing.T) {
	for _, k := range []*kinds.Kind{Deployment(), ReplicaSet()} {
		bad := from(t, k, `template: {spec: {terminationGracePeriodSeconds: -1}}`, ``)
		const text = `spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`
		wantSame(t, "on create", []string{text}, k.Warnings(bad, nil))
		wantSame(t, "on a change of the template", []string{text}, k.Warnings(bad, from(t, k, ``, ``)))
		wantSame(t, "on another change", []string(nil), k.Warnings(from(t, k, "replicas: 4\ntemplate: {spec: {terminationGracePeriodSeconds: -1}}", ``), bad))
		bad.SetName("a.b")
		if got := k.Warnings(bad, nil); len(got) != 2 || !strings.HasPrefix(got[0], "metadata.name: this is used in Pod names and hostnames") {
			t.Errorf("on a name with a dot: %q", got)
		}
	}
}
