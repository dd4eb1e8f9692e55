package batch

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// CronJob is the row of cron jobs.
func CronJob() *kinds.Kind {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        batchv1.SchemeGroupVersion.WithKind("CronJob"),
		Resource:   "cronjobs",
		Singular:   "cronjob",
		ShortNames: []string{"cj"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "cronjobs",
		Type: &object.Type{
			APIVersion: "batch/v1", Kind: "CronJob", Namespaced: true,
			New: func() runtime.Object { return &batchv1.CronJob{} },
		},

		New:     func() kinds.Object { return &batchv1.CronJob{} },
		NewList: func() runtime.Object { return &batchv1.CronJobList{} },

		Default:        defaultCronJob,
		Drop:           dropFromCronJob,
		PrepareCreate:  func(obj kinds.Object) { obj.(*batchv1.CronJob).Status = batchv1.CronJobStatus{} },
		PrepareUpdate:  func(obj, old kinds.Object) { obj.(*batchv1.CronJob).Status = old.(*batchv1.CronJob).Status },
		HasGeneration:  true,
		Validate:       validateCronJob,
		ValidateUpdate: validateCronJobUpdate,
		Warnings:       cronJobWarnings,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Schedule", spec["schedule"]),
			column.Text("Timezone", spec["timeZone"]),
			column.Text("Suspend", spec["suspend"]),
			column.Integer("Active", status["active"]),
			column.Text("Last Schedule", status["lastScheduleTime"]),
			column.Age(),
			column.Wide(column.Text("Containers", "The names of the template's containers.")),
			column.Wide(column.Text("Images", "The images of the template's containers.")),
			column.Wide(column.Text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
		},
		Row: cronJobRow,

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) { obj.(*batchv1.CronJob).Spec = old.(*batchv1.CronJob).Spec },
		}},
	}
}

// defaultCronJob leaves the numbers of the job template alone: they are filled in when jobs are made from it.
func defaultCronJob(obj kinds.Object) {
	spec := &obj.(*batchv1.CronJob).Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	setIfNil(&spec.Suspend, false)
	setIfNil(&spec.SuccessfulJobsHistoryLimit, 3)
	setIfNil(&spec.FailedJobsHistoryLimit, 1)
	defaultJobTemplate(&spec.JobTemplate.Spec)
}

func cronJobRow(obj kinds.Object, now time.Time) []any {
	cron := obj.(*batchv1.CronJob)
	job := &cron.Spec.JobTemplate.Spec
	names, images := column.Containers(job.Template.Spec.Containers)
	last, suspend := column.None, column.Unset
	if cron.Status.LastScheduleTime != nil {
		last = column.Since(*cron.Status.LastScheduleTime, now)
	}
	if s := cron.Spec.Suspend; s != nil && *s {
		suspend = "True"
	} else if s != nil {
		suspend = "False"
	}
	return []any{
		cron.Name,
		cron.Spec.Schedule,
		ptr.Deref(cron.Spec.TimeZone, column.None),
		suspend,
		int64(len(cron.Status.Active)),
		last,
		column.Since(cron.CreationTimestamp, now),
		names, images, metav1.FormatLabelSelector(job.Selector),
	}
}
