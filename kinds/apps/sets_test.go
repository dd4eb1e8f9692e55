package apps

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds/kindtest"
)

const (
	aSelector     = `selector: {matchLabels: {app: web}}, `
	aTemplate     = `template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "image:1"}]}}`
	fullTemplate  = `template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "image:1", imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}], dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30}}`
	minimalDaemon = `{metadata: {name: w, namespace: ns}, spec: {` + aSelector + aTemplate + `}}`
	minimalSet    = `{metadata: {name: w, namespace: ns}, spec: {serviceName: s, ` + aSelector + aTemplate + `}}`
	notMatching   = "`selector` does not match template `labels`"
)

func TestDaemonSet_Minimal(t *testing.T) {
	kindtest.Minimal(t, DaemonSet(), minimalDaemon[:len(minimalDaemon)-1]+`, status: {numberReady: 3}}`,
		`{metadata: {name: w, namespace: ns, generation: 1, annotations: {deprecated.daemonset.template.generation: "1"}}, spec: {`+aSelector+fullTemplate+
			`, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}, revisionHistoryLimit: 10}}`)
}

func TestDaemonSet_Rules(t *testing.T) {
	row := DaemonSet()
	good := kindtest.From[*appsv1.DaemonSet](t, row, minimalDaemon)
	c := func(name, spec string, want ...string) kindtest.Case[appsv1.DaemonSet] {
		return kindtest.YAML[appsv1.DaemonSet](t, name, "spec: "+spec, want...)
	}
	kindtest.Create(t, row, good,
		c("other labels", `{template: {metadata: {labels: {app: db}}}}`, `spec.template.metadata.labels: Invalid value: {"app":"db"}: `+notMatching),
		c("empty selector", `{selector: {matchLabels: null}}`, `spec.selector: Invalid value: {}: empty selector is invalid for daemonset`),
		c("broken selector", `{selector: {matchExpressions: [{key: a, operator: Like}]}}`, `spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`),
		c("pods that end", `{template: {spec: {restartPolicy: Never, activeDeadlineSeconds: 5}}}`,
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported"),
		c("pod template", `{template: {spec: {containers: [{name: C, image: i, terminationMessagePolicy: File, imagePullPolicy: Always}]}}}`,
			`spec.template.spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`),
		c("numbers", `{minReadySeconds: -1, revisionHistoryLimit: -2}`,
			"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0", "spec.revisionHistoryLimit: Invalid value: -2: must be greater than or equal to 0"),
		c("strategy", `{updateStrategy: {type: Wild, rollingUpdate: null}}`, `spec.updateStrategy: Unsupported value: {"type":"Wild"}: supported values: "RollingUpdate", "OnDelete"`),
		c("on delete", `{updateStrategy: {type: OnDelete, rollingUpdate: null}}`),
		c("both bounds", `{updateStrategy: {rollingUpdate: {maxUnavailable: 10%, maxSurge: 1}}}`, "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"),
		c("no bound", `{updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}`, "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"),
		c("bounds", `{updateStrategy: {rollingUpdate: {maxUnavailable: 101%, maxSurge: many}}}`,
			`spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
			`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`),
	)
	kindtest.Update(t, row, good,
		c("selector", `{selector: {matchLabels: {app: web, tier: web}}, template: {metadata: {labels: {tier: web}}}}`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"web","tier":"web"}}: field is immutable`))
	kindtest.UpdateSubresource(t, row, "status", good,
		kindtest.YAML[appsv1.DaemonSet](t, "counters", `status: {currentNumberScheduled: -1, numberMisscheduled: -1, desiredNumberScheduled: -1, numberReady: -1, observedGeneration: -1, updatedNumberScheduled: -1, numberAvailable: -1, numberUnavailable: -1, collisionCount: -1}`,
			"status.currentNumberScheduled: Invalid value: -1: must be greater than or equal to 0", "status.numberMisscheduled: Invalid value: -1: must be greater than or equal to 0",
			"status.desiredNumberScheduled: Invalid value: -1: must be greater than or equal to 0", "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
			"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0", "status.updatedNumberScheduled: Invalid value: -1: must be greater than or equal to 0",
			"status.numberAvailable: Invalid value: -1: must be greater than or equal to 0", "status.numberUnavailable: Invalid value: -1: must be greater than or equal to 0",
			"status.collisionCount: Invalid value: -1: must be greater than or equal to 0"),
		c("spec", `{minReadySeconds: -1}`),
	)
}

// The annotation counts changes of the template; clients cannot choose it.
func TestDaemonSet_TemplateGeneration(t *testing.T) {
	row := DaemonSet()
	old := kindtest.From[*appsv1.DaemonSet](t, row, minimalDaemon)
	old.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "41"}
	for patch, want := range map[string]string{
		`{}`: "41",
		`{metadata: {annotations: {deprecated.daemonset.template.generation: "7"}}}`: "41",
		`{spec: {minReadySeconds: 5}}`: "41",
		`{metadata: {annotations: null}, spec: {template: {spec: {hostNetwork: true}}}}`: "42",
	} {
		ds := old.DeepCopy()
		kindtest.Over[appsv1.DaemonSet](t, patch)(ds)
		if row.PrepareUpdate(ds, old); ds.Annotations[appsv1.DeprecatedTemplateGeneration] != want {
			t.Errorf("%s: %v, want %s", patch, ds.Annotations, want)
		}
	}
	damaged := old.DeepCopy()
	damaged.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "x"}
	if n := templateGeneration(damaged); n != 0 {
		t.Errorf("damaged: %d", n)
	}
}

func TestDaemonSet_Row(t *testing.T) {
	ds := kindtest.From[*appsv1.DaemonSet](t, DaemonSet(), minimalDaemon)
	ds.CreationTimestamp = metav1.NewTime(tableNow.Add(-time.Minute))
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	ds.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 2, NumberReady: 3, UpdatedNumberScheduled: 4, NumberAvailable: 5}
	kindtest.Row(t, DaemonSet(), ds, tableNow, "w", int64(1), int64(2), int64(3), int64(4), int64(5), "disk=ssd", "60s", "c", "image:1", "app=web")
}

func TestStatefulSet_Minimal(t *testing.T) {
	kindtest.Minimal(t, StatefulSet(), minimalSet[:len(minimalSet)-2]+`, volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}, status: {replicas: 3}}`,
		`{metadata: {name: w, namespace: ns, generation: 1}, spec: {serviceName: s, `+aSelector+fullTemplate+`, replicas: 1, podManagementPolicy: OrderedReady, revisionHistoryLimit: 10,
			updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 1}}, persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain},
			volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeMode: Filesystem}, status: {phase: Pending}}]},
			status: {replicas: 0, availableReplicas: 0}}`)
}

func TestStatefulSet_Rules(t *testing.T) {
	row := StatefulSet()
	good := kindtest.From[*appsv1.StatefulSet](t, row, minimalSet)
	c := func(name, spec string, want ...string) kindtest.Case[appsv1.StatefulSet] {
		return kindtest.YAML[appsv1.StatefulSet](t, name, "spec: "+spec, want...)
	}
	kindtest.Create(t, row, good,
		kindtest.YAML[appsv1.StatefulSet](t, "name", `metadata: {name: a.b}`,
			`metadata.name: Invalid value: "a.b": must not contain dots`),
		c("management", `{podManagementPolicy: Wild}`, `spec.podManagementPolicy: Invalid value: "Wild": must be 'OrderedReady' or 'Parallel'`),
		c("strategy", `{updateStrategy: {type: Wild, rollingUpdate: null}}`, `spec.updateStrategy: Invalid value: {"type":"Wild"}: must be 'RollingUpdate' or 'OnDelete'`),
		c("on delete", `{updateStrategy: {type: OnDelete}}`, `spec.updateStrategy.rollingUpdate: Invalid value: {"partition":0,"maxUnavailable":1}: only allowed for updateStrategy 'RollingUpdate'`),
		c("rolling", `{updateStrategy: {rollingUpdate: {partition: -1, maxUnavailable: 0}}}`,
			"spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0", "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"),
		c("unavailable", `{updateStrategy: {rollingUpdate: {maxUnavailable: 101%}}}`, `spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`),
		c("retention", `{persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep, whenScaled: Burn}}`,
			`spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete"`,
			`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Burn": supported values: "Retain", "Delete"`),
		c("numbers", `{replicas: -1, minReadySeconds: -1, ordinals: {start: -1}}`,
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0", "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
			"spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"),
		c("no selector", `{selector: null}`, "spec.selector: Required value", `spec.template.metadata.labels: Invalid value: {"app":"web"}: `+notMatching),
		c("empty selector", `{selector: {matchLabels: null}}`, "spec.selector: Invalid value: {}: empty selector is invalid for statefulset"),
		c("other labels", `{template: {metadata: {labels: {app: db}}}}`, `spec.template.metadata.labels: Invalid value: {"app":"db"}: `+notMatching),
		c("pods that end", `{template: {spec: {restartPolicy: Never, activeDeadlineSeconds: 5}}}`,
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"),
	)
	kindtest.Update(t, row, good,
		c("what may change", `{replicas: 3, ordinals: {start: 1}, template: {spec: {hostNetwork: true}}, updateStrategy: {rollingUpdate: {partition: 2}}, revisionHistoryLimit: 3, minReadySeconds: 1, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}`),
		c("what may not", `{serviceName: other}`, "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"),
	)
	kindtest.UpdateSubresource(t, row, "status", good,
		kindtest.YAML[appsv1.StatefulSet](t, "negative", `status: {replicas: -1, observedGeneration: -1, collisionCount: -1}`,
			"status.replicas: Invalid value: -1: must be greater than or equal to 0", "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
			"status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
			"status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas", "status.currentReplicas: Invalid value: 0: cannot be greater than status.replicas",
			"status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas", "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas"),
		kindtest.YAML[appsv1.StatefulSet](t, "too many", `status: {replicas: 2, readyReplicas: 1, availableReplicas: 2}`, "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas"),
		c("spec", `{replicas: -1}`),
	)
}

func TestStatefulSet_Warnings(t *testing.T) {
	s := kindtest.From[*appsv1.StatefulSet](t, StatefulSet(), minimalSet)
	kindtest.Over[appsv1.StatefulSet](t, `spec: {revisionHistoryLimit: -1, volumeClaimTemplates: [{metadata: {name: v}, spec: {resources: {requests: {storage: 1500m}}}}]}`)(s)
	want := []string{
		`spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
	}
	if diff := cmp.Diff(want, StatefulSet().Warnings(s, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatefulSet_Row(t *testing.T) {
	s := kindtest.From[*appsv1.StatefulSet](t, StatefulSet(), minimalSet)
	s.CreationTimestamp = metav1.NewTime(tableNow.Add(-time.Minute))
	s.Status.ReadyReplicas = 1
	kindtest.Row(t, StatefulSet(), s, tableNow, "w", "1/1", "60s", "c", "image:1")
}

func TestControllerRevision(t *testing.T) {
	row := ControllerRevision()
	kindtest.Minimal(t, row, `{metadata: {name: w}, data: {a: 1}, revision: 0}`, `{metadata: {name: w}, data: {a: 1}, revision: 0}`)
	good := kindtest.From[*appsv1.ControllerRevision](t, row, `{metadata: {name: w}, data: {a: 1}, revision: 3}`)
	edit := func(name string, edit func(*appsv1.ControllerRevision), want ...string) kindtest.Case[appsv1.ControllerRevision] {
		return kindtest.Case[appsv1.ControllerRevision]{Name: name, Edit: edit, Want: want}
	}
	kindtest.Create(t, row, good,
		edit("no data", func(r *appsv1.ControllerRevision) { r.Data.Raw = nil }, "data: Required value: data is mandatory"),
		edit("negative", func(r *appsv1.ControllerRevision) { r.Revision = -1 }, "revision: Invalid value: -1: must be greater than or equal to 0"),
	)
	other := good.DeepCopy()
	other.Data = runtime.RawExtension{Raw: []byte(`{"a":2}`)}
	if errs := kindtest.Change(row, "", other, good); len(errs) != 1 || errs[0].Field != "data" || errs[0].Detail != "field is immutable" {
		t.Errorf("other data: %v", errs)
	}
	kindtest.Row(t, row, good, tableNow, "w", "<none>", int64(3), "<unknown>")
	good.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: kindtest.Ptr(true)}}
	kindtest.Row(t, row, good, tableNow, "w", "statefulset.apps/web", int64(3), "<unknown>")
}
