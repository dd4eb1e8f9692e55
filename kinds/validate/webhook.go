package validate

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WebhookURL checks the URL of a webhook that the server calls.
func WebhookURL(text string, path *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(path, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(path, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(path, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(path, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// WebhookService checks where a webhook is in the cluster. Upstream confuses name and namespace: a missing namespace is
// reported at name and the other way round, and so here.
func WebhookService(namespace, name string, urlPath *string, port int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if namespace == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if name == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	if why := validation.IsValidPortNum(int(port)); why != nil {
		errs = append(errs, field.Invalid(path.Child("port"), port, "port is not valid: "+strings.Join(why, ", ")))
	}
	if urlPath != nil {
		errs = append(errs, webhookPath(*urlPath, path.Child("path"))...)
	}
	return errs
}

func webhookPath(p string, path *field.Path) field.ErrorList {
	switch p {
	case "", "/":
		return nil
	case "//":
		return field.ErrorList{field.Invalid(path, p, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must start with a '/'"))
	}
	for i, step := range strings.Split(strings.TrimSuffix(p[1:], "/"), "/") {
		if step == "" {
			errs = append(errs, field.Invalid(path, p, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, why := range validation.IsDNS1123Subdomain(step) {
			errs = append(errs, field.Invalid(path, p, fmt.Sprintf("segment[%d]: %v", i, why)))
		}
	}
	return errs
}
