package storage

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type (
	class           = kindtest.Case[storagev1.StorageClass]
	attributesClass = kindtest.Case[storagev1.VolumeAttributesClass]
)

const badQualified = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`

func goodClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/Disk",
		ReclaimPolicy: kindtest.Ptr(corev1.PersistentVolumeReclaimDelete), VolumeBindingMode: kindtest.Ptr(storagev1.VolumeBindingImmediate),
	}
}

// many returns a map of n entries of size bytes each.
func many(n, size int) map[string]string {
	m := map[string]string{}
	for i := range n {
		key := strconv.Itoa(i)
		m[key] = strings.Repeat("x", size-len(key))
	}
	return m
}

func TestStorageClass_Minimal(t *testing.T) {
	kindtest.Minimal(t, StorageClass(), `{metadata: {name: x}, provisioner: p}`,
		`{metadata: {name: x}, provisioner: p, reclaimPolicy: Delete, volumeBindingMode: Immediate}`)
}

func TestStorageClass_Create(t *testing.T) {
	topology := func(terms ...[]corev1.TopologySelectorLabelRequirement) func(*storagev1.StorageClass) {
		return func(c *storagev1.StorageClass) {
			for _, term := range terms {
				c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{MatchLabelExpressions: term})
			}
		}
	}
	zone := corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a", "b"}}
	kindtest.Create(t, StorageClass(), goodClass(),
		class{
			Name: "no provisioner", Edit: func(c *storagev1.StorageClass) { c.Provisioner = "" },
			Want: []string{"provisioner: Required value"},
		},
		class{
			Name: "provisioner", Edit: func(c *storagev1.StorageClass) { c.Provisioner = "-" },
			Want: []string{`provisioner: Invalid value: "-": ` + badQualified},
		},
		class{
			Name: "policy", Edit: func(c *storagev1.StorageClass) {
				c.ReclaimPolicy = kindtest.Ptr(corev1.PersistentVolumeReclaimRecycle)
			},
			Want: []string{`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`},
		},
		class{
			Name: "mode", Edit: func(c *storagev1.StorageClass) { c.VolumeBindingMode = kindtest.Ptr(storagev1.VolumeBindingMode("")) },
			Want: []string{`volumeBindingMode: Unsupported value: "": supported values: "Immediate", "WaitForFirstConsumer"`},
		},
		class{
			Name: "empty key", Edit: func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"": "x"} },
			Want: []string{`parameters: Invalid value: "": field can not be empty.`},
		},
		class{Name: "most parameters", Edit: func(c *storagev1.StorageClass) { c.Parameters = many(512, 512) }},
		class{
			Name: "many parameters", Edit: func(c *storagev1.StorageClass) { c.Parameters = many(513, 10) },
			Want: []string{`parameters: Too long: may not be more than 512 bytes`},
		},
		class{
			Name: "large parameters", Edit: func(c *storagev1.StorageClass) { c.Parameters = many(512, 513) },
			Want: []string{`parameters: Too long: may not be more than 262144 bytes`},
		},
		class{Name: "topology", Edit: topology([]corev1.TopologySelectorLabelRequirement{zone}, []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}})},
		class{
			Name: "same topology", Edit: topology([]corev1.TopologySelectorLabelRequirement{zone}, []corev1.TopologySelectorLabelRequirement{zone}),
			Want: []string{`allowedTopologies[1].matchLabelExpressions: Duplicate value: ""`},
		},
		class{
			Name: "empty topology", Edit: topology(nil),
			Want: []string{`allowedTopologies[0].matchLabelExpressions: Duplicate value: ""`},
		},
		class{
			Name: "expressions", Edit: topology([]corev1.TopologySelectorLabelRequirement{{Key: "a"}, {Key: "a", Values: []string{"b", "b"}}, {Key: "-", Values: []string{"b"}}}),
			Want: []string{
				`allowedTopologies[0].matchLabelExpressions[0].values: Required value`,
				`allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: "b"`,
				`allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"`,
				`allowedTopologies[0].matchLabelExpressions[2].key: Invalid value: "-": ` + badQualified,
			},
		},
	)
}

func TestStorageClass_Update(t *testing.T) {
	kindtest.Update(t, StorageClass(), goodClass(),
		class{Name: "expansion", Edit: func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = kindtest.Ptr(true) }},
		class{
			Name: "what is fixed", Edit: func(c *storagev1.StorageClass) {
				c.Parameters, c.Provisioner = map[string]string{"a": "b"}, "x"
				c.ReclaimPolicy, c.VolumeBindingMode = kindtest.Ptr(corev1.PersistentVolumeReclaimRetain), kindtest.Ptr(storagev1.VolumeBindingWaitForFirstConsumer)
			},
			Want: []string{
				"parameters: Forbidden: updates to parameters are forbidden.",
				"provisioner: Forbidden: updates to provisioner are forbidden.",
				"reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.",
				`volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`,
			},
		},
	)
}

func TestStorageClass_Row(t *testing.T) {
	c := goodClass()
	c.Annotations = map[string]string{DefaultClassAnnotation: "true"}
	kindtest.Row(t, StorageClass(), c, time.Now(), "fast (default)", "example.com/Disk", "Delete", "Immediate", false, "<unknown>")
	*c = storagev1.StorageClass{AllowVolumeExpansion: kindtest.Ptr(true)}
	kindtest.Row(t, StorageClass(), c, time.Now(), "", "", "Delete", "Immediate", true, "<unknown>")
}

func TestVolumeAttributesClass(t *testing.T) {
	const minimal = `{metadata: {name: x}, driverName: d, parameters: {a: b}}`
	kindtest.Minimal(t, VolumeAttributesClass(), minimal, minimal)
	good := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "x"}, DriverName: "d", Parameters: map[string]string{"a": "b"}}
	kindtest.Create(t, VolumeAttributesClass(), good, attributesClass{
		Name: "nothing", Edit: func(c *storagev1.VolumeAttributesClass) { c.DriverName, c.Parameters = "", nil },
		Want: []string{"driverName: Required value", "parameters: Required value: must contain at least one key/value pair"},
	})
	kindtest.Update(t, VolumeAttributesClass(), good, attributesClass{
		Name: "what is fixed", Edit: func(c *storagev1.VolumeAttributesClass) { c.DriverName, c.Parameters["a"] = "e", "c" },
		Want: []string{"driverName: Forbidden: updates to driverName are forbidden.", "parameters: Forbidden: updates to parameters are forbidden."},
	})
	kindtest.Row(t, VolumeAttributesClass(), good, time.Now(), "x", "d", "<unknown>")
}
