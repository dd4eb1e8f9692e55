// Package all is the list of every kind that the server serves. To serve another kind, add its row here.
package all

import (
	"time"

	"vigil/kinds"
	"vigil/kinds/admissionregistration"
	"vigil/kinds/apiextensions"
	"vigil/kinds/apiregistration"
	"vigil/kinds/apps"
	"vigil/kinds/authentication"
	"vigil/kinds/authorization"
	"vigil/kinds/autoscaling"
	"vigil/kinds/batch"
	"vigil/kinds/certificates"
	"vigil/kinds/coordination"
	"vigil/kinds/core"
	"vigil/kinds/discovery"
	"vigil/kinds/events"
	"vigil/kinds/flowcontrol"
	"vigil/kinds/networking"
	"vigil/kinds/node"
	"vigil/kinds/policy"
	"vigil/kinds/rbac"
	"vigil/kinds/resource"
	"vigil/kinds/scheduling"
	"vigil/kinds/storage"
	"vigil/kinds/storagemigration"
)

// Options are what of the table is configurable.
type Options struct {
	EventTTL time.Duration // how long events are kept; 0: an hour
}

// Table returns a new table of all kinds.
func Table() *kinds.Table { return TableWith(Options{}) }

// TableWith returns a new table of all kinds that is not all defaults.
func TableWith(o Options) *kinds.Table {
	return kinds.NewTable(
		core.Binding(),
		core.ComponentStatus(),
		core.ConfigMap(),
		core.Endpoints(),
		core.Event(o.EventTTL),
		core.LimitRange(),
		core.Namespace(),
		core.Node(),
		core.PersistentVolume(),
		core.PersistentVolumeClaim(),
		core.Pod(),
		core.PodTemplate(),
		core.ReplicationController(),
		core.ResourceQuota(),
		core.Secret(),
		core.Service(),
		core.ServiceAccount(),

		admissionregistration.MutatingAdmissionPolicy(),
		admissionregistration.MutatingAdmissionPolicyBinding(),
		admissionregistration.MutatingWebhookConfiguration(),
		admissionregistration.ValidatingAdmissionPolicy(),
		admissionregistration.ValidatingAdmissionPolicyBinding(),
		admissionregistration.ValidatingWebhookConfiguration(),

		apiextensions.CustomResourceDefinition(),

		apiregistration.APIService(),

		apps.ControllerRevision(),
		apps.DaemonSet(),
		apps.Deployment(),
		apps.ReplicaSet(),
		apps.StatefulSet(),

		authentication.SelfSubjectReview(),
		authentication.TokenReview(),

		authorization.LocalSubjectAccessReview(),
		authorization.SelfSubjectAccessReview(),
		authorization.SelfSubjectRulesReview(),
		authorization.SubjectAccessReview(),

		autoscaling.HorizontalPodAutoscaler(),
		autoscaling.HorizontalPodAutoscalerV1(),

		batch.CronJob(),
		batch.Job(),

		certificates.CertificateSigningRequest(),
		certificates.ClusterTrustBundle(),
		certificates.PodCertificateRequest(),

		coordination.Lease(),

		discovery.EndpointSlice(),

		events.Event(),

		flowcontrol.FlowSchema(),
		flowcontrol.PriorityLevelConfiguration(),

		networking.Ingress(),
		networking.IngressClass(),
		networking.IPAddress(),
		networking.NetworkPolicy(),
		networking.ServiceCIDR(),

		node.RuntimeClass(),

		policy.PodDisruptionBudget(),

		rbac.ClusterRole(),
		rbac.ClusterRoleBinding(),
		rbac.Role(),
		rbac.RoleBinding(),

		resource.DeviceClass(),
		resource.DeviceTaintRule(),
		resource.ResourceClaim(),
		resource.ResourceClaimTemplate(),
		resource.ResourceSlice(),

		scheduling.PriorityClass(),

		storage.CSIDriver(),
		storage.CSINode(),
		storage.CSIStorageCapacity(),
		storage.StorageClass(),
		storage.VolumeAttachment(),
		storage.VolumeAttributesClass(),

		storagemigration.StorageVersionMigration(),
	)
}
