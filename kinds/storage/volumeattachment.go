package storage

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
	"vigil/object"
)

// Limits of what a driver says of an attachment.
const (
	maxAttachmentMetadataBytes = 256 << 10
	maxErrorMessageBytes       = 1024
)

// VolumeAttachment is the row of volume attachments.
func VolumeAttachment() *kinds.Kind {
	spec, source, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentSource{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:      storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
		Resource: "volumeattachments",
		Singular: "volumeattachment",
		Path:     "volumeattachments",
		Type: &object.Type{
			APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment",
			New: func() runtime.Object { return &storagev1.VolumeAttachment{} },
		},
		New:     func() kinds.Object { return &storagev1.VolumeAttachment{} },
		NewList: func() runtime.Object { return &storagev1.VolumeAttachmentList{} },

		PrepareCreate: func(obj kinds.Object) {
			obj.(*storagev1.VolumeAttachment).Status = storagev1.VolumeAttachmentStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*storagev1.VolumeAttachment).Status = *old.(*storagev1.VolumeAttachment).Status.DeepCopy()
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			a := obj.(*storagev1.VolumeAttachment)
			errs := validateAttachment(a)
			if a.Spec.Attacher != "" {
				errs = append(errs, podspec.CSIDriverName(a.Spec.Attacher, field.NewPath("spec", "attacher"))...)
			}
			if name := a.Spec.Source.PersistentVolumeName; name != nil {
				errs = append(errs, validate.Name(*name, field.NewPath("spec", "source", "persistentVolumeName"))...)
			}
			return errs
		},
		ValidateUpdate: validateAttachmentUpdate,
		ReturnsDeleted: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Attacher", spec["attacher"]),
			column.Text("PV", source["persistentVolumeName"]),
			column.Text("Node", spec["nodeName"]),
			column.Boolean("Attached", status["attached"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			a := obj.(*storagev1.VolumeAttachment)
			volume := ""
			if a.Spec.Source.PersistentVolumeName != nil {
				volume = *a.Spec.Source.PersistentVolumeName
			}
			return []any{a.Name, a.Spec.Attacher, volume, a.Spec.NodeName, a.Status.Attached, column.Since(a.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name:  "status",
			Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				a, was := obj.(*storagev1.VolumeAttachment), old.(*storagev1.VolumeAttachment)
				a.Spec = *was.Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(&a.ObjectMeta, &was.ObjectMeta)
			},
			Validate: validateAttachmentUpdate,
		}},
	}
}

func validateAttachmentUpdate(obj, old kinds.Object) field.ErrorList {
	a, was := obj.(*storagev1.VolumeAttachment), old.(*storagev1.VolumeAttachment)
	return append(validateAttachment(a), validate.Immutable(a.Spec, was.Spec, field.NewPath("spec"))...)
}

func validateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if a.Spec.Attacher == "" {
		errs = append(errs, field.Required(path.Child("attacher"), ""))
	}
	errs = append(errs, validateSource(&a.Spec.Source, path.Child("source"))...)
	errs = append(errs, validate.Name(a.Spec.NodeName, path.Child("nodeName"))...)

	path = field.NewPath("status")
	if size(a.Status.AttachmentMetadata) > maxAttachmentMetadataBytes {
		errs = append(errs, field.TooLong(path.Child("attachmentMetadata"), "", maxAttachmentMetadataBytes))
	}
	errs = append(errs, validateVolumeError(a.Status.AttachError, path.Child("attachError"))...)
	return append(errs, validateVolumeError(a.Status.DetachError, path.Child("detachError"))...)
}

func validateSource(source *storagev1.VolumeAttachmentSource, path *field.Path) field.ErrorList {
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	switch inline, name := source.InlineVolumeSpec, source.PersistentVolumeName; {
	case inline == nil && name == nil:
		return field.ErrorList{field.Required(path, one)}
	case inline != nil && name != nil:
		return field.ErrorList{field.Forbidden(path, one)}
	case name != nil && *name == "":
		return field.ErrorList{field.Required(path.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")}
	case inline != nil:
		return validateInline(inline, path.Child("inlineVolumeSpec"))
	}
	return nil
}

// validateInline checks the volume of a pod that is attached through CSI without a persistent volume object: it has a
// CSI source and nothing that only such an object can have.
func validateInline(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	const text = "may not be specified in the context of inline volumes"
	var errs field.ErrorList
	for _, f := range []struct {
		set  bool
		name string
	}{
		{spec.ClaimRef != nil, "claimRef"},
		{len(spec.Capacity) != 0, "capacity"},
		{spec.PersistentVolumeReclaimPolicy != "", "persistentVolumeReclaimPolicy"},
		{spec.NodeAffinity != nil, "nodeAffinity"},
		{spec.StorageClassName != "", "storageClassName"},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), text))
		}
	}
	errs = append(errs, podspec.ValidateAccessModes(spec.AccessModes, "", path.Child("accessModes"))...)
	if spec.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	} else {
		at := path.Child("csi")
		errs = append(errs, podspec.CSIDriverName(spec.CSI.Driver, at.Child("driver"))...)
		if spec.CSI.VolumeHandle == "" {
			errs = append(errs, field.Required(at.Child("volumeHandle"), ""))
		}
	}
	if spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}

// validateVolumeError checks what a driver reports. The limit that the error of a long message names is upstream's.
func validateVolumeError(e *storagev1.VolumeError, path *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxErrorMessageBytes {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxAttachmentMetadataBytes))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}
