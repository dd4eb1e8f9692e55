package core

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// PersistentVolumeClaim is the row of claims on persistent volumes.
func PersistentVolumeClaim() *kinds.Kind {
	spec := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()
	status := corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		Resource:   "persistentvolumeclaims",
		Singular:   "persistentvolumeclaim",
		ShortNames: []string{"pvc"},
		Namespaced: true,
		Path:       "persistentvolumeclaims",
		Type: &object.Type{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespaced: true,
			New: func() runtime.Object { return &corev1.PersistentVolumeClaim{} },
		},
		New:     func() kinds.Object { return &corev1.PersistentVolumeClaim{} },
		NewList: func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },

		Default: func(obj kinds.Object) { defaultClaim(obj.(*corev1.PersistentVolumeClaim)) },
		Drop: func(obj, old kinds.Object) []string {
			var was *corev1.PersistentVolumeClaimSpec
			if old != nil {
				was = &old.(*corev1.PersistentVolumeClaim).Spec
			}
			return dropCrossNamespace(&obj.(*corev1.PersistentVolumeClaim).Spec, was)
		},
		PrepareCreate: func(obj kinds.Object) {
			claim := obj.(*corev1.PersistentVolumeClaim)
			claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			prepareDataSource(&claim.Spec, nil)
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			claim, was := obj.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim)
			claim.Status = *was.Status.DeepCopy()
			prepareDataSource(&claim.Spec, &was.Spec)
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			return podspec.ValidateClaimSpec(&obj.(*corev1.PersistentVolumeClaim).Spec, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateClaimUpdate(obj.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim))
		},
		Warnings: func(obj, _ kinds.Object) []string {
			return podspec.WarningsForClaimSpec(&obj.(*corev1.PersistentVolumeClaim).Spec, field.NewPath("spec"))
		},

		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Status", status["phase"]),
			column.Text("Volume", spec["volumeName"]),
			column.Text("Capacity", status["capacity"]),
			column.Text("Access Modes", status["accessModes"]),
			column.Text("StorageClass", spec["storageClassName"]),
			column.Text("VolumeAttributesClass", spec["volumeAttributesClassName"]),
			column.Age(),
			column.Wide(column.Text("VolumeMode", spec["volumeMode"])),
		},
		Row: func(obj kinds.Object, now time.Time) []any { return claimRow(obj.(*corev1.PersistentVolumeClaim), now) },

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*corev1.PersistentVolumeClaim).Spec = *old.(*corev1.PersistentVolumeClaim).Spec.DeepCopy()
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				return validateClaimStatus(&obj.(*corev1.PersistentVolumeClaim).Status)
			},
		}},
	}
}

func defaultClaim(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase == "" {
		claim.Status.Phase = corev1.ClaimPending
	}
	podspec.DefaultClaimSpec(&claim.Spec)
	roundUp(claim.Status.Capacity)
	roundUp(claim.Status.AllocatedResources)
}

// dropCrossNamespace clears a reference to a source of data in another namespace, whose feature is off, unless old (nil on create) has one.
func dropCrossNamespace(spec, old *corev1.PersistentVolumeClaimSpec) []string {
	if !crosses(spec) || crosses(old) {
		return nil
	}
	spec.DataSourceRef = nil
	return []string{podspec.DroppedWarning(field.NewPath("spec", "dataSourceRef"), "CrossNamespaceVolumeDataSource")}
}

// crosses says whether a claim (nil: none) is to be filled from another namespace.
func crosses(s *corev1.PersistentVolumeClaimSpec) bool {
	return s != nil && s.DataSourceRef != nil && s.DataSourceRef.Namespace != nil && *s.DataSourceRef.Namespace != ""
}

// prepareDataSource makes dataSource and dataSourceRef say the same (KEP-1495). dataSource takes only claims and snapshots,
// in silence. What old has may stay.
func prepareDataSource(spec, old *corev1.PersistentVolumeClaimSpec) {
	if old == nil || old.DataSource == nil && old.DataSourceRef == nil {
		if s := spec.DataSource; s != nil && !claimOrSnapshot(s) {
			spec.DataSource = nil
		}
	}
	switch source, ref := spec.DataSource, spec.DataSourceRef; {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil && !crosses(spec):
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

func claimOrSnapshot(source *corev1.TypedLocalObjectReference) bool {
	var group string
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	return source.Kind == "PersistentVolumeClaim" && group == "" || source.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

func claimRow(claim *corev1.PersistentVolumeClaim, now time.Time) []any {
	phase := string(claim.Status.Phase)
	if claim.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	var capacity, modes string
	if claim.Spec.VolumeName != "" {
		size := claim.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = size.String(), accessModes(claim.Status.AccessModes)
	}
	var class string
	if beta, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		class = beta
	} else if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return []any{
		claim.Name, phase, claim.Spec.VolumeName, capacity, modes, class, orUnset(claim.Spec.VolumeAttributesClassName),
		column.Since(claim.CreationTimestamp, now), orUnset(claim.Spec.VolumeMode),
	}
}

// resizeStates are the states of a resize, sorted as error texts show them.
var resizeStates = slices.Sorted(slices.Values([]corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
	corev1.PersistentVolumeClaimNodeResizeInfeasible,
}))
