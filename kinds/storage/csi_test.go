package storage

import (
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type (
	driver   = kindtest.Case[storagev1.CSIDriver]
	csiNode  = kindtest.Case[storagev1.CSINode]
	capacity = kindtest.Case[storagev1.CSIStorageCapacity]
)

const badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func goodDriver() *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}}
	CSIDriver().Default(d)
	return d
}

func TestCSIDriver_Minimal(t *testing.T) {
	kindtest.Minimal(t, CSIDriver(), `{metadata: {name: d}}`,
		`{metadata: {name: d}, spec: {attachRequired: true, podInfoOnMount: false, storageCapacity: false, requiresRepublish: false,
			seLinuxMount: false, fsGroupPolicy: ReadWriteOnceWithFSType, volumeLifecycleModes: [Persistent]}}`)
}

func TestCSIDriver_Create(t *testing.T) {
	spec := func(edit func(*storagev1.CSIDriverSpec)) func(*storagev1.CSIDriver) {
		return func(d *storagev1.CSIDriver) { edit(&d.Spec) }
	}
	kindtest.Create(t, CSIDriver(), goodDriver(),
		driver{
			Name: "policy", Edit: spec(func(s *storagev1.CSIDriverSpec) { s.FSGroupPolicy = kindtest.Ptr(storagev1.FSGroupPolicy("x")) }),
			Want: []string{`spec.fsGroupPolicy: Unsupported value: "x": supported values: "File", "None", "ReadWriteOnceWithFSType"`},
		},
		driver{
			Name: "mode", Edit: spec(func(s *storagev1.CSIDriverSpec) { s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"x", ""} }),
			Want: []string{
				`spec.volumeLifecycleModes: Unsupported value: "x": supported values: "Persistent", "Ephemeral"`,
				`spec.volumeLifecycleModes: Unsupported value: "": supported values: "Persistent", "Ephemeral"`,
			},
		},
		driver{
			Name: "tokens", Edit: spec(func(s *storagev1.CSIDriverSpec) {
				s.TokenRequests = []storagev1.TokenRequest{
					{Audience: "a", ExpirationSeconds: kindtest.Ptr(int64(599))}, {ExpirationSeconds: kindtest.Ptr(int64(1<<32 + 1))}, {Audience: "a"}, {Audience: "b"},
				}
			}),
			Want: []string{
				"spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
				"spec.tokenRequests[1].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
				`spec.tokenRequests[2].audience: Duplicate value: "a"`,
			},
		},
		driver{
			Name: "secrets without tokens", Edit: spec(func(s *storagev1.CSIDriverSpec) { s.ServiceAccountTokenInSecrets = kindtest.Ptr(true) }),
			Want: []string{"spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified"},
		},
		driver{
			Name: "period", Edit: spec(func(s *storagev1.CSIDriverSpec) { s.NodeAllocatableUpdatePeriodSeconds = kindtest.Ptr(int64(9)) }),
			Want: []string{"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds"},
		},
	)
	kindtest.Update(t, CSIDriver(), goodDriver(),
		driver{Name: "mount", Edit: spec(func(s *storagev1.CSIDriverSpec) { s.PodInfoOnMount = kindtest.Ptr(true) })},
		driver{
			Name: "what is fixed", Edit: spec(func(s *storagev1.CSIDriverSpec) {
				s.AttachRequired, s.VolumeLifecycleModes = kindtest.Ptr(false), []storagev1.VolumeLifecycleMode{"Ephemeral"}
			}),
			Want: []string{
				"spec.attachedRequired: Invalid value: false: field is immutable",
				`spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable`,
			},
		},
	)
}

func TestCSIDriver_Row(t *testing.T) {
	d := goodDriver()
	kindtest.Row(t, CSIDriver(), d, time.Now(), "d", true, false, false, "<unset>", false, "Persistent", "<unknown>")
	d.Spec = storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "a"}, {Audience: "b"}}}
	kindtest.Row(t, CSIDriver(), d, time.Now(), "d", true, false, false, "a,b", false, "<none>", "<unknown>")
}

func goodCSINode() *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: "d", NodeID: strings.Repeat("x", 192), TopologyKeys: []string{"zone"}, Allocatable: &storagev1.VolumeNodeResources{Count: kindtest.Ptr(int32(8))},
		}}},
	}
}

func TestCSINode_Minimal(t *testing.T) {
	kindtest.Minimal(t, CSINode(),
		`{metadata: {name: n}, spec: {drivers: [{name: d, nodeID: x}]}, status: {storageHealth: [{name: d}]}}`,
		`{metadata: {name: n}, spec: {drivers: [{name: d, nodeID: x}]}}`)
}

func TestCSINode_Create(t *testing.T) {
	first := func(edit func(*storagev1.CSINodeDriver)) func(*storagev1.CSINode) {
		return func(n *storagev1.CSINode) { edit(&n.Spec.Drivers[0]) }
	}
	kindtest.Create(t, CSINode(), goodCSINode(),
		csiNode{
			Name: "empty driver", Edit: first(func(d *storagev1.CSINodeDriver) { *d = storagev1.CSINodeDriver{} }),
			Want: []string{
				"spec.drivers[0].name: Required value",
				`spec.drivers[0].name: Invalid value: "": ` + badSubdomain,
				"spec.drivers[0].nodeID: Required value",
			},
		},
		csiNode{
			Name: "long id", Edit: first(func(d *storagev1.CSINodeDriver) { d.NodeID += "x" }),
			Want: []string{`spec.drivers[0].nodeID: Invalid value: "` + strings.Repeat("x", 193) + `": must be 192 characters or less`},
		},
		csiNode{
			Name: "count", Edit: first(func(d *storagev1.CSINodeDriver) { *d.Allocatable.Count = -1 }),
			Want: []string{"spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"},
		},
		csiNode{
			Name: "same driver", Edit: func(n *storagev1.CSINode) { n.Spec.Drivers = append(n.Spec.Drivers, n.Spec.Drivers[0]) },
			Want: []string{`spec.drivers[1].name: Duplicate value: "d"`},
		},
		csiNode{
			Name: "keys", Edit: first(func(d *storagev1.CSINodeDriver) { d.TopologyKeys = []string{"a", "a", "-"} }),
			Want: []string{`spec.drivers[0]: Duplicate value: "a"`, `spec.drivers[0]: Invalid value: "-": ` + badQualified},
		},
	)
	old := goodCSINode()
	old.Spec.Drivers[0].NodeID += "x"
	kindtest.Update(t, CSINode(), old,
		csiNode{Name: "count", Edit: first(func(d *storagev1.CSINodeDriver) { d.Allocatable = nil })},
		csiNode{Name: "removed", Edit: func(n *storagev1.CSINode) { n.Spec.Drivers = nil }},
		csiNode{
			Name: "id", Edit: first(func(d *storagev1.CSINodeDriver) { d.NodeID = "y" }),
			Want: []string{`spec.drivers: Invalid value: {"name":"d","nodeID":"y","topologyKeys":["zone"]}: field is immutable`},
		},
	)
}

func TestCSINode_Row(t *testing.T) {
	kindtest.Row(t, CSINode(), goodCSINode(), time.Now(), "n", int64(1), "<unknown>")
}

func TestCSIStorageCapacity(t *testing.T) {
	const minimal = `{metadata: {namespace: default, name: x}, storageClassName: fast}`
	kindtest.Minimal(t, CSIStorageCapacity(), minimal, minimal)
	good := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, StorageClassName: "fast", Capacity: kindtest.Ptr(resource.MustParse("1Gi")),
	}
	kindtest.Create(t, CSIStorageCapacity(), good,
		capacity{
			Name: "no class", Edit: func(c *storagev1.CSIStorageCapacity) { c.StorageClassName = "" },
			Want: []string{`storageClassName: Invalid value: "": ` + badSubdomain},
		},
		capacity{
			Name: "negative", Edit: func(c *storagev1.CSIStorageCapacity) { c.Capacity = kindtest.Ptr(resource.MustParse("-1")) },
			Want: []string{`capacity: Invalid value: "-1": must be greater than or equal to 0`},
		},
		capacity{
			Name: "topology", Edit: func(c *storagev1.CSIStorageCapacity) {
				c.NodeTopology = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
			},
			Want: []string{`nodeTopology.matchExpressions[0].operator: Invalid value: "x": not a valid selector operator`},
		},
	)
	kindtest.Update(t, CSIStorageCapacity(), good,
		capacity{Name: "capacity", Edit: func(c *storagev1.CSIStorageCapacity) { c.Capacity = nil }},
		capacity{
			Name: "what is fixed", Edit: func(c *storagev1.CSIStorageCapacity) {
				c.StorageClassName, c.NodeTopology = "slow", &metav1.LabelSelector{}
			},
			Want: []string{`nodeTopology: Invalid value: {}: field is immutable`, `storageClassName: Invalid value: "slow": field is immutable`},
		},
	)
	kindtest.Row(t, CSIStorageCapacity(), good, time.Now(), "x", "fast", "1Gi")
}
