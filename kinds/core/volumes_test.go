package core

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// volume is a minimal valid persistent volume, changed.
func volume(change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	PersistentVolume().Default(pv)
	for _, f := range change {
		f(pv)
	}
	return pv
}

func TestPersistentVolume_Defaults(t *testing.T) {
	pv := volume()
	want := pv.DeepCopy()
	want.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	want.Spec.VolumeMode = ptr(corev1.PersistentVolumeFilesystem)
	want.Spec.HostPath.Type = ptr(corev1.HostPathUnset)
	want.Status.Phase = corev1.VolumePending
	wantSame(t, "defaults", want, pv)
}

func TestPersistentVolume_Validate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   []string
	}{
		"minimal": {change: func(*corev1.PersistentVolume) {}},
		"nothing": {
			change: func(pv *corev1.PersistentVolume) { pv.Spec = corev1.PersistentVolumeSpec{} },
			want: []string{
				"spec.accessModes: Required value", "spec.capacity: Required value",
				`spec.capacity: Unsupported value: null: supported values: "storage"`, "spec: Required value: must specify a volume type",
			},
		},
		"no size": {
			change: func(pv *corev1.PersistentVolume) { pv.Spec.Capacity = storage("0") },
			want:   []string{`spec.capacity[storage]: Invalid value: "0": must be greater than zero`},
		},
		"modes": {
			change: func(pv *corev1.PersistentVolume) {
				pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.ReadWriteOncePod, "X")
			},
			want: []string{
				`spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
				"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
			},
		},
		"two sources": {
			change: func(pv *corev1.PersistentVolume) { pv.Spec.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/"} },
			want:   []string{"spec.nfs: Forbidden: may not specify more than 1 volume type"},
		},
		"recycled root": {
			change: func(pv *corev1.PersistentVolume) {
				pv.Spec.HostPath.Path, pv.Spec.PersistentVolumeReclaimPolicy = "/", corev1.PersistentVolumeReclaimRecycle
			},
			want: []string{"spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"},
		},
		"enumerations": {
			change: func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.VolumeMode = "Keep", ptr(corev1.PersistentVolumeMode("Tape"))
				pv.Spec.StorageClassName = "A_"
			},
			want: []string{
				`spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Recycle", "Retain"`,
				`spec.storageClassName: Invalid value: "A_"`,
				`spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`,
			},
		},
		"local": {
			change: func(pv *corev1.PersistentVolume) {
				pv.Spec.HostPath, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/a/../b"}
			},
			want: []string{
				`spec.local.path: Invalid value: "/a/../b": must not contain '..'`,
				"spec.nodeAffinity: Required value: Local volume requires node affinity",
			},
		},
		"affinity without terms": {
			change: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} },
			want:   []string{"spec.nodeAffinity.required: Required value: must specify required node constraints"},
		},
		"csi": {
			change: func(pv *corev1.PersistentVolume) {
				pv.Spec.HostPath = nil
				pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", NodePublishSecretRef: &corev1.SecretReference{}}
			},
			want: []string{
				"spec.csi.volumeHandle: Required value", "spec.csi.nodePublishSecretRef.name: Required value",
				"spec.csi.nodePublishSecretRef.namespace: Required value",
			},
		},
		"attributes class": {
			change: func(pv *corev1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = ptr("") },
			want: []string{
				"spec.volumeAttributesClassName: Required value: an empty string is disallowed",
				"spec.csi: Required value: has to be specified when using volumeAttributesClassName",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantPrefixes(t, errorTexts(PersistentVolume().Validate(volume(tc.change))), tc.want)
		})
	}
}

func TestPersistentVolume_Update(t *testing.T) {
	csi := func(pv *corev1.PersistentVolume) {
		pv.Spec.HostPath, pv.Spec.CSI = nil, &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
	}
	old, withCSI := volume(), volume(csi)
	withCSI.Spec.VolumeAttributesClassName = ptr("fast")
	for name, tc := range map[string]struct {
		old  *corev1.PersistentVolume
		new  *corev1.PersistentVolume
		want []string
	}{
		"size, class": {old: old, new: volume(func(pv *corev1.PersistentVolume) { pv.Spec.Capacity, pv.Spec.StorageClassName = storage("2Gi"), "x" })},
		"source": {
			old: old, new: volume(func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = "/x" }),
			want: []string{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"},
		},
		"expand secret": {old: withCSI, new: volume(csi, func(pv *corev1.PersistentVolume) {
			pv.Spec.VolumeAttributesClassName = ptr("slow")
			pv.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "n", Namespace: "ns"}
		})},
		"attributes class": {old: withCSI, new: volume(csi), want: []string{"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"}},
		"mode": {
			old: old, new: volume(func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = ptr(corev1.PersistentVolumeBlock) }),
			want: []string{`volumeMode: Invalid value: "Block": field is immutable`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantPrefixes(t, errorTexts(PersistentVolume().ValidateUpdate(tc.new, tc.old)), tc.want)
		})
	}
}

func TestPersistentVolume_Status(t *testing.T) {
	row := PersistentVolume()
	old := volume()
	row.PrepareCreate(old)
	if old.Status.Phase != corev1.VolumePending || old.Status.LastPhaseTransitionTime.IsZero() {
		t.Errorf("created: %+v", old.Status)
	}
	past := metav1.NewTime(time.Unix(1, 0))
	old.Status.LastPhaseTransitionTime = &past
	bound := old.DeepCopy()
	bound.Status.Phase, bound.Spec.StorageClassName = corev1.VolumeBound, "other"
	row.Subresource("status").Prepare(bound, old)
	if bound.Status.LastPhaseTransitionTime.Equal(&past) || bound.Spec.StorageClassName != "" {
		t.Errorf("bound: %+v", bound)
	}
}

func TestPersistentVolume_Row(t *testing.T) {
	pv := volume(func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOnce}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c"}
		pv.Spec.StorageClassName, pv.Status.Phase = "fast", corev1.VolumeBound
	})
	wantSame(t, "row", []any{"pv", "1Gi", "RWO,RWX", "Retain", "Bound", "ns/c", "fast", "<unset>", "", "<unknown>", "Filesystem"},
		PersistentVolume().Row(pv, time.Now()))
}

// claim is a minimal valid claim, changed.
func claim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: storage("2Gi")},
		},
	}
	PersistentVolumeClaim().Default(c)
	for _, f := range change {
		f(c)
	}
	return c
}

func TestPersistentVolumeClaim_Defaults(t *testing.T) {
	c := claim()
	want := c.DeepCopy()
	want.Spec.VolumeMode, want.Status.Phase = ptr(corev1.PersistentVolumeFilesystem), corev1.ClaimPending
	wantSame(t, "defaults", want, c)
}

func TestPersistentVolumeClaim_DataSource(t *testing.T) {
	group := "snapshot.storage.k8s.io"
	snapshot := &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "s"}
	ref := &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "s"}
	other := &corev1.TypedLocalObjectReference{APIGroup: ptr("example.com"), Kind: "Seed", Name: "s"}
	otherRef := &corev1.TypedObjectReference{APIGroup: ptr("example.com"), Kind: "Seed", Name: "s"}
	for name, tc := range map[string]struct {
		source     *corev1.TypedLocalObjectReference
		ref        *corev1.TypedObjectReference
		wantSource *corev1.TypedLocalObjectReference
		wantRef    *corev1.TypedObjectReference
	}{
		"none":            {},
		"source":          {source: snapshot, wantSource: snapshot, wantRef: ref},
		"reference":       {ref: otherRef, wantSource: other, wantRef: otherRef},
		"unknown source":  {source: other},
		"other namespace": {ref: &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "c", Namespace: ptr("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource, c.Spec.DataSourceRef = tc.source, tc.ref })
			PersistentVolumeClaim().Drop(c, nil)
			PersistentVolumeClaim().PrepareCreate(c)
			wantSame(t, "source", tc.wantSource, c.Spec.DataSource)
			wantSame(t, "reference", tc.wantRef, c.Spec.DataSourceRef)
		})
	}
}

func TestPersistentVolumeClaim_Update(t *testing.T) {
	bound := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = "pv", corev1.ClaimBound, storage("1Gi")
	}
	size := func(s string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = storage(s) }
	}
	const fixed = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
	for name, tc := range map[string]struct {
		old, new *corev1.PersistentVolumeClaim
		want     []string
	}{
		"bind":        {old: claim(), new: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })},
		"rebind":      {old: claim(bound), new: claim(bound, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" }), want: []string{fixed}},
		"grow":        {old: claim(bound), new: claim(bound, size("3Gi"))},
		"grow early":  {old: claim(), new: claim(size("3Gi")), want: []string{fixed}},
		"shrink back": {old: claim(bound, size("3Gi")), new: claim(bound, size("2Gi"))},
		"shrink": {
			old: claim(bound), new: claim(bound, size("1Gi")),
			want: []string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"},
		},
		"class once": {old: claim(), new: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr("x") })},
		"class twice": {
			old:  claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr("x") }),
			new:  claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr("y") }),
			want: []string{fixed},
		},
		"attributes": {
			old:  claim(bound, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr("a") }),
			new:  claim(bound),
			want: []string{fixed, "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"},
		},
		"modes": {old: claim(), new: claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = nil }), want: []string{
			"spec.accessModes: Required value: at least 1 access mode is required", fixed,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantPrefixes(t, errorTexts(PersistentVolumeClaim().ValidateUpdate(tc.new, tc.old)), tc.want)
		})
	}
}

func TestPersistentVolumeClaim_Status(t *testing.T) {
	c := claim(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("1")}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": "Stuck"}
		c.Status.Capacity = storage("-1")
	})
	wantPrefixes(t, errorTexts(PersistentVolumeClaim().Subresource("status").Validate(c, claim())), []string{
		"status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
		`status.allocatedResourceStatus: Unsupported value: "storage": supported values: "ControllerResizeInProgress"`,
		`status.allocatedResources: Unsupported value: "cpu": supported values: "storage"`,
	})
}

func TestPersistentVolumeClaim_Row(t *testing.T) {
	c := claim(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Spec.StorageClassName = "pv", ptr("fast")
		c.Status.Phase, c.Status.Capacity, c.Status.AccessModes = corev1.ClaimBound, storage("5Gi"), c.Spec.AccessModes
	})
	wantSame(t, "bound", []any{"c", "Bound", "pv", "5Gi", "RWO", "fast", "<unset>", "<unknown>", "Filesystem"}, PersistentVolumeClaim().Row(c, time.Now()))
	wantSame(t, "pending", []any{"c", "Pending", "", "", "", "", "<unset>", "<unknown>", "Filesystem"}, PersistentVolumeClaim().Row(claim(), time.Now()))
}

// wantPrefixes compares texts of which only the beginnings matter.
func wantPrefixes(t *testing.T, got, want []string) {
	t.Helper()
	for i := range got {
		if i < len(want) && strings.HasPrefix(got[i], want[i]) {
			got[i] = want[i]
		}
	}
	wantSame(t, "errors", want, got)
}
