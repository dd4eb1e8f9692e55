package apiextensions

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"vigil/kinds/kindtest"
	"vigil/object"
)

type (
	crd     = apiextensionsv1.CustomResourceDefinition
	crdCase = kindtest.Case[crd]
	schema  = apiextensionsv1.JSONSchemaProps
)

const minimal = `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

func good(t *testing.T) *crd {
	t.Helper()
	c := &crd{}
	if err := yaml.UnmarshalStrict([]byte(minimal), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// schemaOf gives the definition's only version another schema.
func schemaOf(t *testing.T, text string) func(*crd) {
	t.Helper()
	props := &schema{}
	if err := yaml.UnmarshalStrict([]byte(text), props); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return func(c *crd) { c.Spec.Versions[0].Schema.OpenAPIV3Schema = props }
}

func TestCRD_Minimal(t *testing.T) {
	// Nothing serves the definition, so no condition says that something does.
	kindtest.Minimal(t, CustomResourceDefinition(), minimal+`status: {conditions: [{type: Established, status: "True"}]}`, `
metadata: {name: widgets.example.com, generation: 1}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conversion: {strategy: None}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
status:
  acceptedNames: {plural: "", kind: ""}
  conditions:
  storedVersions: [v1]
`)
}

func TestCRD_Create(t *testing.T) {
	kindtest.Create(t, CustomResourceDefinition(), good(t),
		crdCase{
			Name: "name", Edit: func(c *crd) { c.Name = "gadgets.example.com" },
			Want: []string{`metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group`},
		},
		crdCase{
			Name: "scope", Edit: func(c *crd) { c.Spec.Scope = "Galaxy" },
			Want: []string{`spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"`},
		},
		crdCase{
			Name: "no schema", Edit: func(c *crd) { c.Spec.Versions[0].Schema = nil },
			Want: []string{`spec.versions[0].schema.openAPIV3Schema: Required value`},
		},
		crdCase{
			Name: "unstructured", Edit: schemaOf(t, `{type: object, properties: {spec: {properties: {num: {type: integer}}}}}`),
			Want: []string{`spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields`},
		},
		crdCase{
			Name: "default", Edit: schemaOf(t, `{type: object, properties: {num: {type: integer, default: x}}}`),
			Want: []string{`spec.validation.openAPIV3Schema.properties[num].default: Invalid value: "string":  in body must be of type integer: "string"`},
		},
		crdCase{Name: "rule", Edit: schemaOf(t, `{type: object, properties: {num: {type: integer}}, x-kubernetes-validations: [{rule: self.num > 0}]}`)},
		crdCase{
			Name: "rule of unknown field", Edit: schemaOf(t, `{type: object, properties: {num: {type: integer}}, x-kubernetes-validations: [{rule: self.m > 0}]}`),
			Want: []string{"spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.m \\u003e 0\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'm'\n | self.m > 0\n | ....^"},
		},
		crdCase{
			Name: "storage versions", Edit: func(c *crd) { c.Spec.Versions[0].Storage = false },
			Want: []string{
				`spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version`,
				`status.storedVersions: Invalid value: null: must have at least one stored version`,
			},
		},
		crdCase{
			Name: "webhook", Edit: func(c *crd) {
				c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
			},
			Want: []string{
				`spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook`,
				`spec.conversion.conversionReviewVersions: Required value`,
			},
		},
		crdCase{Name: "approved group", Edit: func(c *crd) {
			c.Name, c.Spec.Group = "widgets.example.k8s.io", "example.k8s.io"
			c.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "https://github.com/kubernetes/kubernetes/pull/1"}
		}},
		crdCase{
			Name: "protected group", Edit: func(c *crd) { c.Name, c.Spec.Group = "widgets.example.k8s.io", "example.k8s.io" },
			Want: []string{`metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`},
		},
		crdCase{
			Name: "preserve", Edit: func(c *crd) { c.Spec.PreserveUnknownFields = true },
			Want: []string{`spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead`},
		},
	)
}

func TestCRD_Update(t *testing.T) {
	stored := good(t)
	row := CustomResourceDefinition()
	row.Default(stored)
	row.PrepareCreate(stored)
	kindtest.Update(t, row, stored,
		crdCase{
			Name: "group", Edit: func(c *crd) { c.Spec.Group = "example.org" },
			Want: []string{`spec.group: Invalid value: "example.org": field is immutable`},
		},
		crdCase{Name: "scope of what is not served", Edit: func(c *crd) { c.Spec.Scope = apiextensionsv1.ClusterScoped }},
		crdCase{
			Name: "stored version", Edit: func(c *crd) { c.Spec.Versions[0].Name = "v2" },
			Want: []string{`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`},
		},
	)
	established := stored.DeepCopy()
	established.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	kindtest.Update(t, row, established,
		crdCase{
			Name: "scope", Edit: func(c *crd) { c.Spec.Scope = apiextensionsv1.ClusterScoped },
			Want: []string{`spec.scope: Invalid value: "Cluster": field is immutable`},
		},
	)
	kindtest.UpdateSubresource(t, row, "status", stored,
		crdCase{
			Name: "names", Edit: func(c *crd) { c.Status.AcceptedNames.Plural = "W" },
			Want: []string{`status.acceptedNames.plural: Invalid value: "W": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`},
		},
		crdCase{Name: "spec", Edit: func(c *crd) { c.Spec.Group = "x" }},
	)
}

func TestCRD_Warnings(t *testing.T) {
	odd, row := good(t), CustomResourceDefinition()
	schemaOf(t, `{type: object, properties: {a: {type: string, format: zip}, b: {type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}}}}`)(odd)
	want := []string{`unrecognized format "zip"`, `x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules`}
	if diff := cmp.Diff(want, row.Warnings(odd, nil)); diff != "" {
		t.Errorf("create (-want +got):\n%s", diff)
	}
	if got := row.Warnings(odd, odd); len(got) != 0 {
		t.Errorf("unchanged: %q", got)
	}
	if diff := cmp.Diff(want, row.Warnings(odd, good(t))); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}
}

func TestCRD_Row(t *testing.T) {
	c := good(t)
	c.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	kindtest.Row(t, CustomResourceDefinition(), c, time.Now(), "widgets.example.com", "2026-01-01T12:00:00Z")
}

// Definitions are stored as upstream stores them, in v1beta1, and what was stored in v1 is read, too.
func TestCRD_Stored(t *testing.T) {
	row := CustomResourceDefinition()
	c := good(t)
	row.Default(c)
	row.PrepareCreate(c)
	v, err := object.FromObject(row.Type, "/registry/"+row.Path+"/widgets.example.com", 7, c)
	if err != nil {
		t.Fatal(err)
	}
	bytes := v.Stored()
	if !strings.HasPrefix(string(bytes), `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1"`) || !strings.Contains(string(bytes), `"version":"v1"`) {
		t.Errorf("stored: %s", bytes)
	}
	c.SetGroupVersionKind(row.GVK)
	plain, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{"v1beta1": bytes, "v1": plain} {
		v, err := object.NewVersion(row.Type, "/registry/"+row.Path+"/widgets.example.com", 7, stored)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back, err := v.Decode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := back.(*crd)
		got.ResourceVersion = ""
		if diff := cmp.Diff(c.Spec, got.Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := object.NewVersion(row.Type, "/registry/"+row.Path+"/x", 7, []byte(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v3"}`)); err == nil {
		t.Error("read an unknown version")
	}
}
