package batch

import (
	"fmt"
	"maps"
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

const jobDeletionWarning = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// Job is the row of jobs.
func Job() *kinds.Kind {
	spec, status := batchv1.JobSpec{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        batchv1.SchemeGroupVersion.WithKind("Job"),
		Resource:   "jobs",
		Singular:   "job",
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "jobs",
		Type: &object.Type{
			APIVersion: "batch/v1", Kind: "Job", Namespaced: true,
			New: func() runtime.Object { return &batchv1.Job{} },
			Fields: []object.Field{
				{Label: "status.successful", Proto: []int32{3, 5}, Default: "0"},
			},
		},
		UnknownField: "field label %q not supported for Job",

		New:     func() kinds.Object { return &batchv1.Job{} },
		NewList: func() runtime.Object { return &batchv1.JobList{} },

		Default:        defaultJob,
		Drop:           dropFromJob,
		PrepareCreate:  prepareJob,
		PrepareUpdate:  func(obj, old kinds.Object) { obj.(*batchv1.Job).Status = old.(*batchv1.Job).Status },
		HasGeneration:  true,
		Validate:       validateJob,
		ValidateUpdate: validateJobUpdate,
		Warnings:       jobWarnings,

		UnconditionalUpdate: true,
		Dependents:          kinds.Dependents{Orphan: true, Warning: jobDeletionWarning},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Status", "Status of the job."),
			column.Text("Completions", status["succeeded"]),
			column.Text("Duration", "Time required to complete the job."),
			column.Age(),
			column.Wide(column.Text("Containers", "The names of the template's containers.")),
			column.Wide(column.Text("Images", "The images of the template's containers.")),
			column.Wide(column.Text("Selector", spec["selector"])),
		},
		Row: jobRow,

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare:  func(obj, old kinds.Object) { obj.(*batchv1.Job).Spec = old.(*batchv1.Job).Spec },
			Validate: validateJobStatusUpdate,
		}},
	}
}

func defaultJob(obj kinds.Object) {
	job := obj.(*batchv1.Job)
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		spec.Completions = ptr.To[int32](1)
	}
	setIfNil(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		setIfNil(&spec.BackoffLimit, math.MaxInt32)
	}
	setIfNil(&spec.BackoffLimit, 6)
	setIfNil(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	setIfNil(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		setIfNil(&spec.PodReplacementPolicy, batchv1.Failed)
	}
	setIfNil(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	setIfNil(&spec.ManualSelector, false)
	if len(job.Labels) == 0 && spec.Template.Labels != nil {
		// The same map, not a copy: what prepareJob adds to the template's labels shall be in the job's, too.
		job.Labels = spec.Template.Labels
	}
	defaultJobTemplate(spec)
}

// defaultJobTemplate fills in what cron jobs have defaulted, too: the pods, and what a failure policy looks for.
func defaultJobTemplate(spec *batchv1.JobSpec) {
	if spec.PodFailurePolicy != nil {
		for _, rule := range spec.PodFailurePolicy.Rules {
			for i := range rule.OnPodConditions {
				if rule.OnPodConditions[i].Status == "" {
					rule.OnPodConditions[i].Status = corev1.ConditionTrue
				}
			}
		}
	}
	podspec.DefaultTemplate(&spec.Template)
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// The labels that tie pods to their job, each under its present name and the one from before it had a domain.
var (
	nameLabels = []string{"job-name", batchv1.JobNameLabel}
	uidLabels  = []string{"controller-uid", batchv1.ControllerUidLabel}
)

// prepareJob makes the selector, unless the user takes care of that. Labels that the user gave stay; when they are wrong,
// validation says so.
func prepareJob(obj kinds.Object) {
	job := obj.(*batchv1.Job)
	job.Status = batchv1.JobStatus{}
	if ptr.Deref(job.Spec.ManualSelector, false) {
		return
	}
	template := &job.Spec.Template
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	for value, keys := range map[string][]string{job.Name: nameLabels, string(job.UID): uidLabels} {
		for _, key := range keys {
			if _, given := template.Labels[key]; !given {
				template.Labels[key] = value
			}
		}
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	if job.Spec.Selector.MatchLabels == nil {
		job.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, given := job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !given {
		job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(job.UID)
	}
	if len(job.Labels) == 0 {
		job.Labels = maps.Clone(template.Labels)
	}
}

func jobRow(obj kinds.Object, now time.Time) []any {
	job := obj.(*batchv1.Job)
	names, images := column.Containers(job.Spec.Template.Spec.Containers)
	return []any{
		job.Name,
		jobState(job),
		jobCompletions(job),
		jobDuration(job, now),
		column.Since(job.CreationTimestamp, now),
		names, images, metav1.FormatLabelSelector(job.Spec.Selector),
	}
}

func jobState(job *batchv1.Job) string {
	is := func(t batchv1.JobConditionType) bool { return isTrue(job.Status.Conditions, t) }
	switch {
	case is(batchv1.JobComplete):
		return "Complete"
	case is(batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	case is(batchv1.JobSuspended):
		return "Suspended"
	case is(batchv1.JobFailureTarget):
		return "FailureTarget"
	case is(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	default:
		return "Running"
	}
}

func jobCompletions(job *batchv1.Job) string {
	parallel := ptr.Deref(job.Spec.Parallelism, 0)
	switch {
	case job.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", job.Status.Succeeded, *job.Spec.Completions)
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", job.Status.Succeeded, parallel)
	default:
		return fmt.Sprintf("%d/1", job.Status.Succeeded)
	}
}

func jobDuration(job *batchv1.Job, now time.Time) string {
	switch start, end := job.Status.StartTime, job.Status.CompletionTime; {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(now.Sub(start.Time))
	default:
		return duration.HumanDuration(end.Sub(start.Time))
	}
}

// isTrue says whether a condition is there and true.
func isTrue(conditions []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	for _, c := range conditions {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
