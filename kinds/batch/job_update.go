package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// validateJobUpdate fixes nearly everything that says what the job is; how many pods run at once and whether any do can
// change.
func validateJobUpdate(obj, old kinds.Object) field.ErrorList {
	job, oldJob, path := obj.(*batchv1.Job), old.(*batchv1.Job), field.NewPath("spec")
	spec, oldSpec := &job.Spec, &oldJob.Spec
	errs := validateSelectingSpec(spec, oldSpec, path)
	errs = append(errs, validateCompletionsUpdate(spec, oldSpec, path.Child("completions"))...)
	errs = append(errs, validate.Immutable(spec.Selector, oldSpec.Selector, path.Child("selector"))...)
	errs = append(errs, validateTemplateUpdate(job, oldJob, path.Child("template"))...)
	errs = append(errs, validate.Immutable(spec.CompletionMode, oldSpec.CompletionMode, path.Child("completionMode"))...)
	errs = append(errs, validate.Immutable(spec.PodFailurePolicy, oldSpec.PodFailurePolicy, path.Child("podFailurePolicy"))...)
	errs = append(errs, validate.Immutable(spec.BackoffLimitPerIndex, oldSpec.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, validate.Immutable(spec.ManagedBy, oldSpec.ManagedBy, path.Child("managedBy"))...)
	return append(errs, validate.Immutable(spec.SuccessPolicy, oldSpec.SuccessPolicy, path.Child("successPolicy"))...)
}

// validateCompletionsUpdate lets an Indexed job grow and shrink, if it runs all of its indexes at once (KEP-3715).
func validateCompletionsUpdate(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if !isIndexed(spec) {
		return validate.Immutable(spec.Completions, old.Completions, path)
	}
	if spec.Completions == nil || ptr.Equal(spec.Completions, old.Completions) || ptr.Equal(spec.Completions, spec.Parallelism) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, spec.Completions, "can only be modified in tandem with spec.parallelism")}
}

// validateTemplateUpdate lets the template of a job that does not run say anew where its pods go and what they need
// (KEP-2926, KEP-5440). A job that never ran may do that while it is suspended, one that did when its pods are gone.
func validateTemplateUpdate(job, oldJob *batchv1.Job, path *field.Path) field.ErrorList {
	template, old := &job.Spec.Template, &oldJob.Spec.Template
	neverRan := oldJob.Status.StartTime == nil
	stopped := isTrue(oldJob.Status.Conditions, batchv1.JobSuspended) && oldJob.Status.Active == 0
	if ptr.Deref(oldJob.Spec.Suspend, false) && (neverRan || stopped) {
		old = old.DeepCopy()
		old.Labels, old.Annotations = template.Labels, template.Annotations
		old.Spec.NodeSelector = template.Spec.NodeSelector
		old.Spec.Tolerations = template.Spec.Tolerations
		old.Spec.SchedulingGates = template.Spec.SchedulingGates
		takeNodeAffinity(&old.Spec, &template.Spec)
		takeResources(old.Spec.Containers, template.Spec.Containers)
		takeResources(old.Spec.InitContainers, template.Spec.InitContainers)
	}
	return validate.Immutable(template, old, path)
}

// takeNodeAffinity gives to the node affinity of from; what else is in the affinity stays.
func takeNodeAffinity(to, from *corev1.PodSpec) {
	var wanted *corev1.NodeAffinity
	if from.Affinity != nil {
		wanted = from.Affinity.NodeAffinity
	}
	if to.Affinity == nil {
		if from.Affinity == nil {
			return
		}
		to.Affinity = &corev1.Affinity{}
	}
	to.Affinity.NodeAffinity = wanted
	if from.Affinity == nil && equality.Semantic.DeepEqual(to.Affinity, &corev1.Affinity{}) {
		to.Affinity = nil
	}
}

func takeResources(to, from []corev1.Container) {
	if len(to) != len(from) {
		return
	}
	for i := range to {
		to[i].Resources.Requests, to[i].Resources.Limits = from[i].Resources.Requests, from[i].Resources.Limits
	}
}
