package certificates

import (
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// CertificateSigningRequest is the row of certificate signing requests. Who asks is written into the request when it is
// created; afterwards its spec is fixed. Approval and denial come in through /approval only, the certificate through
// /status only.
func CertificateSigningRequest() *kinds.Kind {
	doc := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		Resource:   "certificatesigningrequests",
		Singular:   "certificatesigningrequest",
		ShortNames: []string{"csr"},
		Path:       "certificatesigningrequests",
		Type: &object.Type{
			APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest",
			New:    func() runtime.Object { return &certificatesv1.CertificateSigningRequest{} },
			Fields: []object.Field{{Label: "spec.signerName", Proto: []int32{2, 7}}},
		},
		UnknownField:     kinds.UnknownField,
		NoNamespaceField: true,
		New:              func() kinds.Object { return &certificatesv1.CertificateSigningRequest{} },
		NewList:          func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },

		PrepareCreate: func(obj kinds.Object) {
			obj.(*certificatesv1.CertificateSigningRequest).Status = certificatesv1.CertificateSigningRequestStatus{}
		},
		PrepareCreateFor: func(obj kinds.Object, user kinds.User) {
			setRequestor(&obj.(*certificatesv1.CertificateSigningRequest).Spec, user)
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			csr, was := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
			csr.Spec, csr.Status = *was.Spec.DeepCopy(), *was.Status.DeepCopy()
		},
		ValidateName: func(name string, _ bool) []string { return content.IsPathSegmentName(name) },
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateCSR(obj.(*certificatesv1.CertificateSigningRequest), nil)
		},
		ValidateUpdate:      func(obj, old kinds.Object) field.ErrorList { return validateCSRUpdate(obj, old, throughMain) },
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Age(),
			column.Text("SignerName", doc["signerName"]),
			column.Text("Requestor", doc["username"]),
			column.Text("RequestedDuration", doc["expirationSeconds"]),
			column.Text("Condition", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			csr := obj.(*certificatesv1.CertificateSigningRequest)
			requested := column.None
			if s := csr.Spec.ExpirationSeconds; s != nil {
				requested = duration.HumanDuration(time.Duration(*s) * time.Second)
			}
			return []any{
				csr.Name, column.Since(csr.CreationTimestamp, now), column.Or(csr.Spec.SignerName, column.None), csr.Spec.Username, requested,
				csrState(&csr.Status),
			}
		},

		Subresources: []kinds.Subresource{
			{
				Name:     "approval",
				Verbs:    []string{"get", "patch", "update"},
				Prepare:  prepareApproval,
				Validate: func(obj, old kinds.Object) field.ErrorList { return validateCSRUpdate(obj, old, throughApproval) },
			},
			{
				Name:     "status",
				Verbs:    []string{"get", "patch", "update"},
				Prepare:  prepareCSRStatus,
				Validate: func(obj, old kinds.Object) field.ErrorList { return validateCSRUpdate(obj, old, throughStatus) },
			},
		},
	}
}

// setRequestor writes down who asks, whatever the client says of that.
func setRequestor(spec *certificatesv1.CertificateSigningRequestSpec, user kinds.User) {
	spec.Username, spec.UID, spec.Groups, spec.Extra = user.Name, user.UID, slices.Clone(user.Groups), nil
	if len(user.Extra) == 0 {
		return
	}
	spec.Extra = make(map[string]certificatesv1.ExtraValue, len(user.Extra))
	for _, key := range slices.Sorted(maps.Keys(user.Extra)) {
		spec.Extra[key] = slices.Clone(user.Extra[key])
	}
}

// prepareApproval takes nothing but the conditions.
func prepareApproval(obj, old kinds.Object) {
	csr, was := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	stampConditions(csr.Status.Conditions, was.Status.Conditions)
	conditions := csr.Status.Conditions
	csr.Spec, csr.Status = *was.Spec.DeepCopy(), *was.Status.DeepCopy()
	csr.Status.Conditions = conditions
}

// prepareCSRStatus keeps the spec and what approved or denied the request. Where such conditions were added or removed
// they are left for validation to refuse.
func prepareCSRStatus(obj, old kinds.Object) {
	csr, was := obj.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest)
	csr.Spec = *was.Spec.DeepCopy()
	for _, t := range approvals {
		stored := conditionsOf(was, t)
		if len(stored) != len(conditionsOf(csr, t)) {
			continue
		}
		for i := range csr.Status.Conditions {
			if csr.Status.Conditions[i].Type == t {
				csr.Status.Conditions[i], stored = *stored[0].DeepCopy(), stored[1:]
			}
		}
	}
	stampConditions(csr.Status.Conditions, was.Status.Conditions)
}

// stampConditions fills in the times that a client left out. A condition that was there with the same status keeps the
// time of its transition.
func stampConditions(conditions, old []certificatesv1.CertificateSigningRequestCondition) {
	now := metav1.Now()
	for i := range conditions {
		c := &conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, was := range old {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
				break
			}
		}
	}
}

// csrState sums up a request: "Approved,Issued".
func csrState(status *certificatesv1.CertificateSigningRequestStatus) string {
	has := func(t certificatesv1.RequestConditionType) bool {
		return slices.ContainsFunc(status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == t })
	}
	text := "Pending"
	switch {
	case has(certificatesv1.CertificateDenied):
		text = "Denied"
	case has(certificatesv1.CertificateApproved):
		text = "Approved"
	}
	if has(certificatesv1.CertificateFailed) {
		text += ",Failed"
	}
	if len(status.Certificate) > 0 {
		text += ",Issued"
	}
	return text
}
