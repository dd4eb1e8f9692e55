package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var services = Evaluator{
	Resource: schema.GroupResource{Resource: "services"},
	measure:  func(obj runtime.Object, _ time.Time) corev1.ResourceList { return serviceUsage(obj) },
	owns: func(name corev1.ResourceName) bool {
		return name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
	},
	updates: true,
}

// serviceUsage counts ports on the nodes and load balancers.
func serviceUsage(obj runtime.Object) corev1.ResourceList {
	none := *resource.NewQuantity(0, resource.DecimalSI)
	use := corev1.ResourceList{corev1.ResourceServicesNodePorts: none, corev1.ResourceServicesLoadBalancers: none}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return use
	}
	ports := int64(0)
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(service.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		use[corev1.ResourceServicesLoadBalancers] = one()
		if allocate := service.Spec.AllocateLoadBalancerNodePorts; allocate == nil || *allocate {
			ports = int64(len(service.Spec.Ports))
			break
		}
		for i := range service.Spec.Ports {
			if service.Spec.Ports[i].NodePort != 0 {
				ports++
			}
		}
	}
	use[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
	return use
}

// Of a storage class, quotas have names that end so.
const (
	classStorage = ".storageclass.storage.k8s.io/requests.storage"
	classClaims  = ".storageclass.storage.k8s.io/persistentvolumeclaims"
)

var claims = Evaluator{
	Resource: schema.GroupResource{Resource: "persistentvolumeclaims"},
	measure:  func(obj runtime.Object, _ time.Time) corev1.ResourceList { return claimUsage(obj) },
	owns: func(name corev1.ResourceName) bool {
		return name == corev1.ResourceRequestsStorage || strings.HasSuffix(string(name), classStorage) || strings.HasSuffix(string(name), classClaims)
	},
	inScope: claimInScope,
	updates: true,
}

// claimUsage is the storage that a claim requests, or has been promised if that is more, in all and of its class.
func claimUsage(obj runtime.Object) corev1.ResourceList {
	use := corev1.ResourceList{}
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return use
	}
	class := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" && claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	if class != "" {
		use[corev1.ResourceName(class+classClaims)] = one()
	}
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return use
	}
	if promised, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && promised.Cmp(size) > 0 {
		size = promised
	}
	use[corev1.ResourceRequestsStorage] = size
	if class != "" {
		use[corev1.ResourceName(class+classStorage)] = size
	}
	return use
}

// claimInScope knows claims by the class of their volume's attributes: the one that is wanted, the one that is, or the one on the way.
func claimInScope(obj runtime.Object, s corev1.ScopedResourceSelectorRequirement) bool {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false
	}
	names := map[string]bool{}
	add := func(name *string) {
		if name != nil && *name != "" {
			names[*name] = true
		}
	}
	add(claim.Spec.VolumeAttributesClassName)
	add(claim.Status.CurrentVolumeAttributesClassName)
	if m := claim.Status.ModifyVolumeStatus; m != nil {
		add(&m.TargetVolumeAttributesClassName)
	}
	if len(names) == 0 {
		return selects(s, "")
	}
	for name := range names {
		if selects(s, name) {
			return true
		}
	}
	return false
}
