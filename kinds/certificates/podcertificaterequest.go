package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/validate"
	"vigil/object"
)

// Bounds of spec.maxExpirationSeconds. Kubernetes' own signers have a lower one.
const (
	defaultMaxExpirationSeconds    = 24 * 60 * 60
	minMaxExpirationSeconds        = 60 * 60
	maxMaxExpirationSeconds        = 91 * 24 * 60 * 60
	kubernetesMaxExpirationSeconds = 24 * 60 * 60
)

// PodCertificateRequest is the row of pod certificate requests (KEP-4317): kubelets ask with them for the certificates
// of pods.
func PodCertificateRequest() *kinds.Kind { return podCertificateRequest(time.Now) }

func podCertificateRequest(now func() time.Time) *kinds.Kind {
	return &kinds.Kind{
		GVK:        certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
		Resource:   "podcertificaterequests",
		Singular:   "podcertificaterequest",
		Namespaced: true,
		Path:       "podcertificaterequests",
		Type: &object.Type{
			APIVersion: "certificates.k8s.io/v1", Kind: "PodCertificateRequest", Namespaced: true,
			New: func() runtime.Object { return &certificatesv1.PodCertificateRequest{} },
			Fields: []object.Field{
				{Label: "spec.signerName", Proto: []int32{2, 1}},
				{Label: "spec.podName", Proto: []int32{2, 2}},
				{Label: "spec.nodeName", Proto: []int32{2, 6}},
			},
		},
		UnknownField:     kinds.UnknownField,
		NoNamespaceField: true,
		New:              func() kinds.Object { return &certificatesv1.PodCertificateRequest{} },
		NewList:          func() runtime.Object { return &certificatesv1.PodCertificateRequestList{} },

		Default: func(obj kinds.Object) {
			if spec := &obj.(*certificatesv1.PodCertificateRequest).Spec; spec.MaxExpirationSeconds == nil {
				seconds := int32(defaultMaxExpirationSeconds)
				spec.MaxExpirationSeconds = &seconds
			}
		},
		PrepareCreate: func(obj kinds.Object) {
			obj.(*certificatesv1.PodCertificateRequest).Status = certificatesv1.PodCertificateRequestStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*certificatesv1.PodCertificateRequest).Status = *old.(*certificatesv1.PodCertificateRequest).Status.DeepCopy()
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			return validatePodRequest(&obj.(*certificatesv1.PodCertificateRequest).Spec, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validate.Immutable(obj.(*certificatesv1.PodCertificateRequest).Spec, old.(*certificatesv1.PodCertificateRequest).Spec, field.NewPath("spec"))
		},

		Subresources: []kinds.Subresource{{
			Name:  "status",
			Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				request, was := obj.(*certificatesv1.PodCertificateRequest), old.(*certificatesv1.PodCertificateRequest)
				request.Spec = *was.Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(&request.ObjectMeta, &was.ObjectMeta)
			},
			Validate: func(obj, old kinds.Object) field.ErrorList {
				return validatePodRequestStatus(obj.(*certificatesv1.PodCertificateRequest), old.(*certificatesv1.PodCertificateRequest), now())
			},
		}},
	}
}
