package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/podspec"
)

func dropFromJob(obj, old kinds.Object) []string {
	var before *batchv1.JobSpec
	if old != nil {
		before = &old.(*batchv1.Job).Spec
	}
	return dropDisabled(&obj.(*batchv1.Job).Spec, before, field.NewPath("spec"))
}

func dropFromCronJob(obj, old kinds.Object) []string {
	var before *batchv1.JobSpec
	if old != nil {
		before = &old.(*batchv1.CronJob).Spec.JobTemplate.Spec
	}
	return dropDisabled(&obj.(*batchv1.CronJob).Spec.JobTemplate.Spec, before, field.NewPath("spec", "jobTemplate", "spec"))
}

// dropDisabled clears the fields of features that are off from a job's spec at path (see podspec.DropDisabled); old is nil on create.
func dropDisabled(spec, old *batchv1.JobSpec, path *field.Path) []string {
	var template *corev1.PodSpec
	if old != nil {
		template = &old.Template.Spec
	}
	warnings := podspec.DropDisabled(&spec.Template.Spec, template, path.Child("template", "spec"))
	if spec.Scheduling != nil && (old == nil || old.Scheduling == nil) {
		spec.Scheduling = nil
		warnings = append(warnings, podspec.DroppedWarning(path.Child("scheduling"), "WorkloadWithJob"))
	}
	return warnings
}
