package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type attachment = kindtest.Case[storagev1.VolumeAttachment]

func goodAttachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: kindtest.Ptr("pv")}},
	}
}

func TestVolumeAttachment_Minimal(t *testing.T) {
	kindtest.Minimal(t, VolumeAttachment(),
		`{metadata: {name: x}, spec: {attacher: d, nodeName: n, source: {persistentVolumeName: pv}}, status: {attached: true}}`,
		`{metadata: {name: x}, spec: {attacher: d, nodeName: n, source: {persistentVolumeName: pv}}, status: {attached: false}}`)
}

func TestVolumeAttachment_Create(t *testing.T) {
	source := func(s storagev1.VolumeAttachmentSource) func(*storagev1.VolumeAttachment) {
		return func(a *storagev1.VolumeAttachment) { a.Spec.Source = s }
	}
	kindtest.Create(t, VolumeAttachment(), goodAttachment(),
		attachment{
			Name: "empty", Edit: func(a *storagev1.VolumeAttachment) { a.Spec = storagev1.VolumeAttachmentSpec{} },
			Want: []string{
				"spec.attacher: Required value",
				"spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
				`spec.nodeName: Invalid value: "": ` + badSubdomain,
			},
		},
		attachment{
			Name: "attacher", Edit: func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = "-" },
			Want: []string{`spec.attacher: Invalid value: "-": ` + badSubdomain},
		},
		attachment{
			Name: "two sources", Edit: source(storagev1.VolumeAttachmentSource{PersistentVolumeName: kindtest.Ptr("pv"), InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}),
			Want: []string{"spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"},
		},
		attachment{
			Name: "volume name", Edit: source(storagev1.VolumeAttachmentSource{PersistentVolumeName: kindtest.Ptr("A")}),
			Want: []string{`spec.source.persistentVolumeName: Invalid value: "A": ` + badSubdomain},
		},
		attachment{Name: "inline", Edit: source(storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		}})},
		attachment{
			Name: "bad inline", Edit: source(storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{}, StorageClassName: "x", VolumeMode: kindtest.Ptr(corev1.PersistentVolumeBlock),
			}}),
			Want: []string{
				"spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline volumes",
				"spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes",
				"spec.source.inlineVolumeSpec.accessModes: Required value",
				"spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
				"spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
			},
		},
	)
}

func TestVolumeAttachment_Update(t *testing.T) {
	kindtest.Update(t, VolumeAttachment(), goodAttachment(), attachment{
		Name: "node", Edit: func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "m" },
		Want: []string{`spec: Invalid value: {"attacher":"d","source":{"persistentVolumeName":"pv"},"nodeName":"m"}: field is immutable`},
	})
	kindtest.UpdateSubresource(t, VolumeAttachment(), "status", goodAttachment(),
		attachment{Name: "attached", Edit: func(a *storagev1.VolumeAttachment) { a.Spec.NodeName, a.Status.Attached = "m", true }},
		attachment{
			Name: "errors", Edit: func(a *storagev1.VolumeAttachment) {
				a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1025)}
				a.Status.DetachError = &storagev1.VolumeError{ErrorCode: kindtest.Ptr(int32(-1))}
				a.Status.AttachmentMetadata = many(2, 128<<10+1)
			},
			Want: []string{
				"status.attachmentMetadata: Too long: may not be more than 262144 bytes",
				"status.attachError.message: Too long: may not be more than 262144 bytes",
				"status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			},
		},
	)
	obj, old := goodAttachment(), goodAttachment()
	obj.Labels, obj.Spec.NodeName, obj.Status.Attached = map[string]string{"a": "b"}, "m", true
	kindtest.Change(VolumeAttachment(), "status", obj, old)
	old.Status.Attached = true
	if diff := cmp.Diff(old, obj); diff != "" {
		t.Errorf("after a change of the status (-want +got):\n%s", diff)
	}
}

func TestVolumeAttachment_Row(t *testing.T) {
	kindtest.Row(t, VolumeAttachment(), goodAttachment(), time.Now(), "x", "d", "pv", "n", false, "<unknown>")
}
