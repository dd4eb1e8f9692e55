package resource

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/kindtest"
)

const (
	badLabel     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badID        = `a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')`
	oneRequest   = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

var tableNow = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// repeat returns n items that an item of text makes, %d being the index.
func repeat(n int, item string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ReplaceAll(item, "%d", fmt.Sprint(i))
	}
	return strings.Join(items, ", ")
}

func TestDeviceClass(t *testing.T) {
	const minimal = `{metadata: {name: x}, spec: {}}`
	row := DeviceClass()
	kindtest.Minimal(t, row, minimal, `{metadata: {name: x, generation: 1}, spec: {}}`)

	good := kindtest.From[*resourcev1.DeviceClass](t, row, minimal)
	c := func(name, text string, want ...string) kindtest.Case[resourcev1.DeviceClass] {
		return kindtest.YAML[resourcev1.DeviceClass](t, name, text, want...)
	}
	kindtest.Create(t, row, good,
		c("selector", `spec: {selectors: [{cel: {expression: 'device.driver == "x" && device.attributes["x"].model == "m"'}}]}`),
		c("no expression", `spec: {selectors: [{}]}`, "spec.selectors[0].cel: Required value"),
		c("broken expression", `spec: {selectors: [{cel: {expression: "device."}}]}`,
			"spec.selectors[0].cel.expression: Invalid value: \"device.\": compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative at input '.'\n | device.\n | .......^"),
		c("no condition", `spec: {selectors: [{cel: {expression: "1"}}]}`,
			`spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int`),
		c("long expression", fmt.Sprintf(`spec: {selectors: [{cel: {expression: "%s"}}]}`, strings.Repeat("x", 10241)),
			"spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"),
		c("selectors", fmt.Sprintf(`spec: {selectors: [%s]}`, repeat(33, `{}`)), "spec.selectors: Too many: 33: must have at most 32 items"),
		c("config", `spec: {config: [{}, {opaque: {driver: "a_b", parameters: [1]}}, {opaque: {driver: x, parameters: null}}]}`,
			"spec.config[0].opaque: Required value",
			`spec.config[1].opaque.driver: Invalid value: "a_b": `+badSubdomain,
			`spec.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
			"spec.config[2].opaque.parameters: Required value"),
		c("long config", fmt.Sprintf(`spec: {config: [{opaque: {driver: x, parameters: {a: "%s"}}}]}`, strings.Repeat("x", 10240)),
			"spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"),
		c("extended resource", `spec: {extendedResourceName: cpu}`, `spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name`),
		c("fine extended resource", `spec: {extendedResourceName: example.com/gpu}`),
	)
	stored := good.DeepCopy()
	stored.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "of.a.newer.server"}}}
	kindtest.Update(t, row, stored,
		c("stored expression", `metadata: {labels: {a: b}}`),
		c("new expression", `spec: {selectors: [{cel: {expression: "2"}}]}`, `spec.selectors[0].cel.expression: Invalid value: "2": must evaluate to bool or the unknown type, not int`),
	)
	good.CreationTimestamp = metav1.NewTime(tableNow.Add(-time.Minute))
	kindtest.Row(t, row, good, tableNow, "x", "60s")
}

const minimalClaim = `{metadata: {name: x, namespace: ns}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}`

func TestResourceClaim_Minimal(t *testing.T) {
	kindtest.Minimal(t, ResourceClaim(), strings.TrimSuffix(minimalClaim, "}")+`, status: {allocation: {}}}`,
		`{metadata: {name: x, namespace: ns}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, allocationMode: ExactCount, count: 1}}]}}}`)
	kindtest.Minimal(t, ResourceClaim(),
		`{metadata: {name: x}, spec: {devices: {requests: [{name: r, firstAvailable: [{name: a, deviceClassName: c, tolerations: [{key: k}], derivedAttributes: [{name: a/b, expression: x}]}, {name: b, deviceClassName: c, allocationMode: All}]}]}}}`,
		`{metadata: {name: x}, spec: {devices: {requests: [{name: r, firstAvailable: [{name: a, deviceClassName: c, allocationMode: ExactCount, count: 1, tolerations: [{key: k, operator: Equal}]}, {name: b, deviceClassName: c, allocationMode: All}]}]}}}`)
	kindtest.Minimal(t, ResourceClaimTemplate(), `{metadata: {name: x}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}}`,
		`{metadata: {name: x}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, allocationMode: ExactCount, count: 1}}]}}}}`)
}

// claimRules are the rules of claims and, with paths one spec deeper, of templates.
var claimRules = []struct {
	name, devices string
	want          []string
}{
	{"names", `{requests: [{name: A, exactly: {deviceClassName: c}}, {name: A, exactly: {}}]}`, []string{
		`requests[0].name: Invalid value: "A": ` + badLabel,
		`requests[1].name: Invalid value: "A": ` + badLabel,
		"requests[1].exactly.deviceClassName: Required value",
		`requests[1]: Duplicate value: "A"`,
	}},
	{"none", `{requests: [{name: r}]}`, []string{"requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"}},
	{"both", `{requests: [{name: r, exactly: {deviceClassName: c}, firstAvailable: [{name: a, deviceClassName: c}]}]}`, []string{
		"requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
	}},
	{"class", `{requests: [{name: r, exactly: {deviceClassName: "a_b"}}]}`, []string{`requests[0].exactly.deviceClassName: Invalid value: "a_b": ` + badSubdomain}},
	{"counts", `{requests: [{name: r, exactly: {deviceClassName: c, count: -1}}, {name: s, exactly: {deviceClassName: c, allocationMode: All, count: 2}}, {name: t, exactly: {deviceClassName: c, allocationMode: Some}}]}`, []string{
		"requests[0].exactly.count: Invalid value: -1: must be greater than zero",
		"requests[1].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
		`requests[2].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`,
	}},
	{"tolerations", `{requests: [{name: r, exactly: {deviceClassName: c, tolerations: [{operator: Exists, value: v}, {operator: Equal, value: "?"}, {operator: Like, effect: Now}, {operator: Exists, key: "?"}]}}]}`, []string{
		"requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
		`requests[0].exactly.tolerations[1].value: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		`requests[0].exactly.tolerations[2].operator: Unsupported value: "Like": supported values: "Equal", "Exists"`,
		`requests[0].exactly.tolerations[2].effect: Unsupported value: "Now": supported values: "NoExecute", "NoSchedule", "None"`,
		`requests[0].exactly.tolerations[3].key: Invalid value: "?": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
	}},
	{"first available", `{requests: [{name: r, firstAvailable: [{name: a}, {name: a, deviceClassName: c, selectors: [{}]}]}]}`, []string{
		"requests[0].firstAvailable[0].deviceClassName: Required value",
		"requests[0].firstAvailable[1].selectors[0].cel: Required value",
		`requests[0].firstAvailable[1]: Duplicate value: "a"`,
	}},
	{"too many", `{requests: [` + repeat(33, `{name: r%d, exactly: {deviceClassName: c}}`) + `], constraints: [` + repeat(33, `{matchAttribute: a/b}`) + `], config: [` + repeat(33, `{}`) + `]}`, []string{
		"requests: Too many: 33: must have at most 32 items",
		"constraints: Too many: 33: must have at most 32 items",
		"config: Too many: 33: must have at most 32 items",
	}},
	{"too many alternatives", `{requests: [{name: r, firstAvailable: [` + repeat(9, `{name: a%d, deviceClassName: c}`) + `]}]}`, []string{"requests[0].firstAvailable: Too many: 9: must have at most 8 items"}},
	{"constraints", `{requests: [{name: r, firstAvailable: [{name: a, deviceClassName: c}]}], constraints: [{requests: [r, r/a, s, r/b, a/b/c, r], matchAttribute: a}, {distinctAttribute: a/b/c}, {}]}`, []string{
		`constraints[0].requests[2]: Invalid value: "s": ` + oneRequest,
		`constraints[0].requests[3]: Invalid value: "r/b": ` + oneRequest,
		`constraints[0].requests[4]: Invalid value: "a/b/c": ` + oneRequest,
		`constraints[0].requests[5]: Duplicate value: "r"`,
		`constraints[0].matchAttribute: Invalid value: "a": a fully qualified name must be a domain and a name separated by a slash`,
		`constraints[1].distinctAttribute: Invalid value: "a/b/c": must not contain more than one slash`,
		`constraints[2]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`,
	}},
	{"config", `{requests: [{name: r, exactly: {deviceClassName: c}}], config: [{requests: [s]}]}`, []string{
		`config[0].requests[0]: Invalid value: "s": ` + oneRequest,
		"config[0].opaque: Required value",
	}},
}

func TestResourceClaim_Create(t *testing.T) {
	claim := kindtest.From[*resourcev1.ResourceClaim](t, ResourceClaim(), minimalClaim)
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: claim.ObjectMeta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim.Spec}}
	var ofClaims []kindtest.Case[resourcev1.ResourceClaim]
	var ofTemplates []kindtest.Case[resourcev1.ResourceClaimTemplate]
	for _, rule := range claimRules {
		devices := resourcev1.DeviceClaim{}
		kindtest.Over[resourcev1.DeviceClaim](t, rule.devices)(&devices)
		under := func(path string) (want []string) {
			for _, text := range rule.want {
				want = append(want, path+text)
			}
			return want
		}
		ofClaims = append(ofClaims, kindtest.Case[resourcev1.ResourceClaim]{
			Name: rule.name, Edit: func(c *resourcev1.ResourceClaim) { devices.DeepCopyInto(&c.Spec.Devices) }, Want: under("spec.devices.")})
		ofTemplates = append(ofTemplates, kindtest.Case[resourcev1.ResourceClaimTemplate]{
			Name: rule.name, Edit: func(c *resourcev1.ResourceClaimTemplate) { devices.DeepCopyInto(&c.Spec.Spec.Devices) }, Want: under("spec.spec.devices.")})
	}
	ofTemplates = append(ofTemplates, kindtest.Case[resourcev1.ResourceClaimTemplate]{
		Name: "labels", Edit: func(c *resourcev1.ResourceClaimTemplate) { c.Spec.Labels = map[string]string{"a": "?"} },
		Want: []string{`spec.metadata.labels: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
	})
	kindtest.Create(t, ResourceClaim(), claim, ofClaims...)
	kindtest.Create(t, ResourceClaimTemplate(), template, ofTemplates...)
}

// The error shows the whole spec, so only its beginning and end are compared.
func TestResourceClaim_Immutable(t *testing.T) {
	claim := kindtest.From[*resourcev1.ResourceClaim](t, ResourceClaim(), minimalClaim)
	changed := claim.DeepCopy()
	changed.Spec.Devices.Requests[0].Exactly.Count = 2
	template := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim.Spec}}
	other := &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{Spec: changed.Spec}}
	for _, errs := range []string{
		kindtest.Change(ResourceClaim(), "", changed, claim).ToAggregate().Error(),
		kindtest.Change(ResourceClaimTemplate(), "", other, template).ToAggregate().Error(),
	} {
		if !strings.HasPrefix(errs, "spec: Invalid value: {") || !strings.HasSuffix(errs, ": field is immutable") {
			t.Errorf("got %s", errs)
		}
	}
	if errs := kindtest.Change(ResourceClaimTemplate(), "", template.DeepCopy(), template); len(errs) > 0 {
		t.Errorf("unchanged: %v", errs)
	}
}

func TestResourceClaim_Status(t *testing.T) {
	pending := kindtest.From[*resourcev1.ResourceClaim](t, ResourceClaim(), minimalClaim)
	c := func(name, text string, want ...string) kindtest.Case[resourcev1.ResourceClaim] {
		return kindtest.YAML[resourcev1.ResourceClaim](t, name, text, want...)
	}
	const result = `{request: r, driver: d, pool: p, device: a}`
	kindtest.UpdateSubresource(t, ResourceClaim(), "status", pending,
		c("allocated and reserved", `status: {allocation: {devices: {results: [`+result+`]}}, reservedFor: [{resource: pods, name: p, uid: "1"}], devices: [{driver: d, pool: p, device: a, networkData: {ips: [10.0.0.1/8]}}]}`),
		c("results", `status: {allocation: {devices: {results: [{}, {request: s, driver: d, pool: "p/", device: a, shareID: x, bindingConditions: [a, a], bindingFailureConditions: [a]}]}}}`,
			`status.allocation.devices.results[0].request: Invalid value: "": `+badLabel,
			`status.allocation.devices.results[0].request: Invalid value: "": `+oneRequest,
			"status.allocation.devices.results[0].driver: Required value",
			`status.allocation.devices.results[0].driver: Invalid value: "": `+badSubdomain,
			"status.allocation.devices.results[0].pool: Required value",
			`status.allocation.devices.results[0].device: Invalid value: "": `+badLabel,
			`status.allocation.devices.results[1].request: Invalid value: "s": `+oneRequest,
			`status.allocation.devices.results[1].pool: Invalid value: "": `+badSubdomain,
			`status.allocation.devices.results[1].bindingConditions[1]: Duplicate value: "a"`,
			`status.allocation.devices.results[1].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`,
			`status.allocation.devices.results[1].shareID: Invalid value: "x": error validating uid: invalid UUID length: 1`),
		c("config", `status: {allocation: {devices: {config: [{source: Elsewhere, requests: [s]}]}, nodeSelector: {}}}`,
			`status.allocation.devices.config[0].source: Unsupported value: "Elsewhere": supported values: "FromClaim", "FromClass"`,
			`status.allocation.devices.config[0].requests[0]: Invalid value: "s": `+oneRequest,
			"status.allocation.devices.config[0].opaque: Required value",
			"status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term"),
		c("too many", `status: {allocation: {devices: {results: [`+repeat(33, `{}`)+`], config: [`+repeat(65, `{}`)+`]}}}`,
			"status.allocation.devices.results: Too many: 33: must have at most 32 items",
			"status.allocation.devices.config: Too many: 65: must have at most 64 items"),
		c("reserved only", `status: {reservedFor: [{}]}`,
			"status.reservedFor[0].resource: Required value", "status.reservedFor[0].name: Required value", "status.reservedFor[0].uid: Required value",
			"status.reservedFor: Forbidden: may not be specified when `allocated` is not set"),
		c("devices", `status: {allocation: {devices: {results: [`+result+`]}}, devices: [{driver: d, pool: p, device: b, data: [], conditions: [{}], networkData: {interfaceName: "`+strings.Repeat("x", 257)+`", hardwareAddress: "`+strings.Repeat("x", 129)+`", ips: [x]}}]}`,
			`status.devices[0]: Invalid value: "d/p/b": must be an allocated device in the claim`,
			"status.devices[0].conditions[0].type: Required value: is required",
			"status.devices[0].conditions[0].status: Required value",
			"status.devices[0].conditions[0].lastTransitionTime: Required value",
			"status.devices[0].conditions[0].reason: Required value",
			`status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object`,
			"status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
			"status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
			`status.devices[0].networkData.ips[0]: Invalid value: "x": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)`),
		c("spec", `spec: {devices: {requests: []}}`),
	)

	allocated := pending.DeepCopy()
	kindtest.Over[resourcev1.ResourceClaim](t, `status: {allocation: {devices: {results: [`+result+`]}}, devices: [{driver: d, pool: p, device: a}]}`)(allocated)
	changed := allocated.DeepCopy()
	changed.Status.Allocation.Devices.Results[0].Device = "b"
	changed.Status.Devices = nil
	if errs := kindtest.Change(ResourceClaim(), "status", changed, allocated).ToAggregate(); errs == nil || !strings.HasSuffix(errs.Error(), "field is immutable") {
		t.Errorf("another device: %v", errs)
	}
	freed := allocated.DeepCopy()
	freed.Status.Allocation = nil
	if errs := kindtest.Change(ResourceClaim(), "status", freed, allocated); len(errs) > 0 || freed.Status.Devices != nil {
		t.Errorf("freed: %v, devices %v", errs, freed.Status.Devices)
	}
	deleted := allocated.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: tableNow}
	late := deleted.DeepCopy()
	late.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: types.UID("1")}}
	kindtest.Errors(t, kindtest.Change(ResourceClaim(), "status", late, deleted),
		"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
}

func TestResourceClaim_Row(t *testing.T) {
	claim := kindtest.From[*resourcev1.ResourceClaim](t, ResourceClaim(), minimalClaim)
	claim.CreationTimestamp = metav1.NewTime(tableNow.Add(-time.Hour))
	kindtest.Row(t, ResourceClaim(), claim, tableNow, "x", "pending", "60m")
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	claim.Status.ReservedFor = make([]resourcev1.ResourceClaimConsumerReference, 1)
	kindtest.Row(t, ResourceClaim(), claim, tableNow, "x", "allocated,reserved", "60m")
	claim.DeletionTimestamp = &metav1.Time{Time: tableNow}
	kindtest.Row(t, ResourceClaim(), claim, tableNow, "x", "deleted,allocated,reserved", "60m")
}

func TestDeviceTaintRule(t *testing.T) {
	const text = `{metadata: {name: x}, spec: {deviceSelector: {driver: d, pool: a/b, device: c}, taint: {key: k, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}}}`
	row := DeviceTaintRule()
	kindtest.Minimal(t, row, strings.TrimSuffix(text, "}")+`, status: {conditions: [{type: x}]}}`, strings.Replace(text, "name: x", "name: x, generation: 1", 1))

	rule := kindtest.From[*resourcev1.DeviceTaintRule](t, row, text)
	c := func(name, text string, want ...string) kindtest.Case[resourcev1.DeviceTaintRule] {
		return kindtest.YAML[resourcev1.DeviceTaintRule](t, name, text, want...)
	}
	kindtest.Create(t, row, rule,
		c("everything", `spec: {deviceSelector: null}`),
		c("selector", `spec: {deviceSelector: {driver: "", pool: "", device: A}}`,
			"spec.deviceSelector.driver: Required value", `spec.deviceSelector.driver: Invalid value: "": `+badSubdomain,
			"spec.deviceSelector.pool: Required value", `spec.deviceSelector.device: Invalid value: "A": `+badLabel),
		c("taint", `spec: {taint: {key: "", effect: ""}}`,
			`spec.taint.key: Invalid value: "": name part must be non-empty`,
			`spec.taint.key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"spec.taint.effect: Required value"),
		c("effect", `spec: {taint: {effect: Now}}`, `spec.taint.effect: Unsupported value: "Now": supported values: "NoExecute", "NoSchedule", "None"`),
	)
	fresh := rule.DeepCopy()
	fresh.Spec.Taint.TimeAdded = nil
	row.PrepareCreate(fresh)
	if added := fresh.Spec.Taint.TimeAdded; added == nil || added.Nanosecond() != 0 || time.Since(added.Time) > time.Minute {
		t.Errorf("time of a new taint: %v", added)
	}
	evicting := rule.DeepCopy()
	evicting.Spec.Taint.Effect = resourcev1.DeviceTaintEffectNoExecute
	if row.PrepareUpdate(evicting, rule); evicting.Spec.Taint.TimeAdded.Equal(rule.Spec.Taint.TimeAdded) {
		t.Error("another effect has the time of the old one")
	}
	kindtest.UpdateSubresource(t, row, "status", rule,
		c("conditions", `status: {conditions: [`+repeat(9, `{type: T%d, status: "True", reason: R, lastTransitionTime: "2026-01-01T00:00:00Z"}`)+`]}`,
			"status.conditions: Too many: 9: must have at most 8 items"),
		c("spec", `spec: {taint: {effect: Now}}`),
	)
	kindtest.Row(t, row, rule, tableNow, "x", "<unknown>")
}

const minimalSlice = `{metadata: {name: x}, spec: {driver: d, pool: {name: p, generation: 0, resourceSliceCount: 1}, nodeName: n1, devices: [{name: a}]}}`

func TestResourceSlice(t *testing.T) {
	row := ResourceSlice()
	kindtest.Minimal(t, row, minimalSlice, strings.Replace(minimalSlice, "name: x", "name: x, generation: 1", 1))
	slice := kindtest.From[*resourcev1.ResourceSlice](t, row, minimalSlice)
	c := func(name, spec string, want ...string) kindtest.Case[resourcev1.ResourceSlice] {
		return kindtest.YAML[resourcev1.ResourceSlice](t, name, "spec: "+spec, want...)
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	const oneOfDevice = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	kindtest.Create(t, row, slice,
		c("driver and pool", `{driver: "", pool: {name: "", generation: -1, resourceSliceCount: 0}}`,
			"spec.driver: Required value", `spec.driver: Invalid value: "": `+badSubdomain, "spec.pool.name: Required value",
			"spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
			"spec.pool.generation: Invalid value: -1: must be greater than or equal to zero"),
		c("long pool", `{pool: {name: `+strings.Repeat("p", 254)+`}}`,
			"spec.pool.name: Too long: may not be more than 253 bytes", `spec.pool.name: Invalid value: "`+strings.Repeat("p", 254)+`": must be no more than 253 characters`),
		c("nowhere", `{nodeName: null}`, "spec: Required value: "+one),
		c("twice", `{allNodes: true}`, "spec: Invalid value: \"{`nodeName`, `allNodes`}\": "+one+", but multiple fields are set"),
		c("half", `{nodeName: "", allNodes: false, perDeviceNodeSelection: false}`,
			`spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string`,
			"spec.allNodes: Invalid value: false: must be either unset or set to true",
			"spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
			"spec: Required value: "+one),
		c("node name", `{nodeName: A}`, `spec.nodeName: Invalid value: "A": `+badSubdomain),
		c("selector", `{nodeName: null, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}}`),
		c("counters and devices", `{sharedCounters: [{name: c, counters: {m: {value: 1}}}]}`, "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"),
		c("counters", `{devices: null, sharedCounters: [{}, {name: c, counters: {M: {value: 1}}}, {name: c, counters: {m: {value: 1}}}]}`,
			"spec.sharedCounters[0].name: Required value", "spec.sharedCounters[0].counters: Required value",
			`spec.sharedCounters[1].counters: Invalid value: "M": `+badLabel, `spec.sharedCounters[2]: Duplicate value: "c"`),
		c("too many counters", `{devices: null, sharedCounters: [`+repeat(9, `{}`)+`]}`, "spec.sharedCounters: Too many: 9: must have at most 8 items"),
		c("devices", `{devices: [{name: A}, {name: A}]}`,
			`spec.devices[0].name: Invalid value: "A": `+badLabel, `spec.devices[1].name: Invalid value: "A": `+badLabel, `spec.devices[1]: Duplicate value: "A"`),
		c("too many devices", `{devices: [`+repeat(129, `{name: a%d}`)+`]}`, "spec.devices: Too many: 129: must have at most 128 items"),
		c("too many tainted devices", `{devices: [`+repeat(65, `{name: a%d, taints: [{key: k, effect: None}]}`)+`]}`, "spec.devices: Too many: 65: must have at most 64 items"),
		c("device places", `{nodeName: null, perDeviceNodeSelection: true, devices: [{name: a}, {name: b, allNodes: true, nodeName: n1}, {name: c, nodeName: ""}, {name: d, allNodes: false}]}`,
			"spec.devices[0]: Required value: "+oneOfDevice,
			"spec.devices[1]: Invalid value: \"{`nodeName`, `allNodes`}\": "+oneOfDevice,
			`spec.devices[2].nodeName: Invalid value: "": must not be empty`, "spec.devices[2]: Required value: "+oneOfDevice,
			"spec.devices[3].allNodes: Invalid value: false: must be either unset or set to true", "spec.devices[3]: Required value: "+oneOfDevice),
		c("needless device place", `{devices: [{name: a, allNodes: true}]}`,
			"spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"),
		c("attributes", `{devices: [{name: a, attributes: {a: {}, "b-c": {bool: true}, d/: {int: 1}, /e: {string: s}, f: {version: "1"}}}]}`,
			`spec.devices[0].attributes: Invalid value: "": the domain must not be empty`,
			`spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified`,
			`spec.devices[0].attributes: Invalid value: "b-c": `+badID,
			`spec.devices[0].attributes: Invalid value: "": the name must not be empty`,
			`spec.devices[0].attributes[f].version: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0`),
		c("long attributes", `{devices: [{name: a, attributes: {`+strings.Repeat("x", 33)+`: {string: `+strings.Repeat("x", 65)+`}}}]}`,
			"spec.devices[0].attributes: Too long: may not be more than 32 bytes",
			"spec.devices[0].attributes["+strings.Repeat("x", 33)+"].string: Too long: may not be more than 64 bytes"),
		c("too many attributes", `{devices: [{name: a, attributes: {`+repeat(33, `a%d: {int: 1}`)+`}}]}`,
			"spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"),
		c("taints", `{devices: [{name: a, taints: [{key: k}]}]}`, "spec.devices[0].taints[0].effect: Required value"),
		c("consumed counters", `{devices: [{name: a, consumesCounters: [{}, {counterSet: c, counters: {m: {value: 1}}}]}]}`,
			"spec.devices[0].consumesCounters[0].counterSet: Required value", "spec.devices[0].consumesCounters[0].counters: Required value"),
		c("binding conditions", `{devices: [{name: a, bindingConditions: [x]}, {name: b, bindingFailureConditions: [x]}]}`,
			"spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
			"spec.devices[1].bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions"),
	)
	kindtest.Update(t, row, slice,
		c("fixed", `{driver: e, pool: {name: q}, nodeName: n2}`,
			`spec.pool.name: Invalid value: "q": field is immutable`, `spec.driver: Invalid value: "e": field is immutable`, `spec.nodeName: Invalid value: "n2": field is immutable`),
		c("devices", `{devices: [{name: b}]}`),
	)
	if diff := cmp.Diff([]string{`spec.driver: driver names should be lowercase; "D" contains uppercase characters`},
		row.Warnings(&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "D"}}, nil)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	kindtest.Row(t, row, slice, tableNow, "x", "n1", "d", "p", "<unknown>")
	slice.Spec.NodeName = nil
	kindtest.Row(t, row, slice, tableNow, "x", "<unset>", "d", "p", "<unknown>")
}

// Fields of features that are off are dropped, unless the stored slice has them.
func TestResourceSlice_Drops(t *testing.T) {
	slice := kindtest.From[*resourcev1.ResourceSlice](t, ResourceSlice(), minimalSlice)
	want := slice.DeepCopy()
	want.Spec.Devices[0].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"a": {}}
	want.Spec.Devices[0].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "c"}}
	kindtest.Over[resourcev1.ResourceSlice](t, `spec: {partitionTypeAttribute: a/b, skipNodeOperations: ["*"],
		devices: [{name: a, attributes: {a: {ints: [1]}}, nodeAllocatableResources: {cpu: {}}, consumesCounters: [{counterSet: c, compatibilityGroups: [g]}]}]}`)(slice)
	stored, fresh := slice.DeepCopy(), slice.DeepCopy()
	ResourceSlice().PrepareCreate(fresh)
	if diff := cmp.Diff(want, fresh); diff != "" {
		t.Errorf("new (-want +got):\n%s", diff)
	}
	ResourceSlice().PrepareUpdate(slice, stored)
	if diff := cmp.Diff(stored, slice); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestCapacity(t *testing.T) {
	for _, tc := range []struct {
		name, capacity string
		single         bool
		want           []string
	}{
		{"none", `{value: 10}`, true, nil},
		{"single", `{value: 10, requestPolicy: {}}`, true, []string{"c.requestPolicy: Forbidden: allowMultipleAllocations must be true"}},
		{"both", `{value: 10, requestPolicy: {validValues: [1], validRange: {}}}`, false, []string{
			`c.requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`}},
		{"values", `{value: 10, requestPolicy: {default: 1, validValues: [1, 2.5]}}`, false, nil},
		{"no default", `{value: 10, requestPolicy: {validValues: [1]}}`, false, []string{"c.requestPolicy.default: Required value: required when validValues is defined"}},
		{"bad values", `{value: 10, requestPolicy: {default: 3, validValues: [2, 1, 11, 1]}}`, false, []string{
			`c.requestPolicy.validValues[1]: Invalid value: "1": values must be sorted in ascending order`,
			`c.requestPolicy.validValues[3]: Invalid value: "1": values must be sorted in ascending order`,
			`c.requestPolicy.validValues[2]: Invalid value: "11": option is larger than capacity value: 10`,
			`c.requestPolicy.validValues[3]: Duplicate value: "1"`,
			`c.requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy`,
		}},
		{"many values", `{value: 10, requestPolicy: {default: 1, validValues: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}}`, false, []string{
			"c.requestPolicy.validValues: Too many: 11: must have at most 10 items",
			`c.requestPolicy.validValues: Invalid value: "1": default value is not valid according to the requestPolicy`,
		}},
		{"range", `{value: 10, requestPolicy: {default: 4, validRange: {min: 2, max: 10, step: 2}}}`, false, nil},
		{"fractional range", `{value: 10, requestPolicy: {default: 0.5, validRange: {min: 0.25, max: 10, step: 0.25}}}`, false, nil},
		{"range without", `{value: 10, requestPolicy: {validRange: {}}}`, false, []string{"c.requestPolicy.default: Required value: required when validRange is defined"}},
		{"range without min", `{value: 10, requestPolicy: {default: 1, validRange: {}}}`, false, []string{"c.requestPolicy.validRange.min: Required value: required when validRange is defined"}},
		{"outside", `{value: 10, requestPolicy: {default: 1, validRange: {min: 11, max: 12}}}`, false, []string{
			`c.requestPolicy.validRange.min: Invalid value: "11": min is larger than capacity value: 10`,
			`c.requestPolicy.validRange.default: Invalid value: "1": default is less than min: 11`,
			`c.requestPolicy.validRange.max: Invalid value: "12": max is larger than capacity value: 10`,
		}},
		{"reversed", `{value: 10, requestPolicy: {default: 5, validRange: {min: 4, max: 3}}}`, false, []string{
			`c.requestPolicy.validRange.max: Invalid value: "4": min is larger than max: 3`,
			`c.requestPolicy.validRange.default: Invalid value: "5": default is more than max: 3`,
		}},
		{"steps", `{value: 10, requestPolicy: {default: 3, validRange: {min: 2, max: 9, step: 2}}}`, false, []string{
			`c.requestPolicy.validRange.step: Invalid value: "3": value is not a multiple of a given step (2) from (2)`,
			`c.requestPolicy.validRange.step: Invalid value: "9": value is not a multiple of a given step (2) from (2)`,
		}},
		{"no step", `{value: 10, requestPolicy: {default: 2, validRange: {min: 2, step: 0}}}`, false, []string{`c.requestPolicy.validRange.step: Invalid value: "0": must be greater than zero`}},
		{"large step", `{value: 10, requestPolicy: {default: 2, validRange: {min: 2, step: 9}}}`, false, []string{
			`c.requestPolicy.validRange.step: Invalid value: "9": one step 11 is larger than capacity value: 10`}},
		{"too large", `{value: 1e30, requestPolicy: {default: "18446744073709551616", validRange: {min: 0, step: "18446744073709551616"}}}`, false, []string{
			`c.requestPolicy.validRange.default: Invalid value: "18446744073709551616": must not be larger than 9223372036854775807`,
			`c.requestPolicy.validRange.step: Invalid value: "18446744073709551616": must not be larger than 9223372036854775807`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c resourcev1.DeviceCapacity
			kindtest.Over[resourcev1.DeviceCapacity](t, tc.capacity)(&c)
			kindtest.Errors(t, validateCapacity(c, !tc.single, field.NewPath("c")), tc.want...)
		})
	}
	if !isFractional(kindtest.Ptr(resource.MustParse("500m"))) || isFractional(kindtest.Ptr(resource.MustParse("1k"))) {
		t.Error("fractions")
	}
}
