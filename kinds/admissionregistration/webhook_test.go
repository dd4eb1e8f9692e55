package admissionregistration

import (
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badLabel     = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`
	minimalHook  = `{metadata: {name: x}, webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: ns}}, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}]}`
	defaultedOf  = `failurePolicy: Fail, matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}, timeoutSeconds: 10, `
)

func TestWebhooks_Minimal(t *testing.T) {
	full := strings.NewReplacer("name: x", "name: x, generation: 1", "{name: a.", "{"+defaultedOf+"name: a.", "namespace: ns", "namespace: ns, port: 443", "[pods]", `[pods], scope: "*"`).Replace(minimalHook)
	kindtest.Minimal(t, ValidatingWebhookConfiguration(), minimalHook, full)
	kindtest.Minimal(t, MutatingWebhookConfiguration(), minimalHook, strings.Replace(full, "timeoutSeconds", "reinvocationPolicy: Never, timeoutSeconds", 1))
}

func TestWebhooks_Create(t *testing.T) {
	good := kindtest.From[*admissionregistrationv1.MutatingWebhookConfiguration](t, MutatingWebhookConfiguration(), minimalHook)
	hook := func(name, text string, want ...string) kindtest.Case[admissionregistrationv1.MutatingWebhookConfiguration] {
		edit := kindtest.Over[admissionregistrationv1.MutatingWebhook](t, text)
		return kindtest.Case[admissionregistrationv1.MutatingWebhookConfiguration]{
			Name: name, Want: want, Edit: func(c *admissionregistrationv1.MutatingWebhookConfiguration) { edit(&c.Webhooks[0]) }}
	}
	const rule = `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`
	kindtest.Create(t, MutatingWebhookConfiguration(), good,
		hook("name", `{name: a}`, `webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots`),
		kindtest.Case[admissionregistrationv1.MutatingWebhookConfiguration]{
			Name: "names", Edit: func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
				c.Webhooks = append(c.Webhooks, c.Webhooks[0])
			},
			Want: []string{`webhooks[1].name: Duplicate value: "a.example.com"`},
		},
		hook("choices", `{failurePolicy: Shrug, matchPolicy: Vague, sideEffects: Some, timeoutSeconds: 31, reinvocationPolicy: Often}`,
			`webhooks[0].failurePolicy: Unsupported value: "Shrug": supported values: "Fail", "Ignore"`,
			`webhooks[0].matchPolicy: Unsupported value: "Vague": supported values: "Equivalent", "Exact"`,
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`,
			"webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
			`webhooks[0].reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"`),
		hook("required", `{sideEffects: null, admissionReviewVersions: null, clientConfig: {service: null}}`,
			"webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
			"webhooks[0].clientConfig: Required value: exactly one of url or service is required",
			"webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"),
		hook("review versions", `{admissionReviewVersions: [V, v2, v2]}`,
			`webhooks[0].admissionReviewVersions[0]: Invalid value: "V": `+badLabel,
			`webhooks[0].admissionReviewVersions[2]: Invalid value: "v2": duplicate version`,
			`webhooks[0].admissionReviewVersions: Invalid value: ["V","v2","v2"]: must include at least one of v1, v1beta1`),
		hook("selectors", `{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}, objectSelector: {matchLabels: {a: "?"}}}`,
			"webhooks[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			`webhooks[0].objectSelector.matchLabels: Invalid value: "?": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`),
		hook("url", `{clientConfig: {service: null, url: "http://u:p@/x?a#b"}}`,
			`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "b": fragments are not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "a": query parameters are not permitted in the URL`),
		hook("service", `{clientConfig: {service: {name: "", namespace: "", port: 0, path: "a//B"}}}`,
			"webhooks[0].clientConfig.service.name: Required value", "webhooks[0].clientConfig.service.namespace: Required value",
			"webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": must start with a '/'`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[0] may not be empty`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[1] may not be empty`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[2]: `+badSubdomain),
		hook("rules", `{rules: [{}, {operations: ["*", FLY], apiGroups: ["*", a], apiVersions: ["*", ""], resources: ["*/*", a/*, a/b, "*/c", d/c, ""], scope: Moon}, {operations: [CREATE], apiGroups: [a], apiVersions: [v1], resources: ["*", a]}]}`,
			"webhooks[0].rules[0].operations: Required value", "webhooks[0].rules[0].apiGroups: Required value",
			"webhooks[0].rules[0].apiVersions: Required value", "webhooks[0].rules[0].resources: Required value",
			`webhooks[0].rules[1].operations: Invalid value: ["*","FLY"]: if '*' is present, must not specify other operations`,
			`webhooks[0].rules[1].operations[1]: Unsupported value: "FLY": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`,
			`webhooks[0].rules[1].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups`,
			`webhooks[0].rules[1].apiVersions: Invalid value: ["*",""]: if '*' is present, must not specify other API versions`,
			"webhooks[0].rules[1].apiVersions[1]: Required value",
			`webhooks[0].rules[1].resources[1]: Invalid value: "a/*": if '*/*' is present, must not specify a/*`,
			`webhooks[0].rules[1].resources[2]: Invalid value: "a/b": if 'a/*' is present, must not specify a/b`,
			`webhooks[0].rules[1].resources[3]: Invalid value: "*/c": if '*/*' is present, must not specify */c`,
			`webhooks[0].rules[1].resources[4]: Invalid value: "d/c": if '*/c' is present, must not specify d/c`,
			"webhooks[0].rules[1].resources[5]: Required value",
			`webhooks[0].rules[1].resources: Invalid value: ["*/*","a/*","a/b","*/c","d/c",""]: if '*/*' is present, must not specify other resources`,
			`webhooks[0].rules[1].scope: Unsupported value: "Moon": supported values: "*", "Cluster", "Namespaced"`,
			`webhooks[0].rules[2].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources without subresources`),
		hook("match conditions", `{matchConditions: [{name: a, expression: 'request.dryRun'}, {name: a, expression: ' '}, {name: "?", expression: '1'}, {expression: 'params.x == 1'}, {name: b, expression: 'object.x =='}]}`,
			`webhooks[0].matchConditions[1].expression: Required value`,
			`webhooks[0].matchConditions[1].name: Duplicate value: "a"`,
			`webhooks[0].matchConditions[2].expression: Invalid value: "1": must evaluate to bool but got int`,
			`webhooks[0].matchConditions[2].name: Invalid value: "?": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"webhooks[0].matchConditions[3].expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^",
			"webhooks[0].matchConditions[3].name: Required value",
			"webhooks[0].matchConditions[4].expression: Invalid value: \"object.x ==\": compilation failed: ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.x ==\n | ...........^"),
		hook("too many conditions", `{matchConditions: [`+strings.Repeat(`{name: a, expression: "true"}, `, 64)+`{name: b, expression: "true"}]}`,
			append([]string{"webhooks[0].matchConditions: Too many: 65: must have at most 64 items"}, repeated(64)...)...),
		hook("fine", `{rules: [`+rule+`], matchConditions: [{name: example.com/a, expression: 'object.metadata.name != "x" && authorizer.group("").resource("pods").check("get").allowed()'}]}`),
	)
}

func repeated(n int) []string {
	var want []string
	for i := 1; i < n; i++ {
		want = append(want, `webhooks[0].matchConditions[`+strconv.Itoa(i)+`].name: Duplicate value: "a"`)
	}
	return want
}

// What a stored configuration breaks it may go on to break.
func TestWebhooks_Update(t *testing.T) {
	row := ValidatingWebhookConfiguration()
	old := kindtest.From[*admissionregistrationv1.ValidatingWebhookConfiguration](t, row, strings.NewReplacer("sideEffects: None", "sideEffects: Some", "[v1], client", "[v9], matchConditions: [{name: a, expression: nonsense}], client").Replace(minimalHook))
	old.Webhooks = append(old.Webhooks, *old.Webhooks[0].DeepCopy())
	old.Webhooks[1].NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"?"}}}
	kindtest.Update(t, row, old,
		kindtest.YAML[admissionregistrationv1.ValidatingWebhookConfiguration](t, "as before", `metadata: {labels: {a: b}}`),
		kindtest.YAML[admissionregistrationv1.ValidatingWebhookConfiguration](t, "repaired", strings.TrimPrefix(strings.TrimSuffix(minimalHook, "}"), "{metadata: {name: x}, ")),
		kindtest.Case[admissionregistrationv1.ValidatingWebhookConfiguration]{
			Name: "another condition", Edit: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
				c.Webhooks[0].MatchConditions[0].Expression = "1"
			},
			Want: []string{
				`webhooks[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`,
				"webhooks[1].matchConditions[0].expression: Invalid value: \"nonsense\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nonsense' (in container '')\n | nonsense\n | ^",
			},
		},
	)
	kindtest.Row(t, row, old, time.Now(), "x", int64(2), "<unknown>")
	kindtest.Row(t, MutatingWebhookConfiguration(), &admissionregistrationv1.MutatingWebhookConfiguration{}, time.Now(), "", int64(0), "<unknown>")
}
