package batch

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"vigil/kinds/kindtest"
)

var tableNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const minimalJob = `
metadata: {name: pi, namespace: ns, uid: u}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "image:1"}]}}}`

const defaultedPods = `
restartPolicy: Never
containers: [{name: c, image: "image:1", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]
dnsPolicy: ClusterFirst
schedulerName: default-scheduler
securityContext: {}
terminationGracePeriodSeconds: 30`

const ownLabels = `{controller-uid: u, job-name: pi, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: pi}`

func TestJob_Minimal(t *testing.T) {
	kindtest.Minimal(t, Job(), minimalJob, `
metadata: {name: pi, namespace: ns, uid: u, generation: 1, labels: `+ownLabels+`}
spec:
  parallelism: 1
  completions: 1
  backoffLimit: 6
  completionMode: NonIndexed
  suspend: false
  podReplacementPolicy: TerminatingOrFailed
  manualSelector: false
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}
  template:
    metadata: {labels: `+ownLabels+`}
    spec: `+strings.ReplaceAll(defaultedPods, "\n", "\n      "))
}

func TestJob_Defaults(t *testing.T) {
	kindtest.Minimal(t, Job(), `
metadata: {name: pi, namespace: ns, uid: u}
spec:
  completionMode: Indexed
  completions: 3
  backoffLimitPerIndex: 1
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}
  manualSelector: true
  selector: {matchLabels: {app: a}}
  template: {metadata: {labels: {app: a}}, spec: {restartPolicy: Never, containers: [{name: c, image: "image:1"}]}}`, `
metadata: {name: pi, namespace: ns, uid: u, generation: 1, labels: {app: a}}
spec:
  parallelism: 1
  completions: 3
  completionMode: Indexed
  backoffLimit: 2147483647
  backoffLimitPerIndex: 1
  suspend: false
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}]}
  podReplacementPolicy: Failed
  manualSelector: true
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: `+strings.ReplaceAll(defaultedPods, "\n", "\n      "))
}

func job(t *testing.T, text string) *batchv1.Job {
	t.Helper()
	obj := &batchv1.Job{}
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// storedJob is the minimal job as it is stored.
func storedJob(t *testing.T, edit func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	obj := job(t, minimalJob)
	if edit != nil {
		edit(obj)
	}
	defaultJob(obj)
	status := obj.Status
	prepareJob(obj)
	obj.Status = status
	return obj
}

func p[T any](v T) *T { return &v }

func TestJob_Create(t *testing.T) {
	c := func(name string, edit func(*batchv1.Job), want []string) kindtest.Case[batchv1.Job] {
		return kindtest.Case[batchv1.Job]{Name: name, Edit: edit, Want: want}
	}
	indexed := func(completions int32, edit func(*batchv1.JobSpec)) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.Completions = p(batchv1.IndexedCompletion), &completions
			if edit != nil {
				edit(&j.Spec)
			}
		}
	}
	failure := func(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
	}
	success := func(rules ...batchv1.SuccessPolicyRule) func(*batchv1.Job) {
		return indexed(5, func(s *batchv1.JobSpec) { s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: rules} })
	}
	kindtest.Create(t, Job(), job(t, minimalJob),
		c("numbers", func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions, j.Spec.ActiveDeadlineSeconds = p[int32](-1), p[int32](-2), p[int64](-3)
			j.Spec.BackoffLimit, j.Spec.TTLSecondsAfterFinished = p[int32](-4), p[int32](-5)
		}, []string{
			`spec.parallelism: Invalid value: -1: must be greater than or equal to 0`,
			`spec.completions: Invalid value: -2: must be greater than or equal to 0`,
			`spec.activeDeadlineSeconds: Invalid value: -3: must be greater than or equal to 0`,
			`spec.backoffLimit: Invalid value: -4: must be greater than or equal to 0`,
			`spec.ttlSecondsAfterFinished: Invalid value: -5: must be greater than or equal to 0`,
		}),
		c("indexes of a job without", func(j *batchv1.Job) {
			j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = p[int32](1), p[int32](2)
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		}, []string{
			`spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode`,
			`spec.maxFailedIndexes: Invalid value: 2: requires indexed completion mode`,
			`spec.successPolicy: Invalid value: {"rules":null}: requires indexed completion mode`,
		}),
		c("failed indexes that do not back off", indexed(5, func(s *batchv1.JobSpec) { s.MaxFailedIndexes = p[int32](6) }), []string{
			`spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified`,
			`spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions`,
		}),
		c("mode", func(j *batchv1.Job) { j.Spec.CompletionMode = p[batchv1.CompletionMode]("Random") },
			[]string{`spec.completionMode: Unsupported value: "Random": supported values: "NonIndexed", "Indexed"`}),
		c("indexed without completions", func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.Parallelism = p(batchv1.IndexedCompletion), p[int32](100_001)
		}, []string{
			`spec.completions: Required value: when completion mode is Indexed`,
			`spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed`,
		}),
		c("many completions", indexed(100_001, func(s *batchv1.JobSpec) {
			s.BackoffLimitPerIndex, s.Parallelism = p[int32](1), p[int32](10_001)
		}), []string{
			`spec.maxFailedIndexes: Required value: must be specified when completions is above 100000`,
			`spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`,
		}),
		c("many failed indexes", indexed(200_000, func(s *batchv1.JobSpec) {
			s.BackoffLimitPerIndex, s.MaxFailedIndexes = p[int32](1), p[int32](100_001)
		}), []string{
			`spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000`,
			`spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index`,
		}),
		c("name too long for its pods", func(j *batchv1.Job) {
			j.Name = strings.Repeat("x", 62)
			indexed(100, nil)(j)
		}, []string{`metadata.name: Invalid value: "` + strings.Repeat("x", 62) + `": will not able to create pod with invalid DNS label: ` + strings.Repeat("x", 62) + `-99`}),
		c("managed by", func(j *batchv1.Job) { j.Spec.ManagedBy = p("me") },
			[]string{`spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")`}),
		c("managed by a long name", func(j *batchv1.Job) { j.Spec.ManagedBy = p("a.io/" + strings.Repeat("x", 60)) },
			[]string{`spec.managedBy: Too long: may not be more than 63 bytes`}),
		c("always restarted", func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "" },
			[]string{`spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`}),
		c("restart policy", func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = "x" }, []string{
			`spec.template.spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"`,
			`spec.template.spec.restartPolicy: Unsupported value: "x": supported values: "OnFailure", "Never"`,
		}),
		c("failure policy and restarts", func(j *batchv1.Job) {
			failure(batchv1.PodFailurePolicyRule{Action: "Count", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{1}}})(j)
			j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			j.Spec.PodReplacementPolicy = p(batchv1.TerminatingOrFailed)
		}, []string{
			`spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"`,
			`spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified`,
		}),
		c("replacement policy", func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = p[batchv1.PodReplacementPolicy]("x") },
			[]string{`spec.podReplacementPolicy: Unsupported value: "x": supported values: "Failed", "TerminatingOrFailed"`}),
		c("failure rules", failure(
			batchv1.PodFailurePolicyRule{},
			batchv1.PodFailurePolicyRule{Action: "FailIndex", OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "a b", Status: "x"}}},
			batchv1.PodFailurePolicyRule{
				Action:          "x",
				OnExitCodes:     &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", ContainerName: p("other"), Values: []int32{2, 0, 2}},
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "t"}},
			},
			batchv1.PodFailurePolicyRule{Action: "Count", OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{}},
		), []string{
			`spec.podFailurePolicy.rules[0].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`,
			`spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required`,
			`spec.podFailurePolicy.rules[1].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set`,
			`spec.podFailurePolicy.rules[1].onPodConditions[0].type: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.podFailurePolicy.rules[1].onPodConditions[0].status: Unsupported value: "x": supported values: "False", "True", "Unknown"`,
			`spec.podFailurePolicy.rules[2].action: Unsupported value: "x": supported values: "Count", "FailIndex", "FailJob", "Ignore"`,
			`spec.podFailurePolicy.rules[2].onExitCodes.containerName: Invalid value: "other": must be one of the container or initContainer names in the pod template`,
			`spec.podFailurePolicy.rules[2].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator`,
			`spec.podFailurePolicy.rules[2].onExitCodes.values[2]: Duplicate value: 2`,
			`spec.podFailurePolicy.rules[2].onExitCodes.values: Invalid value: [2,0,2]: must be ordered`,
			`spec.podFailurePolicy.rules[2]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported`,
			`spec.podFailurePolicy.rules[3].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]`,
			`spec.podFailurePolicy.rules[3].onExitCodes.values: Invalid value: null: at least one value is required`,
		}),
		c("success policy", success(batchv1.SuccessPolicyRule{SucceededIndexes: p("0,2-4"), SucceededCount: p[int32](4)}), nil),
		c("success policy without rules", success(), []string{
			`spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified`}),
		c("success rules", success(
			batchv1.SuccessPolicyRule{},
			batchv1.SuccessPolicyRule{SucceededCount: p[int32](6)},
			batchv1.SuccessPolicyRule{SucceededIndexes: p("1-2-3")},
			batchv1.SuccessPolicyRule{SucceededIndexes: p("5")},
			batchv1.SuccessPolicyRule{SucceededIndexes: p("x")},
			batchv1.SuccessPolicyRule{SucceededIndexes: p("2,1")},
			batchv1.SuccessPolicyRule{SucceededIndexes: p("0,1"), SucceededCount: p[int32](3)},
		), []string{
			`spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified`,
			`spec.successPolicy.rules[1].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)`,
			`spec.successPolicy.rules[2].succeededIndexes: Invalid value: "1-2-3": error parsing succeededIndexes: the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'`,
			`spec.successPolicy.rules[3].succeededIndexes: Invalid value: "5": error parsing succeededIndexes: too large index: "5"`,
			`spec.successPolicy.rules[4].succeededIndexes: Invalid value: "x": error parsing succeededIndexes: cannot convert string to integer for index: "x"`,
			`spec.successPolicy.rules[5].succeededIndexes: Invalid value: "2,1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1`,
			`spec.successPolicy.rules[6].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)`,
		}),
		c("selector of one's own", func(j *batchv1.Job) {
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, []string{
			"spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated",
			"spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"pi\",\"controller-uid\":\"u\",\"job-name\":\"pi\"}: `selector` does not match template `labels`",
		}),
		c("label of another job", func(j *batchv1.Job) {
			j.Spec.Template.Labels = map[string]string{"job-name": "other"}
		}, []string{
			`spec.template.metadata.labels[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"pi","controller-uid":"u","job-name":"other"}: must be 'pi'`,
		}),
		c("manual without selector", func(j *batchv1.Job) { j.Spec.ManualSelector = p(true) }, []string{
			`spec.selector: Required value`,
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
		}),
	)
}

func TestJob_Update(t *testing.T) {
	c := func(name string, edit func(*batchv1.Job), want []string) kindtest.Case[batchv1.Job] {
		return kindtest.Case[batchv1.Job]{Name: name, Edit: edit, Want: want}
	}
	kindtest.Update(t, Job(), storedJob(t, nil),
		c("scale and suspend", func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Suspend = p[int32](7), p(true) }, nil),
		c("status stays", func(j *batchv1.Job) { j.Status.Active = -1 }, nil),
		c("completions", func(j *batchv1.Job) { j.Spec.Completions = p[int32](7) },
			[]string{`spec.completions: Invalid value: 7: field is immutable`}),
		c("policies", func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
			j.Spec.PodReplacementPolicy = p(batchv1.Failed)
			j.Spec.ManagedBy = p("a.io/b")
		}, []string{
			`spec.podFailurePolicy: Invalid value: {"rules":null}: field is immutable`,
			`spec.managedBy: Invalid value: "a.io/b": field is immutable`,
		}),
	)
	running := storedJob(t, func(j *batchv1.Job) {
		j.Spec.Suspend = p(true)
		j.Status.StartTime = &metav1.Time{Time: tableNow}
	})
	moved := running.DeepCopy()
	moved.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"}
	if errs := validateJobUpdate(moved, running); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "spec.template: Invalid value: ") || !strings.HasSuffix(errs[0].Error(), ": field is immutable") {
		t.Errorf("template of a job that runs: %v", errs)
	}
	stopped := running.DeepCopy()
	stopped.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	kindtest.Errors(t, validateJobUpdate(moved, stopped))

	suspended := storedJob(t, func(j *batchv1.Job) {
		j.Spec.Suspend = p(true)
		j.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	})
	kindtest.Update(t, Job(), suspended,
		c("scheduling directives", func(j *batchv1.Job) {
			j.Spec.Template.Annotations = map[string]string{"a": "b"}
			j.Spec.Template.Labels["a"] = "b"
			s := &j.Spec.Template.Spec
			s.Affinity = nil
			s.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}}
			s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.io/b"}}
		}, nil),
	)
	image := suspended.DeepCopy()
	image.Spec.Template.Spec.Containers[0].Image = "image:2"
	if errs := validateJobUpdate(image, suspended); len(errs) != 1 {
		t.Errorf("image of a suspended job: %v", errs)
	}
}

func TestJob_UpdateElastic(t *testing.T) {
	c := func(name string, edit func(*batchv1.Job), want []string) kindtest.Case[batchv1.Job] {
		return kindtest.Case[batchv1.Job]{Name: name, Edit: edit, Want: want}
	}
	kindtest.Update(t, Job(), storedJob(t, func(j *batchv1.Job) {
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = p(batchv1.IndexedCompletion), p[int32](3), p[int32](3)
	}),
		c("in tandem", func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = p[int32](5), p[int32](5) }, nil),
		c("alone", func(j *batchv1.Job) { j.Spec.Completions = p[int32](5) },
			[]string{`spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism`}),
	)
}

func TestJob_Status(t *testing.T) {
	c := func(name string, edit func(*batchv1.Job), want []string) kindtest.Case[batchv1.Job] {
		return kindtest.Case[batchv1.Job]{Name: name, Edit: edit, Want: want}
	}
	at := func(minutes int) *metav1.Time {
		return &metav1.Time{Time: tableNow.Add(time.Duration(minutes) * time.Minute)}
	}
	is := func(types ...batchv1.JobConditionType) (out []batchv1.JobCondition) {
		for _, typ := range types {
			out = append(out, batchv1.JobCondition{Type: typ, Status: corev1.ConditionTrue})
		}
		return out
	}
	kindtest.UpdateSubresource(t, Job(), "status", storedJob(t, func(j *batchv1.Job) {
		j.Status = batchv1.JobStatus{Active: 2, Succeeded: 1, Failed: 1, StartTime: at(0)}
	}),
		c("progress", func(j *batchv1.Job) { j.Status.Active, j.Status.Succeeded, j.Status.Ready = 1, 2, p[int32](1) }, nil),
		c("spec stays", func(j *batchv1.Job) { j.Spec.Parallelism = p[int32](-1) }, nil),
		c("negative", func(j *batchv1.Job) { j.Status.Active, j.Status.Terminating = -1, p[int32](-1) }, []string{
			`status.active: Invalid value: -1: must be greater than or equal to 0`,
			`status.terminating: Invalid value: -1: must be greater than or equal to 0`,
		}),
		c("more ready than active", func(j *batchv1.Job) { j.Status.Ready = p[int32](3) },
			[]string{`status.ready: Invalid value: 3: cannot set more ready pods than active`}),
		c("going back", func(j *batchv1.Job) { j.Status.Failed, j.Status.Succeeded, j.Status.StartTime = 0, 0, nil }, []string{
			`status.failed: Invalid value: 0: cannot decrease the failed counter`,
			`status.succeeded: Invalid value: 0: cannot decrease the succeeded counter`,
			`status.startTime: Required value: startTime cannot be removed for unsuspended job`,
		}),
		c("uncounted", func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a", ""}, Failed: []types.UID{"a"}}
		}, []string{
			`status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty`,
			`status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"`,
		}),
		c("complete", func(j *batchv1.Job) {
			j.Status = batchv1.JobStatus{Succeeded: 3, Failed: 1, StartTime: at(0), CompletionTime: at(1), Conditions: is("SuccessCriteriaMet", "Complete")}
		}, nil),
		c("complete in haste", func(j *batchv1.Job) {
			j.Status.Conditions, j.Status.Terminating = is("Complete"), p[int32](1)
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
		}, []string{
			`status.completionTime: Required value: completionTime is required for Complete jobs`,
			`status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition`,
			`status.active: Invalid value: 2: active>0 is invalid for finished job`,
			`status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: uncountedTerminatedPods needs to be empty for finished job`,
			`status.terminating: Invalid value: 1: terminating>0 is invalid for finished job`,
		}),
		c("everything at once", func(j *batchv1.Job) {
			j.Status = batchv1.JobStatus{Succeeded: 1, Failed: 1, StartTime: at(0), CompletionTime: at(-1), Conditions: is("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")}
		}, []string{
			`status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions`,
			`status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions`,
			`status.completionTime: Invalid value: "2026-01-01T11:59:00Z": completionTime cannot be set before startTime`,
			`status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions`,
			`status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions`,
		}),
		c("failed without warning", func(j *batchv1.Job) { j.Status.Active, j.Status.Conditions = 0, is("Failed") },
			[]string{`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`}),
		c("completion time of a job that runs", func(j *batchv1.Job) { j.Status.CompletionTime = at(1) },
			[]string{`status.completionTime: Invalid value: "2026-01-01T12:01:00Z": cannot set completionTime when there is no Complete=True condition`}),
		c("indexes of a job without", func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0", p("0") }, []string{
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex is null`,
			`status.failedIndexes: Invalid value: "0": failedIndexes and completedIndexes overlap at index: 0`,
		}),
	)
	kindtest.UpdateSubresource(t, Job(), "status", storedJob(t, func(j *batchv1.Job) {
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.BackoffLimitPerIndex = p(batchv1.IndexedCompletion), p[int32](10), p[int32](1)
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: p[int32](1)}}}
		j.Status = batchv1.JobStatus{StartTime: at(0), CompletionTime: at(1), Conditions: is("SuccessCriteriaMet", "Complete")}
	}),
		c("no way back", func(j *batchv1.Job) { j.Status.Conditions, j.Status.CompletionTime = nil, nil }, []string{
			`status.conditions: Invalid value: cannot disable the terminal Complete=True condition`,
			`status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition`,
		}),
		c("complete without criteria", func(j *batchv1.Job) { j.Status.Conditions, j.Status.CompletionTime = is("Complete"), at(2) }, []string{
			`status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition`,
			`status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True`,
			`status.completionTime: Invalid value: "2026-01-01T12:02:00Z": completionTime cannot be mutated`,
			`status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition`,
		}),
		c("indexes", func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0-3,7", p("5-8") },
			[]string{`status.failedIndexes: Invalid value: "5-8": failedIndexes and completedIndexes overlap at index: 7`}),
		c("bad indexes", func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "3-1", p("10") }, []string{
			`status.completedIndexes: Invalid value: "3-1": error parsing completedIndexes: non-increasing order, previous: 3, current: 1`,
			`status.failedIndexes: Invalid value: "10": error parsing failedIndexes: too large index: "10"`,
		}),
	)
}

func TestJob_Row(t *testing.T) {
	j := storedJob(t, nil)
	j.CreationTimestamp = metav1.NewTime(tableNow.Add(-90 * time.Second))
	j.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &metav1.Time{Time: tableNow.Add(-60 * time.Second)}}
	const selector = "batch.kubernetes.io/controller-uid=u"
	kindtest.Row(t, Job(), j, tableNow, "pi", "Running", "1/1", "60s", "90s", "c", "image:1", selector)
	j.Spec.Completions, j.Spec.Parallelism, j.Status.StartTime = nil, p[int32](3), nil
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	kindtest.Row(t, Job(), j, tableNow, "pi", "Suspended", "1/1 of 3", "", "90s", "c", "image:1", selector)
}

func TestJob_Warnings(t *testing.T) {
	j := storedJob(t, func(j *batchv1.Job) {
		j.Name = "a.b"
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = p(batchv1.IndexedCompletion), p[int32](100_001), p[int32](10_001)
	})
	got := jobWarnings(j, nil)
	if len(got) != 2 || !strings.HasPrefix(got[0], "metadata.name: this is used in Pod names and hostnames") || !strings.HasPrefix(got[1], "spec: In Indexed Jobs") {
		t.Errorf("warnings: %q", got)
	}
}

const minimalCronJob = `
metadata: {name: pi, namespace: ns}
spec: {schedule: "*/5 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "image:1"}]}}}}}`

func cronJob(t *testing.T, edit func(*batchv1.CronJob)) *batchv1.CronJob {
	t.Helper()
	obj := &batchv1.CronJob{}
	if err := yaml.UnmarshalStrict([]byte(minimalCronJob), obj); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(obj)
	}
	defaultCronJob(obj)
	return obj
}

func TestCronJob_Minimal(t *testing.T) {
	kindtest.Minimal(t, CronJob(), minimalCronJob, `
metadata: {name: pi, namespace: ns, generation: 1}
spec:
  schedule: "*/5 * * * *"
  concurrencyPolicy: Allow
  suspend: false
  successfulJobsHistoryLimit: 3
  failedJobsHistoryLimit: 1
  jobTemplate: {spec: {template: {spec: {`+strings.ReplaceAll(strings.TrimSpace(defaultedPods), "\n", ", ")+`}}}}`)
}

func TestCronJob_Create(t *testing.T) {
	c := func(name string, edit func(*batchv1.CronJob), want []string) kindtest.Case[batchv1.CronJob] {
		return kindtest.Case[batchv1.CronJob]{Name: name, Edit: edit, Want: want}
	}
	schedule := func(text string) func(*batchv1.CronJob) {
		return func(c *batchv1.CronJob) { c.Spec.Schedule = text }
	}
	zone := func(name string) func(*batchv1.CronJob) {
		return func(c *batchv1.CronJob) { c.Spec.TimeZone = &name }
	}
	kindtest.Create(t, CronJob(), cronJob(t, nil),
		c("no schedule", schedule(""), []string{`spec.schedule: Required value`}),
		c("descriptor", schedule("@daily"), nil),
		c("six fields", schedule("* * * * * *"), []string{`spec.schedule: Invalid value: "* * * * * *": expected exactly 5 fields, found 6: [* * * * * *]`}),
		c("no such hour", schedule("0 24 * * *"), []string{`spec.schedule: Invalid value: "0 24 * * *": end of range (24) above maximum (23): 24`}),
		c("time zone in the schedule", schedule("CRON_TZ=UTC 0 * * * *"),
			[]string{`spec.schedule: Invalid value: "CRON_TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`}),
		c("time zone and no schedule", schedule("TZ=0"), []string{
			`spec.schedule: Invalid value: "TZ=0": expected exactly 5 fields, found 0: [TZ=0]`,
			`spec.schedule: Invalid value: "TZ=0": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`,
		}),
		c("zone", zone("Europe/Zurich"), nil),
		c("empty zone", zone(""), []string{`spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string`}),
		c("local zone", zone("Local"), []string{`spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones`}),
		c("unknown zone", zone("Mars/Base"), []string{`spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base`}),
		c("zone outside", zone("../etc"), []string{`spec.timeZone: Invalid value: "../etc": unknown time zone ../etc`}),
		c("policy", func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = "x" },
			[]string{`spec.concurrencyPolicy: Unsupported value: "x": supported values: "Allow", "Forbid", "Replace"`}),
		c("numbers", func(c *batchv1.CronJob) {
			c.Spec.StartingDeadlineSeconds, c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = p[int64](-1), p[int32](-1), p[int32](-1)
		}, []string{
			`spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0`,
			`spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0`,
			`spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0`,
		}),
		c("selector", func(c *batchv1.CronJob) {
			c.Spec.JobTemplate.Spec.Selector, c.Spec.JobTemplate.Spec.ManualSelector = &metav1.LabelSelector{}, p(true)
		}, []string{
			"spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
			`spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"`,
		}),
		c("job", func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "Always" },
			[]string{`spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`}),
		c("name", func(c *batchv1.CronJob) { c.Name = strings.Repeat("x", 53) },
			[]string{`metadata.name: Invalid value: "` + strings.Repeat("x", 53) + `": must be no more than 52 characters`}),
	)
}

func TestCronJob_Update(t *testing.T) {
	c := func(name string, edit func(*batchv1.CronJob), want []string) kindtest.Case[batchv1.CronJob] {
		return kindtest.Case[batchv1.CronJob]{Name: name, Edit: edit, Want: want}
	}
	kindtest.Update(t, CronJob(), cronJob(t, func(c *batchv1.CronJob) {
		c.Name = strings.Repeat("x", 60)
		c.Spec.Schedule = "TZ=UTC 0 * * * *"
	}),
		c("long name", func(c *batchv1.CronJob) { c.Spec.Suspend = p(true) }, nil),
		c("another zone in the schedule", func(c *batchv1.CronJob) { c.Spec.Schedule = "TZ=Europe/Zurich 0 * * * *" }, nil),
		c("both zones", func(c *batchv1.CronJob) { c.Spec.TimeZone = p("UTC") },
			[]string{`spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule`}),
	)
}

func TestCronJob_Row(t *testing.T) {
	c := cronJob(t, nil)
	kindtest.Row(t, CronJob(), c, tableNow, "pi", "*/5 * * * *", "<none>", "False", int64(0), "<none>", "<unknown>", "c", "image:1", "<none>")
	c.Spec.TimeZone, c.Spec.Suspend = p("UTC"), p(true)
	c.Status = batchv1.CronJobStatus{Active: make([]corev1.ObjectReference, 2), LastScheduleTime: &metav1.Time{Time: tableNow.Add(-time.Minute)}}
	kindtest.Row(t, CronJob(), c, tableNow, "pi", "*/5 * * * *", "UTC", "True", int64(2), "60s", "<unknown>", "c", "image:1", "<none>")
}
