package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// Limits that keep the status of an Indexed job, which lists indexes, small enough to store.
const (
	maxParallelism   = 100_000
	maxFailedIndexes = 100_000

	manyCompletions               = 100_000 // above this, indexes that back off alone are allowed only within:
	manyCompletionsParallelism    = 10_000
	manyCompletionsFailedIndexes  = 10_000
	maxManagedByLength            = 63
	textRequiresIndexed           = "requires indexed completion mode"
	textDoesNotMatch              = "`selector` does not match template `labels`"
	textTooMuchForManyCompletions = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
)

func validateJob(obj kinds.Object) field.ErrorList {
	job := obj.(*batchv1.Job)
	errs := validateGeneratedSelector(job, true)
	errs = append(errs, validateSelectingSpec(&job.Spec, nil, field.NewPath("spec"))...)
	if completions := ptr.Deref(job.Spec.Completions, 0); isIndexed(&job.Spec) && completions > 0 {
		hostname := fmt.Sprintf("%s-%d", job.Name, completions-1)
		if len(validation.IsDNS1123Label(hostname)) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), job.Name, "will not able to create pod with invalid DNS label: "+hostname))
		}
	}
	return errs
}

func isIndexed(spec *batchv1.JobSpec) bool {
	return ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// validateGeneratedSelector checks what prepareJob made, or found there already. Jobs from before the labels had a domain
// lack those that have one.
func validateGeneratedSelector(job *batchv1.Job, withDomain bool) field.ErrorList {
	if ptr.Deref(job.Spec.ManualSelector, false) || job.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if job.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	own := labels.Set{}
	path := field.NewPath("spec", "template", "metadata", "labels")
	check := func(key, value string) {
		own[key] = value
		text := fmt.Sprintf("must be '%s'", value)
		if got, found := job.Spec.Template.Labels[key]; !found {
			errs = append(errs, field.Required(path.Key(key), text))
		} else if got != value {
			errs = append(errs, field.Invalid(path.Key(key), job.Spec.Template.Labels, text))
		}
	}
	for i := range nameLabels {
		if i == 0 || withDomain {
			check(uidLabels[i], string(job.UID))
			check(nameLabels[i], job.Name)
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !s.Matches(own) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), job.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateSelectingSpec checks the spec of a job, which has its selector; old is nil on create.
func validateSelectingSpec(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := validateJobSpec(spec, old, path)
	at := path.Child("selector")
	switch {
	case spec.Selector == nil:
		errs = append(errs, field.Required(at, ""))
	case old == nil:
		errs = append(errs, validate.LabelSelector(spec.Selector, at)...)
	default:
		errs = append(errs, validate.LabelSelectorUpdate(spec.Selector, old.Selector, at)...)
	}
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !s.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels, textDoesNotMatch))
	}
	return errs
}

// validateJobSpec checks the spec of a job or of a cron job's template; old is nil on create.
func validateJobSpec(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := validate.NonNegativePtr(spec.Parallelism, path.Child("parallelism"))
	errs = append(errs, validate.NonNegativePtr(spec.Completions, path.Child("completions"))...)
	errs = append(errs, validate.NonNegativePtr(spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, validate.NonNegativePtr(spec.BackoffLimit, path.Child("backoffLimit"))...)
	errs = append(errs, validate.NonNegativePtr(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	errs = append(errs, validate.NonNegativePtr(spec.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, validate.NonNegativePtr(spec.MaxFailedIndexes, path.Child("maxFailedIndexes"))...)
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if by := spec.ManagedBy; by != nil {
		at := path.Child("managedBy")
		errs = append(errs, validation.IsDomainPrefixedPath(at, *by)...)
		if len(*by) > maxManagedByLength {
			errs = append(errs, field.TooLong(at, *by, maxManagedByLength))
		}
	}
	errs = append(errs, validateCompletionMode(spec, path)...)
	if spec.PodFailurePolicy != nil {
		errs = append(errs, validateFailurePolicy(spec, path.Child("podFailurePolicy"))...)
	}
	if spec.SuccessPolicy != nil {
		at := path.Child("successPolicy")
		if isIndexed(spec) {
			errs = append(errs, validateSuccessPolicy(spec, at)...)
		} else {
			errs = append(errs, field.Invalid(at, *spec.SuccessPolicy, textRequiresIndexed))
		}
	}
	errs = append(errs, validateReplacementPolicy(spec, path.Child("podReplacementPolicy"))...)
	var opts podspec.Options
	if old != nil {
		opts.Old, opts.OldAnnotations = &old.Template.Spec, old.Template.Annotations
	}
	errs = append(errs, podspec.ValidateTemplate(&spec.Template, path.Child("template"), opts)...)
	return append(errs, validateRestartPolicy(spec, path.Child("template", "spec", "restartPolicy"))...)
}

// validateCompletionMode checks the mode and the numbers that depend on it.
func validateCompletionMode(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mode := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion)
	failed := path.Child("maxFailedIndexes")
	switch mode {
	case batchv1.IndexedCompletion:
		return validateIndexed(spec, path)
	case batchv1.NonIndexedCompletion:
		if spec.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *spec.BackoffLimitPerIndex, textRequiresIndexed))
		}
		if spec.MaxFailedIndexes != nil {
			errs = append(errs, field.Invalid(failed, *spec.MaxFailedIndexes, textRequiresIndexed))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("completionMode"), mode, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	return errs
}

func validateIndexed(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	parallelism, completions, failed := ptr.Deref(spec.Parallelism, 0), ptr.Deref(spec.Completions, 0), ptr.Deref(spec.MaxFailedIndexes, 0)
	atParallelism, atFailed := path.Child("parallelism"), path.Child("maxFailedIndexes")
	if spec.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	if parallelism > maxParallelism {
		errs = append(errs, field.Invalid(atParallelism, parallelism, fmt.Sprintf("must be less than or equal to %d when completion mode is %s", maxParallelism, batchv1.IndexedCompletion)))
	}
	if spec.Completions != nil && failed > completions {
		errs = append(errs, field.Invalid(atFailed, failed, "must be less than or equal to completions"))
	}
	if failed > maxFailedIndexes {
		errs = append(errs, field.Invalid(atFailed, failed, fmt.Sprintf("must be less than or equal to %d", maxFailedIndexes)))
	}
	if completions <= manyCompletions || spec.BackoffLimitPerIndex == nil {
		return errs
	}
	if spec.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(atFailed, fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
	}
	if parallelism > manyCompletionsParallelism {
		errs = append(errs, field.Invalid(atParallelism, parallelism, fmt.Sprintf(textTooMuchForManyCompletions, manyCompletionsParallelism, manyCompletions)))
	}
	if failed > manyCompletionsFailedIndexes {
		errs = append(errs, field.Invalid(atFailed, failed, fmt.Sprintf(textTooMuchForManyCompletions, manyCompletionsFailedIndexes, manyCompletions)))
	}
	return errs
}

func validateReplacementPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if spec.PodReplacementPolicy == nil {
		return nil
	}
	supported := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
	if spec.PodFailurePolicy != nil {
		supported = supported[:1]
	}
	for _, s := range supported {
		if *spec.PodReplacementPolicy == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, *spec.PodReplacementPolicy, supported)}
}

// validateRestartPolicy refuses Always, also when that is only the default.
func validateRestartPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == corev1.RestartPolicyAlways, policy == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(path, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case policy != corev1.RestartPolicyNever && spec.PodFailurePolicy != nil:
		return field.ErrorList{field.Invalid(path, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
	}
	return nil
}

func jobWarnings(obj, old kinds.Object) []string {
	job := obj.(*batchv1.Job)
	var warnings []string
	var oldSpec *batchv1.JobSpec
	if old != nil {
		oldSpec = &old.(*batchv1.Job).Spec
	} else if texts := apivalidation.NameIsDNSLabel(job.Name, false); len(texts) > 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", texts))
	}
	return append(warnings, specWarnings(&job.Spec, oldSpec, field.NewPath("spec"))...)
}
