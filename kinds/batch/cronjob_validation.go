package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"vigil/kinds"
	"vigil/kinds/validate"
)

// maxCronJobName leaves room in a job's name for the minute that the controller appends.
const maxCronJobName = 52

// zonePart is what stands between the slashes of a time zone's name; see https://data.iana.org/time-zones/theory.html. Digits
// and plus signs are in names of old.
var zonePart = regexp.MustCompile(`^[A-Za-z.\-_0-9+]{1,14}$`)

func validateCronJob(obj kinds.Object) field.ErrorList {
	c := obj.(*batchv1.CronJob)
	errs := validateCronJobSpec(&c.Spec, nil, field.NewPath("spec"))
	if len(c.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
	}
	return errs
}

// validateCronJobUpdate does not look at the name: long ones were allowed once.
func validateCronJobUpdate(obj, old kinds.Object) field.ErrorList {
	return validateCronJobSpec(&obj.(*batchv1.CronJob).Spec, &old.(*batchv1.CronJob).Spec, field.NewPath("spec"))
}

func validateCronJobSpec(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	errs := validateSchedule(spec, old, path.Child("schedule"))
	errs = append(errs, validate.NonNegativePtr(spec.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	if old == nil || !ptr.Equal(old.TimeZone, spec.TimeZone) {
		errs = append(errs, validateTimeZone(spec.TimeZone, path.Child("timeZone"))...)
	}
	errs = append(errs, validate.OneOf(spec.ConcurrencyPolicy, path.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)

	job, at := &spec.JobTemplate.Spec, path.Child("jobTemplate", "spec")
	var oldJob *batchv1.JobSpec
	if old != nil {
		oldJob = &old.JobTemplate.Spec
	}
	errs = append(errs, validateJobSpec(job, oldJob, at)...)
	if job.Selector != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), job.Selector, "`selector` will be auto-generated"))
	}
	if ptr.Deref(job.ManualSelector, false) {
		errs = append(errs, field.NotSupported(at.Child("manualSelector"), job.ManualSelector, []string{"nil", "false"}))
	}

	errs = append(errs, validate.NonNegativePtr(spec.SuccessfulJobsHistoryLimit, path.Child("successfulJobsHistoryLimit"))...)
	return append(errs, validate.NonNegativePtr(spec.FailedJobsHistoryLimit, path.Child("failedJobsHistoryLimit"))...)
}

// validateSchedule wants five fields or a descriptor like @daily. A time zone in the schedule is tolerated where it is
// there already.
func validateSchedule(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	if spec.Schedule == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if err := parseSchedule(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	if !strings.Contains(spec.Schedule, "TZ") {
		return errs
	}
	if old == nil || !strings.Contains(old.Schedule, "TZ") {
		return append(errs, field.Invalid(path, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	}
	if spec.TimeZone != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parseSchedule says whether the text is a schedule. The parser panics on a time zone with nothing behind it
// ("TZ=0"), which is no schedule either.
func parseSchedule(text string) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("expected exactly 5 fields, found 0: [%s]", text)
		}
	}()
	_, err = cron.ParseStandard(text)
	return err
}

func validateTimeZone(zone *string, path *field.Path) field.ErrorList {
	if zone == nil {
		return nil
	}
	if *zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	for _, part := range strings.Split(*zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(path, zone, "unknown time zone "+*zone)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*zone, "Local") {
		errs = append(errs, field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}

func cronJobWarnings(obj, old kinds.Object) []string {
	c := obj.(*batchv1.CronJob)
	var warnings []string
	var oldJob *batchv1.JobSpec
	if old != nil {
		oldJob = &old.(*batchv1.CronJob).Spec.JobTemplate.Spec
	} else if texts := apivalidation.NameIsDNSLabel(c.Name, false); len(texts) > 0 {
		warnings = append(warnings, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
			"which can result in surprising behavior; a DNS label is recommended: %v", texts))
	}
	warnings = append(warnings, specWarnings(&c.Spec.JobTemplate.Spec, oldJob, field.NewPath("spec", "jobTemplate", "spec"))...)
	if strings.Contains(c.Spec.Schedule, "TZ") {
		warnings = append(warnings, "CRON_TZ or TZ used in spec.spec.schedule is not officially supported, "+ // upstream's path
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return warnings
}
