package apiregistration

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"vigil/kinds/kindtest"
)

type (
	service     = apiregistrationv1.APIService
	serviceCase = kindtest.Case[service]
)

func remote() *service {
	return &service{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
			Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s", Port: kindtest.Ptr(int32(443))},
		},
	}
}

func TestAPIService_Minimal(t *testing.T) {
	const spec = `metadata: {name: v1.example.com}
spec: {group: example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10`
	kindtest.Minimal(t, APIService(), spec+`, service: {name: s, namespace: ns}}
status: {conditions: [{type: Available, status: "True"}]}`, spec+`, service: {name: s, namespace: ns, port: 443}}`)
	kindtest.Minimal(t, APIService(), spec+"}", spec+`}
status: {conditions: [{type: Available, status: "True", reason: Local, message: Local APIServices are always available, lastTransitionTime: }]}`)
}

func TestAPIService_Create(t *testing.T) {
	spec := func(edit func(*apiregistrationv1.APIServiceSpec)) func(*service) {
		return func(s *service) { edit(&s.Spec) }
	}
	kindtest.Create(t, APIService(), remote(),
		serviceCase{
			Name: "name", Edit: func(s *service) { s.Name = "v2.example.com" },
			Want: []string{"metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\""},
		},
		serviceCase{
			Name: "core", Edit: func(s *service) { s.Name, s.Spec.Group, s.Spec.Version = "v2.", "", "v2" },
			Want: []string{"spec.group: Required value: only v1 may have an empty group and it better be legacy kube"},
		},
		serviceCase{Name: "core v1", Edit: func(s *service) { s.Name, s.Spec.Group = "v1.", "" }},
		serviceCase{
			Name: "group and version", Edit: func(s *service) { s.Name, s.Spec.Group, s.Spec.Version = "V.G", "G", "V" },
			Want: []string{
				`spec.group: Invalid value: "G": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`spec.version: Invalid value: "V": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			},
		},
		serviceCase{
			Name: "priorities", Edit: spec(func(s *apiregistrationv1.APIServiceSpec) { s.GroupPriorityMinimum, s.VersionPriority = 0, 1001 }),
			Want: []string{
				"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
				"spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
			},
		},
		serviceCase{
			Name: "service", Edit: spec(func(s *apiregistrationv1.APIServiceSpec) {
				s.Service = &apiregistrationv1.ServiceReference{Port: kindtest.Ptr(int32(0))}
			}),
			Want: []string{
				"spec.service.namespace: Required value",
				"spec.service.name: Required value",
				"spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
			},
		},
		serviceCase{
			Name: "no verification", Edit: spec(func(s *apiregistrationv1.APIServiceSpec) { s.InsecureSkipTLSVerify, s.CABundle = true, []byte("x") }),
			Want: []string{"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"},
		},
		serviceCase{
			Name: "local", Edit: spec(func(s *apiregistrationv1.APIServiceSpec) {
				s.Service, s.InsecureSkipTLSVerify, s.CABundle = nil, true, []byte("x")
			}),
			Want: []string{
				`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`,
				"spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
			},
		},
	)
}

func TestAPIService_Update(t *testing.T) {
	kindtest.Update(t, APIService(), remote(),
		serviceCase{Name: "status", Edit: func(s *service) {
			s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: "Maybe"}}
		}},
		serviceCase{
			Name: "port", Edit: func(s *service) { s.Spec.Service.Port = kindtest.Ptr(int32(-1)) },
			Want: []string{"spec.service.port: Invalid value: -1: port is not valid: must be between 1 and 65535, inclusive"},
		},
	)
	kindtest.UpdateSubresource(t, APIService(), "status", remote(),
		serviceCase{
			Name: "status", Edit: func(s *service) {
				s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: "Maybe"}}
			},
			Want: []string{`status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"`},
		},
		serviceCase{Name: "spec", Edit: func(s *service) { s.Spec.Service.Port = kindtest.Ptr(int32(-1)) }},
	)
}

func TestAPIService_Row(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := remote()
	s.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
	kindtest.Row(t, APIService(), s, now, "v1.example.com", "ns/s", "<unknown>", "60s")
	s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Reason: "ServiceNotFound"}}
	kindtest.Row(t, APIService(), s, now, "v1.example.com", "ns/s", "False (ServiceNotFound)", "60s")
	s.Spec.Service, s.Status.Conditions[0].Status = nil, apiregistrationv1.ConditionTrue
	kindtest.Row(t, APIService(), s, now, "v1.example.com", "Local", "True", "60s")
}
