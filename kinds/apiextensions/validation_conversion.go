package apiextensions

import (
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// reviewVersions are those of ConversionReview that the server speaks.
var reviewVersions = []string{"v1", "v1beta1"}

func validateConversion(c *apiextensions.CustomResourceConversion, l lenience, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := requireOneOf(c.Strategy, path.Child("strategy"), apiextensions.NoneConverter, apiextensions.WebhookConverter)
	client, versions := path.Child("webhookClientConfig"), path.Child("conversionReviewVersions")
	if c.Strategy != apiextensions.WebhookConverter {
		if c.WebhookClientConfig != nil {
			errs = append(errs, field.Forbidden(client, "should not be set when strategy is not set to Webhook"))
		}
		if len(c.ConversionReviewVersions) > 0 {
			errs = append(errs, field.Forbidden(versions, "should not be set when strategy is not set to Webhook"))
		}
		return errs
	}
	if cc := c.WebhookClientConfig; cc == nil {
		errs = append(errs, field.Required(client, "required when strategy is set to Webhook"))
	} else {
		switch {
		case (cc.URL == nil) == (cc.Service == nil):
			errs = append(errs, field.Required(client, "exactly one of url or service is required"))
		case cc.URL != nil:
			errs = append(errs, validate.WebhookURL(*cc.URL, client.Child("url"))...)
		default:
			s := cc.Service
			errs = append(errs, validate.WebhookService(s.Namespace, s.Name, s.Path, s.Port, client.Child("service"))...)
		}
	}
	return append(errs, validateReviewVersions(c.ConversionReviewVersions, l, versions)...)
}

func validateReviewVersions(versions []string, l lenience, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, v := range versions {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, validate.Each(v, path.Index(i), validation.IsDNS1035Label)...)
	}
	if !l.reviewVersions && !slices.ContainsFunc(versions, isReviewVersion) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+strings.Join(reviewVersions, ", ")))
	}
	return errs
}

func isReviewVersion(v string) bool { return slices.Contains(reviewVersions, v) }
