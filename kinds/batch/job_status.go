package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// statusCheck compares the status of a job with the one before. Most rules are younger than the kind, so they speak only
// when what they are about has changed.
type statusCheck struct {
	job, old *batchv1.Job
	path     *field.Path
	errs     field.ErrorList
}

func validateJobStatusUpdate(obj, old kinds.Object) field.ErrorList {
	c := &statusCheck{job: obj.(*batchv1.Job), old: old.(*batchv1.Job), path: field.NewPath("status")}
	c.checkCounters()
	c.checkUncounted()
	c.checkCompletion()
	c.checkFinished()
	c.checkIndexes()
	c.checkSuccess()
	c.checkHistory()
	return c.errs
}

func (c *statusCheck) is(t batchv1.JobConditionType) bool  { return isTrue(c.job.Status.Conditions, t) }
func (c *statusCheck) was(t batchv1.JobConditionType) bool { return isTrue(c.old.Status.Conditions, t) }

// turned says whether a condition became true or stopped to be.
func (c *statusCheck) turned(t batchv1.JobConditionType) bool { return c.is(t) != c.was(t) }

func (c *statusCheck) add(err *field.Error) { c.errs = append(c.errs, err) }

func (c *statusCheck) refuseConditions(text string) {
	c.add(field.Invalid(c.path.Child("conditions"), field.OmitValueType{}, text))
}

func (c *statusCheck) checkCounters() {
	s := &c.job.Status
	for _, n := range []struct {
		name  string
		value *int32
	}{{"active", &s.Active}, {"succeeded", &s.Succeeded}, {"failed", &s.Failed}, {"ready", s.Ready}, {"terminating", s.Terminating}} {
		c.errs = append(c.errs, validate.NonNegativePtr(n.value, c.path.Child(n.name))...)
	}
	changed := !ptr.Equal(s.Ready, c.old.Status.Ready) || s.Active != c.old.Status.Active
	if changed && s.Ready != nil && *s.Ready > s.Active {
		c.add(field.Invalid(c.path.Child("ready"), *s.Ready, "cannot set more ready pods than active"))
	}
}

func (c *statusCheck) checkUncounted() {
	uncounted := c.job.Status.UncountedTerminatedPods
	if uncounted == nil {
		return
	}
	path := c.path.Child("uncountedTerminatedPods")
	seen := sets.New[types.UID]()
	check := func(uids []types.UID, path *field.Path) {
		for i, uid := range uids {
			switch {
			case uid == "":
				c.add(field.Invalid(path.Index(i), uid, "must not be empty"))
			case seen.Has(uid):
				c.add(field.Duplicate(path.Index(i), uid))
			}
			seen.Insert(uid)
		}
	}
	check(uncounted.Succeeded, path.Child("succeeded"))
	check(uncounted.Failed, path.Child("failed"))
}

// checkCompletion checks the time of completion against the conditions.
func (c *statusCheck) checkCompletion() {
	s, before := &c.job.Status, &c.old.Status
	complete := c.is(batchv1.JobComplete)
	turned := c.turned(batchv1.JobComplete)
	if complete && c.is(batchv1.JobFailed) && (turned || c.turned(batchv1.JobFailed)) {
		c.refuseConditions("cannot set Complete=True and Failed=true conditions")
	}
	if complete && c.is(batchv1.JobFailureTarget) && (turned || c.turned(batchv1.JobFailureTarget)) {
		c.refuseConditions("cannot set Complete=True and FailureTarget=true conditions")
	}
	path := c.path.Child("completionTime")
	moved := !s.CompletionTime.Equal(before.CompletionTime)
	if turned || moved {
		if s.CompletionTime != nil && !complete {
			c.add(field.Invalid(path, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
		}
		if s.CompletionTime == nil && complete {
			c.add(field.Required(path, "completionTime is required for Complete jobs"))
		}
	}
	if (moved || !s.StartTime.Equal(before.StartTime)) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		c.add(field.Invalid(path, s.CompletionTime, "completionTime cannot be set before startTime"))
	}
	if c.is(batchv1.JobFailed) && !c.is(batchv1.JobFailureTarget) && (c.turned(batchv1.JobFailed) || c.turned(batchv1.JobFailureTarget)) {
		c.refuseConditions("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if complete && !c.is(batchv1.JobSuccessCriteriaMet) && (turned || c.turned(batchv1.JobSuccessCriteriaMet)) {
		c.refuseConditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
}

// checkFinished checks that nothing is left over of a finished job.
func (c *statusCheck) checkFinished() {
	if !c.is(batchv1.JobComplete) && !c.is(batchv1.JobFailed) {
		return
	}
	s, before := &c.job.Status, &c.old.Status
	turned := !c.was(batchv1.JobComplete) && !c.was(batchv1.JobFailed)
	if s.Active > 0 && (turned || s.Active != before.Active) {
		c.add(field.Invalid(c.path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	// A job that wants no pods at all may be done while it is suspended, and so without having started.
	neverStarts := ptr.Deref(c.job.Spec.Suspend, false) && c.job.Spec.Completions != nil && *c.job.Spec.Completions == 0
	if s.StartTime == nil && !neverStarts && (turned || before.StartTime != nil) {
		c.add(field.Required(c.path.Child("startTime"), "startTime is required for finished job"))
	}
	uncounted := s.UncountedTerminatedPods
	if uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 &&
		(turned || !equality.Semantic.DeepEqual(uncounted, before.UncountedTerminatedPods)) {
		c.add(field.Invalid(c.path.Child("uncountedTerminatedPods"), uncounted, "uncountedTerminatedPods needs to be empty for finished job"))
	}
	if ptr.Deref(s.Terminating, 0) > 0 && (turned || !ptr.Equal(s.Terminating, before.Terminating)) {
		c.add(field.Invalid(c.path.Child("terminating"), s.Terminating, "terminating>0 is invalid for finished job"))
	}
}

func (c *statusCheck) checkIndexes() {
	spec, s, before := &c.job.Spec, &c.job.Status, &c.old.Status
	completed, failed := c.path.Child("completedIndexes"), c.path.Child("failedIndexes")
	completedChanged, failedChanged := s.CompletedIndexes != before.CompletedIndexes, !ptr.Equal(s.FailedIndexes, before.FailedIndexes)
	if spec.Completions != nil {
		if _, err := countIndexes(s.CompletedIndexes, *spec.Completions); completedChanged && err != nil {
			c.add(field.Invalid(completed, s.CompletedIndexes, fmt.Sprintf("error parsing completedIndexes: %v", err)))
		}
		if failedChanged && spec.BackoffLimitPerIndex != nil && s.FailedIndexes != nil {
			if _, err := countIndexes(*s.FailedIndexes, *spec.Completions); err != nil {
				c.add(field.Invalid(failed, s.FailedIndexes, fmt.Sprintf("error parsing failedIndexes: %v", err)))
			}
		}
	}
	if completedChanged && s.CompletedIndexes != "" && !isIndexed(spec) {
		c.add(field.Invalid(completed, s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if s.FailedIndexes == nil {
		return
	}
	if failedChanged && spec.BackoffLimitPerIndex == nil {
		c.add(field.Invalid(failed, *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if (failedChanged || completedChanged) && spec.Completions != nil {
		if index, found := findOverlap(s.CompletedIndexes, *s.FailedIndexes, *spec.Completions); found {
			c.add(field.Invalid(failed, *s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index)))
		}
	}
}

func (c *statusCheck) checkSuccess() {
	met := c.is(batchv1.JobSuccessCriteriaMet)
	if met && c.is(batchv1.JobFailed) {
		c.refuseConditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && c.is(batchv1.JobFailureTarget) {
		c.refuseConditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if c.job.Spec.SuccessPolicy != nil && !met && c.is(batchv1.JobComplete) {
		c.refuseConditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

// checkHistory checks that nothing goes back: conditions that end the job, counters, times.
func (c *statusCheck) checkHistory() {
	s, before := &c.job.Status, &c.old.Status
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if c.was(t) && !c.is(t) {
			c.refuseConditions(fmt.Sprintf("cannot disable the terminal %s=True condition", t))
		}
	}
	if s.Failed < before.Failed {
		c.add(field.Invalid(c.path.Child("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	// An Indexed job that runs all of its indexes at once can become smaller, and then has fewer that succeeded.
	elastic := isIndexed(&c.job.Spec) && ptr.Equal(c.job.Spec.Completions, c.job.Spec.Parallelism)
	if s.Succeeded < before.Succeeded && !elastic {
		c.add(field.Invalid(c.path.Child("succeeded"), s.Succeeded, "cannot decrease the succeeded counter"))
	}
	if s.CompletionTime != nil && before.CompletionTime != nil && !s.CompletionTime.Equal(before.CompletionTime) {
		c.add(field.Invalid(c.path.Child("completionTime"), s.CompletionTime, "completionTime cannot be mutated"))
	}
	if before.StartTime != nil && !s.StartTime.Equal(before.StartTime) && !ptr.Deref(c.job.Spec.Suspend, false) {
		c.add(field.Required(c.path.Child("startTime"), "startTime cannot be removed for unsuspended job"))
	}
	if c.was(batchv1.JobSuccessCriteriaMet) && !c.is(batchv1.JobSuccessCriteriaMet) {
		c.refuseConditions("cannot disable the SuccessCriteriaMet=True condition")
	}
	if c.was(batchv1.JobComplete) && !c.was(batchv1.JobSuccessCriteriaMet) && c.is(batchv1.JobSuccessCriteriaMet) {
		c.refuseConditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}
