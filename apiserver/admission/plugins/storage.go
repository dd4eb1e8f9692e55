package plugins

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

const (
	defaultStorageClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultStorageClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// DefaultStorageClass gives claims that say nothing about it the storage class that is marked as the default.
type DefaultStorageClass struct {
	on
	Reader admission.Reader
}

// Name implements admission.Plugin.
func (DefaultStorageClass) Name() string { return "DefaultStorageClass" }

// Admit implements admission.Mutator.
func (p DefaultStorageClass) Admit(ctx context.Context, a *admission.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return nil
	}
	list, err := p.Reader.List(ctx, storageClasses, "")
	if err != nil {
		return admission.Forbidden(a, err)
	}
	if class := newestDefault(list, defaultStorageClass, betaDefaultStorageClass); class != nil {
		name := class.GetName()
		claim.Spec.StorageClassName = &name
	}
	return nil
}

// newestDefault is the class that one of the annotations marks as the default: of several the newest, then the first by name. Nil
// when there is none.
func newestDefault(classes []kinds.Object, annotations ...string) kinds.Object {
	defaults := slices.DeleteFunc(slices.Clone(classes), func(class kinds.Object) bool {
		return !slices.ContainsFunc(annotations, func(key string) bool { return class.GetAnnotations()[key] == "true" })
	})
	if len(defaults) == 0 {
		return nil
	}
	return slices.MinFunc(defaults, func(a, b kinds.Object) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// StorageObjectInUseProtection gives claims, volumes and classes of volume attributes the finalizers that hold them as long as
// they are in use. A controller takes them away.
type StorageObjectInUseProtection struct{}

// protection are the finalizers by resource.
var protection = map[schema.GroupResource]string{
	claims:     "kubernetes.io/pvc-protection",
	volumes:    "kubernetes.io/pv-protection",
	attributes: "kubernetes.io/vac-protection",
}

// Name implements admission.Plugin.
func (StorageObjectInUseProtection) Name() string { return "StorageObjectInUseProtection" }

// Handles implements admission.Plugin.
func (StorageObjectInUseProtection) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return protection[k.GroupResource()] != "" && subresource == "" && op == admission.Create
}

// Admit implements admission.Mutator.
func (StorageObjectInUseProtection) Admit(_ context.Context, a *admission.Attributes) error {
	obj, ok := a.Object.(metav1.Object)
	if finalizer := protection[a.Resource()]; ok && !slices.Contains(obj.GetFinalizers(), finalizer) {
		obj.SetFinalizers(append(obj.GetFinalizers(), finalizer))
	}
	return nil
}

// PersistentVolumeClaimResize lets only claims grow whose storage class can do that.
type PersistentVolumeClaimResize struct {
	on
	Reader admission.Reader
}

// Name implements admission.Plugin.
func (PersistentVolumeClaimResize) Name() string { return "PersistentVolumeClaimResize" }

// Validate implements admission.Validator.
func (p PersistentVolumeClaimResize) Validate(ctx context.Context, a *admission.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	old, was := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok || !was {
		return nil
	}
	size, before := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case size.Cmp(before) <= 0:
		return nil
	case old.Status.Phase != corev1.ClaimBound:
		return admission.Refuse(a, "Only bound persistent volume claims can be expanded")
	case !p.expandable(ctx, claim):
		return admission.Refuse(a, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

func (p PersistentVolumeClaimResize) expandable(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if !ok && claim.Spec.StorageClassName != nil {
		name = *claim.Spec.StorageClassName
	}
	if name == "" {
		return false
	}
	obj, err := p.Reader.Get(ctx, storageClasses, "", name)
	if err != nil {
		return false
	}
	expand := obj.(*storagev1.StorageClass).AllowVolumeExpansion
	return expand != nil && *expand
}
