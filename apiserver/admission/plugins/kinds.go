package plugins

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// The resources that plug-ins look at.
var (
	pods            = schema.GroupResource{Resource: "pods"}
	nodes           = schema.GroupResource{Resource: "nodes"}
	namespaces      = schema.GroupResource{Resource: "namespaces"}
	services        = schema.GroupResource{Resource: "services"}
	limitRanges     = schema.GroupResource{Resource: "limitranges"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
	claims          = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes         = schema.GroupResource{Resource: "persistentvolumes"}
	priorityClasses = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
	storageClasses  = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}
	attributes      = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}
	runtimeClasses  = schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	ingresses       = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	ingressClasses  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingressclasses"}
	requests        = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	trustBundles    = schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
)

// on handles operations on one resource itself.
type on struct {
	resource   schema.GroupResource
	operations []admission.Operation
}

// Handles implements admission.Plugin.
func (o on) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return subresource == "" && k.GroupResource() == o.resource && has(o.operations, op)
}

func has(operations []admission.Operation, op admission.Operation) bool {
	for _, each := range operations {
		if each == op {
			return true
		}
	}
	return false
}

// podOf is the pod that is being written.
func podOf(a *admission.Attributes) *corev1.Pod {
	pod, _ := a.Object.(*corev1.Pod)
	return pod
}
