package apiregistration

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// APIService is the row of apiservices. It is stored as JSON.
func APIService() *kinds.Kind {
	return &kinds.Kind{
		GVK:        apiregistrationv1.SchemeGroupVersion.WithKind("APIService"),
		Resource:   "apiservices",
		Singular:   "apiservice",
		Categories: []string{"api-extensions"},
		Path:       "apiregistration.k8s.io/apiservices",
		Type: &object.Type{
			APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService",
			New:  func() runtime.Object { return &apiregistrationv1.APIService{} },
			Form: &object.Form{},
		},
		New:     func() kinds.Object { return &apiregistrationv1.APIService{} },
		NewList: func() runtime.Object { return &apiregistrationv1.APIServiceList{} },

		Default: func(obj kinds.Object) {
			if s := obj.(*apiregistrationv1.APIService).Spec.Service; s != nil && s.Port == nil {
				s.Port = new(int32(443))
			}
		},
		PrepareCreate: func(obj kinds.Object) { prepareNew(obj.(*apiregistrationv1.APIService)) },
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*apiregistrationv1.APIService).Status = *old.(*apiregistrationv1.APIService).Status.DeepCopy()
		},
		// The name says what is served, so it is checked with the rest.
		ValidateName: func(name string, _ bool) []string { return content.IsPathSegmentName(name) },
		Validate:     func(obj kinds.Object) field.ErrorList { return validateAPIService(obj.(*apiregistrationv1.APIService)) },

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Service", "The reference to the service that hosts this API endpoint."),
			column.Text("Available", "Whether this service is available."),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			s := obj.(*apiregistrationv1.APIService)
			service := "Local"
			if ref := s.Spec.Service; ref != nil {
				service = ref.Namespace + "/" + ref.Name
			}
			return []any{s.Name, service, availableCell(s), column.Since(s.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*apiregistrationv1.APIService).Spec = *old.(*apiregistrationv1.APIService).Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(obj, old)
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				return validateStatus(&obj.(*apiregistrationv1.APIService).Status, field.NewPath("status"))
			},
		}},
	}
}

// prepareNew clears the status. What this server itself serves is available at once.
func prepareNew(s *apiregistrationv1.APIService) {
	s.Status = apiregistrationv1.APIServiceStatus{}
	if s.Spec.Service == nil {
		s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
			Type:               apiregistrationv1.Available,
			Status:             apiregistrationv1.ConditionTrue,
			Reason:             "Local",
			Message:            "Local APIServices are always available",
			LastTransitionTime: s.CreationTimestamp,
		}}
	}
}

// availableCell shows the condition and, unless all is well, its reason.
func availableCell(s *apiregistrationv1.APIService) string {
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if c.Status == apiregistrationv1.ConditionTrue {
			return string(c.Status)
		}
		return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
	}
	return column.Unknown
}

const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

func validateAPIService(s *apiregistrationv1.APIService) field.ErrorList {
	path, spec := field.NewPath("spec"), &s.Spec
	var errs field.ErrorList
	if want := spec.Version + "." + spec.Group; s.Name != want && len(content.IsPathSegmentName(s.Name)) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
	}
	switch {
	case spec.Group == "" && spec.Version != "v1":
		errs = append(errs, field.Required(path.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	case spec.Group != "":
		errs = append(errs, validate.Each(spec.Group, path.Child("group"), validation.IsDNS1123Subdomain)...)
	}
	errs = append(errs, validate.Each(spec.Version, path.Child("version"), validation.IsDNS1035Label)...)
	if p := spec.GroupPriorityMinimum; p <= 0 || p > maxGroupPriority {
		errs = append(errs, field.Invalid(path.Child("groupPriorityMinimum"), p, "must be positive and less than 20000"))
	}
	if p := spec.VersionPriority; p <= 0 || p > maxVersionPriority {
		errs = append(errs, field.Invalid(path.Child("versionPriority"), p, "must be positive and less than 1000"))
	}
	if spec.Service == nil {
		return append(errs, validateLocal(spec, path)...)
	}
	return append(errs, validateRemote(spec, path)...)
}

func validateLocal(spec *apiregistrationv1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(path.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle"))
	}
	if spec.InsecureSkipTLSVerify {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
	}
	return errs
}

func validateRemote(spec *apiregistrationv1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at, port := path.Child("service"), int32(0)
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if spec.Service.Port != nil {
		port = *spec.Service.Port
	}
	if why := validation.IsValidPortNum(int(port)); why != nil {
		errs = append(errs, field.Invalid(at.Child("port"), port, "port is not valid: "+strings.Join(why, ", ")))
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateStatus(status *apiregistrationv1.APIServiceStatus, path *field.Path) field.ErrorList {
	known := []apiregistrationv1.ConditionStatus{apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown}
	var errs field.ErrorList
	for i, c := range status.Conditions {
		if !slices.Contains(known, c.Status) {
			errs = append(errs, field.NotSupported(path.Child("conditions").Index(i).Child("status"), c.Status, known))
		}
	}
	return errs
}
