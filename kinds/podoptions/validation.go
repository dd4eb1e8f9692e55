package podoptions

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var streams = []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}

// ValidateLog checks PodLogOptions (pkg/apis/core/v1/validation).
func ValidateLog(opts *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if n := opts.TailLines; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n, "must be greater than or equal to 0"))
	}
	if n := opts.LimitBytes; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *n, "must be greater than 0"))
	}
	switch n := opts.SinceSeconds; {
	case n != nil && opts.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case n != nil && *n < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *n, "must be greater than 0"))
	}
	if opts.Stream == nil {
		return errs
	}
	switch *opts.Stream {
	case corev1.LogStreamAll:
		return errs
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *opts.Stream, streams))
	}
	if opts.TailLines != nil {
		errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
	}
	return errs
}
