package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
	"vigil/object"
)

// mountOptionsAnnotation is where mount options were before spec.mountOptions.
const mountOptionsAnnotation = "volume.beta.kubernetes.io/mount-options"

// PersistentVolume is the row of persistent volumes.
func PersistentVolume() *kinds.Kind {
	spec := corev1.PersistentVolumeSpec{}.SwaggerDoc()
	status := corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
		Resource:   "persistentvolumes",
		Singular:   "persistentvolume",
		ShortNames: []string{"pv"},
		Path:       "persistentvolumes",
		Type: &object.Type{
			APIVersion: "v1", Kind: "PersistentVolume",
			New: func() runtime.Object { return &corev1.PersistentVolume{} },
		},
		New:     func() kinds.Object { return &corev1.PersistentVolume{} },
		NewList: func() runtime.Object { return &corev1.PersistentVolumeList{} },

		Default: func(obj kinds.Object) { defaultVolume(obj.(*corev1.PersistentVolume)) },
		PrepareCreate: func(obj kinds.Object) {
			now := metav1.Now().Rfc3339Copy()
			obj.(*corev1.PersistentVolume).Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*corev1.PersistentVolume).Status = *old.(*corev1.PersistentVolume).Status.DeepCopy()
		},
		Validate: func(obj kinds.Object) field.ErrorList { return validateVolume(obj.(*corev1.PersistentVolume)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateVolumeUpdate(obj.(*corev1.PersistentVolume), old.(*corev1.PersistentVolume))
		},
		Warnings: func(obj, _ kinds.Object) []string { return volumeWarnings(obj.(*corev1.PersistentVolume)) },

		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Capacity", spec["capacity"]),
			column.Text("Access Modes", spec["accessModes"]),
			column.Text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
			column.Text("Status", status["phase"]),
			column.Text("Claim", spec["claimRef"]),
			column.Text("StorageClass", spec["storageClassName"]),
			column.Text("VolumeAttributesClass", spec["volumeAttributesClassName"]),
			column.Text("Reason", status["reason"]),
			column.Age(),
			column.Wide(column.Text("VolumeMode", spec["volumeMode"])),
		},
		Row: func(obj kinds.Object, now time.Time) []any { return volumeRow(obj.(*corev1.PersistentVolume), now) },

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				prepareVolumeStatus(obj.(*corev1.PersistentVolume), old.(*corev1.PersistentVolume))
			},
		}},
	}
}

func defaultVolume(pv *corev1.PersistentVolume) {
	if pv.Status.Phase == "" {
		pv.Status.Phase = corev1.VolumePending
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == "" {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	defaultVolumeMode(&pv.Spec.VolumeMode)
	podspec.DefaultVolumeSource(&pv.Spec.PersistentVolumeSource)
	roundUp(pv.Spec.Capacity)
}

func defaultVolumeMode(mode **corev1.PersistentVolumeMode) {
	if *mode == nil {
		filesystem := corev1.PersistentVolumeFilesystem
		*mode = &filesystem
	}
}

// prepareVolumeStatus notes when the phase changed, unless the client says so itself.
func prepareVolumeStatus(pv, old *corev1.PersistentVolume) {
	pv.Spec = *old.Spec.DeepCopy()
	if pv.Status.Phase == old.Status.Phase {
		return
	}
	if t, was := pv.Status.LastPhaseTransitionTime, old.Status.LastPhaseTransitionTime; t.IsZero() || t.Equal(was) {
		now := metav1.Now().Rfc3339Copy()
		pv.Status.LastPhaseTransitionTime = &now
	}
}

func validateVolume(pv *corev1.PersistentVolume) field.ErrorList {
	return podspec.ValidateVolumeSpec(&pv.Spec, pv.Name, false, field.NewPath("spec"))
}

func validateVolumeUpdate(pv, old *corev1.PersistentVolume) field.ErrorList {
	errs := validateVolume(pv)
	source, was := pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if source.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		csi := *source.CSI // the secret may be set later
		csi.ControllerExpandSecretRef = nil
		source.CSI = &csi
	}
	if !equality.Semantic.DeepEqual(source, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", cmp.Diff(was, source))))
	}
	errs = append(errs, validate.Immutable(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, validate.Immutable(pv.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("nodeAffinity"))...)
	}
	if old.Spec.VolumeAttributesClassName != nil && pv.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// volumeWarnings tell of what works no more, or will not.
func volumeWarnings(pv *corev1.PersistentVolume) []string {
	var warnings []string
	annotations := field.NewPath("metadata", "annotations")
	for _, a := range []struct{ key, text string }{
		{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{mountOptionsAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, ok := pv.Annotations[a.key]; ok {
			warnings = append(warnings, annotations.Key(a.key).String()+": "+a.text)
		}
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "+
			"Instead, the recommended approach is to use dynamic provisioning.")
	}
	for _, s := range []struct {
		name string
		set  bool
		text string
	}{
		{"cephfs", pv.Spec.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
		{"photonPersistentDisk", pv.Spec.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
		{"rbd", pv.Spec.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		{"scaleIO", pv.Spec.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
		{"storageOS", pv.Spec.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
		{"glusterfs", pv.Spec.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
	} {
		if s.set {
			warnings = append(warnings, "spec."+s.name+": "+s.text)
		}
	}
	return warnings
}

func volumeRow(pv *corev1.PersistentVolume, now time.Time) []any {
	phase := string(pv.Status.Phase)
	if pv.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	var claim string
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	class := pv.Spec.StorageClassName
	if beta, ok := pv.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		class = beta
	}
	return []any{
		pv.Name, size.String(), accessModes(pv.Spec.AccessModes), string(pv.Spec.PersistentVolumeReclaimPolicy), phase, claim, class,
		orUnset(pv.Spec.VolumeAttributesClassName), pv.Status.Reason, column.Since(pv.CreationTimestamp, now), orUnset(pv.Spec.VolumeMode),
	}
}

// accessModes are the short forms of access modes, in the order of their strength.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var texts []string
	for _, m := range []struct {
		mode corev1.PersistentVolumeAccessMode
		text string
	}{
		{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, m.mode) {
			texts = append(texts, m.text)
		}
	}
	return strings.Join(texts, ",")
}

func orUnset[T ~string](value *T) string {
	if value == nil {
		return "<unset>"
	}
	return string(*value)
}
