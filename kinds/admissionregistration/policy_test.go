package admissionregistration

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"vigil/kinds/kindtest"
)

const (
	matchPods     = `matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}`
	matchAll      = `matchConstraints: {matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}, resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: "*"}]}`
	minimalPolicy = `{metadata: {name: x}, spec: {` + matchPods + `, validations: [{expression: "true"}]}}`
	minimalPatch  = `{metadata: {name: x}, spec: {` + matchPods + `, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/a"}]'}}]}}`
)

func TestPolicies_Minimal(t *testing.T) {
	full := func(minimal string) string {
		return strings.NewReplacer("name: x", "name: x, generation: 1", matchPods, "failurePolicy: Fail, "+matchAll).Replace(minimal)
	}
	kindtest.Minimal(t, ValidatingAdmissionPolicy(), strings.TrimSuffix(minimalPolicy, "}")+`, status: {observedGeneration: 7}}`, full(minimalPolicy))
	kindtest.Minimal(t, MutatingAdmissionPolicy(), minimalPatch, full(minimalPatch))
	const binding = `{metadata: {name: x}, spec: {policyName: p, validationActions: [Deny], matchResources: {}}}`
	kindtest.Minimal(t, ValidatingAdmissionPolicyBinding(), binding,
		`{metadata: {name: x, generation: 1}, spec: {policyName: p, validationActions: [Deny], matchResources: {matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}}}}`)
	kindtest.Minimal(t, MutatingAdmissionPolicyBinding(), `{metadata: {name: x}, spec: {policyName: p}}`, `{metadata: {name: x, generation: 1}, spec: {policyName: p}}`)
}

func TestValidatingPolicy(t *testing.T) {
	row := ValidatingAdmissionPolicy()
	good := kindtest.From[*admissionregistrationv1.ValidatingAdmissionPolicy](t, row, minimalPolicy)
	c := func(name, spec string, want ...string) kindtest.Case[admissionregistrationv1.ValidatingAdmissionPolicy] {
		return kindtest.YAML[admissionregistrationv1.ValidatingAdmissionPolicy](t, name, "spec: "+spec, want...)
	}
	const missing = "validations or auditAnnotations must contain at least one item"
	kindtest.Create(t, row, good,
		c("nothing", `{validations: null}`, "spec.validations: Required value: "+missing, "spec.auditAnnotations: Required value: "+missing),
		c("failure policy", `{failurePolicy: Shrug}`, `spec.failurePolicy: Unsupported value: "Shrug": supported values: "Fail", "Ignore"`),
		c("no constraints", `{matchConstraints: null}`, "spec.matchConstraints: Required value"),
		c("constraints", `{matchConstraints: {matchPolicy: Vague, resourceRules: [{resourceNames: [a, a, a/b]}], excludeResourceRules: [{operations: [CREATE], apiGroups: [a], apiVersions: [v1], resources: [""]}]}}`,
			`spec.matchConstraints.matchPolicy: Unsupported value: "Vague": supported values: "Equivalent", "Exact"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "a/b": may not contain '/'`,
			"spec.matchConstraints.resourceRules[0].operations: Required value", "spec.matchConstraints.resourceRules[0].apiGroups: Required value",
			"spec.matchConstraints.resourceRules[0].apiVersions: Required value", "spec.matchConstraints.resourceRules[0].resources: Required value",
			"spec.matchConstraints.excludeResourceRules[0].resources[0]: Required value"),
		c("no rules", `{matchConstraints: {resourceRules: null}}`, "spec.matchConstraints.resourceRules: Required value"),
		c("param kind", `{paramKind: {apiVersion: "A/", kind: "?"}}`,
			`spec.paramKind.apiVersion: Invalid value: "A": `+badSubdomain, `spec.paramKind.apiVersion: Invalid value: "A/": version must be specified`,
			`spec.paramKind.kind: Invalid value: "?": may have mixed case, but should otherwise match: `+badLabel),
		c("no param kind", `{paramKind: {}}`, "spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"),
		c("param version", `{paramKind: {apiVersion: a/b/c, kind: K}}`, `spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`),
		c("validations", `{validations: [{expression: " "}, {expression: "object.x", message: " ", messageExpression: " "}, {expression: "true", message: "a\nb", messageExpression: "1", reason: Whim}]}`,
			"spec.validations[0].expression: Required value: expression is not specified",
			`spec.validations[1].expression: Invalid value: "object.x": must evaluate to bool but got dyn`,
			`spec.validations[1].messageExpression: Invalid value: " ": must be non-empty if specified`,
			`spec.validations[1].message: Invalid value: " ": message must be non-empty if specified`,
			`spec.validations[2].messageExpression: Invalid value: "1": must evaluate to string but got int`,
			`spec.validations[2].message: Invalid value: "a\nb": message must not contain line breaks`,
			`spec.validations[2].reason: Unsupported value: "Whim": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"`),
		c("params without kind", `{validations: [{expression: "params == null"}]}`,
			"spec.validations[0].expression: Invalid value: \"params == null\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params == null\n | ^"),
		c("params", `{paramKind: {apiVersion: v1, kind: ConfigMap}, matchConditions: [{name: a, expression: "params == null"}], validations: [{expression: "params == null", messageExpression: "string(params.x)"}]}`),
		c("variables", `{variables: [{name: a, expression: "1"}, {name: b, expression: "variables.a + 1"}], validations: [{expression: "variables.b == 2"}], auditAnnotations: [{key: k, valueExpression: "variables.a > 0 ? string(variables.b) : ''"}]}`),
		c("wrong variables", `{variables: [{expression: ""}, {name: for, expression: "1 +"}, {name: a, expression: "variables.b"}], validations: [{expression: "variables.c"}]}`,
			"spec.variables[0].name: Required value: name is not specified", "spec.variables[0].expression: Required value: expression is not specified",
			`spec.variables[1].name: Invalid value: "for": name is not a valid CEL identifier`,
			"spec.variables[1].expression: Invalid value: \"1 +\": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 +\n | ...^",
			"spec.variables[2].expression: Invalid value: \"variables.b\": compilation failed: ERROR: <input>:1:10: undefined field 'b'\n | variables.b\n | .........^",
			"spec.validations[0].expression: Invalid value: \"variables.c\": compilation failed: ERROR: <input>:1:10: undefined field 'c'\n | variables.c\n | .........^"),
		c("audit annotations", `{auditAnnotations: [{key: "?", valueExpression: "''"}, {key: a, valueExpression: " "}, {key: a, valueExpression: "1"}]}`,
			`spec.auditAnnotations[0].key: Invalid value: "x/?": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
			`spec.auditAnnotations[2].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int`,
			`spec.auditAnnotations[2].key: Duplicate value: "a"`),
		c("long audit annotation", `{auditAnnotations: [{key: a, valueExpression: "`+strings.Repeat("x", 5121)+`"}]}`,
			"spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"),
	)
	stored := good.DeepCopy()
	stored.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "of.a.newer.server"}}
	kindtest.Update(t, row, stored,
		c("match conditions as before", `{failurePolicy: Ignore}`),
		c("other match conditions", `{matchConditions: [{name: a, expression: "1"}]}`, `spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`),
	)
	kindtest.UpdateSubresource(t, row, "status", good,
		kindtest.YAML[admissionregistrationv1.ValidatingAdmissionPolicy](t, "type checking", `status: {typeChecking: {expressionWarnings: [{}, {warning: w, fieldRef: "a["}, {warning: w, fieldRef: "spec.validations[0].expression"}]}}`,
			"status.typeChecking.expressionWarnings[0].warning: Required value", "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
			`status.typeChecking.expressionWarnings[1].fieldRef: Invalid value: "a[": invalid JSONPath: unterminated array`),
		c("spec", `{validations: null}`),
	)
	kindtest.Row(t, row, good, time.Now(), "x", int64(1), "<unset>", "<unknown>")
	good.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	kindtest.Row(t, row, good, time.Now(), "x", int64(1), "v1/ConfigMap", "<unknown>")
}

func TestMutatingPolicy(t *testing.T) {
	row := MutatingAdmissionPolicy()
	good := kindtest.From[*admissionregistrationv1.MutatingAdmissionPolicy](t, row, minimalPatch)
	c := func(name, spec string, want ...string) kindtest.Case[admissionregistrationv1.MutatingAdmissionPolicy] {
		return kindtest.YAML[admissionregistrationv1.MutatingAdmissionPolicy](t, name, "spec: "+spec, want...)
	}
	kindtest.Create(t, row, good,
		c("nothing", `{mutations: null, reinvocationPolicy: ""}`, "spec.mutations: Required value: mutations must contain at least one item", "spec.reinvocationPolicy: Required value"),
		c("reinvocation", `{reinvocationPolicy: Often}`, `spec.reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"`),
		c("patch types", `{mutations: [{patchType: ""}, {patchType: Magic}, {patchType: JSONPatch, applyConfiguration: {expression: "x"}}, {patchType: ApplyConfiguration, jsonPatch: {expression: "x"}}]}`,
			"spec.mutations[0].patchType: Required value",
			`spec.mutations[1].patchType: Unsupported value: "Magic": supported values: "ApplyConfiguration", "JSONPatch"`,
			"spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch",
			`spec.mutations[2].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`,
			"spec.mutations[3].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration",
			`spec.mutations[3].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`),
		c("expressions", `{mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[1]"}}, {patchType: ApplyConfiguration, applyConfiguration: {expression: ""}}, {patchType: ApplyConfiguration, applyConfiguration: {expression: "{}"}}]}`,
			`spec.mutations[0].jsonPatch.expression: Invalid value: "[1]": must evaluate to list(JSONPatch) but got list(int)`,
			"spec.mutations[1].applyConfiguration.expression: Required value: expression is not specified",
			`spec.mutations[2].applyConfiguration.expression: Invalid value: "{}": must evaluate to Object but got map(dyn, dyn)`),
		c("apply", `{variables: [{name: a, expression: '"x"'}], mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": variables.a}}}'}}]}`),
	)
	kindtest.Row(t, row, good, time.Now(), "x", int64(1), "<unset>", "<unknown>")
}

func TestBindings(t *testing.T) {
	row := ValidatingAdmissionPolicyBinding()
	good := kindtest.From[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, row, `{metadata: {name: x}, spec: {policyName: p, validationActions: [Deny]}}`)
	c := func(name, spec string, want ...string) kindtest.Case[admissionregistrationv1.ValidatingAdmissionPolicyBinding] {
		return kindtest.YAML[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, name, "spec: "+spec, want...)
	}
	const both = "name and selector are mutually exclusive"
	kindtest.Create(t, row, good,
		c("nothing", `{policyName: "", validationActions: null}`, "spec.policyName: Required value", "spec.validationActions: Required value: at least one validation action is required"),
		c("policy name", `{policyName: A}`, `spec.policyName: Invalid value: "A": `+badSubdomain),
		c("actions", `{validationActions: [Deny, Warn, Warn, Shout]}`,
			`spec.validationActions[2]: Duplicate value: "Warn"`, `spec.validationActions[3]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"`,
			`spec.validationActions: Invalid value: ["Deny","Warn","Warn","Shout"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`),
		c("no parameters", `{paramRef: {}}`, "spec.paramRef: Required value: one of name or selector must be specified", "spec.paramRef.parameterNotFoundAction: Required value"),
		c("parameters", `{paramRef: {name: a/b, selector: {}, parameterNotFoundAction: Cry}}`,
			`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`, "spec.paramRef.name: Forbidden: "+both, "spec.paramRef.selector: Forbidden: "+both,
			`spec.paramRef.parameterNotFoundAction: Unsupported value: "Cry": supported values: "Deny", "Allow"`),
		c("match", `{matchResources: {matchPolicy: Vague}}`, `spec.matchResouces.matchPolicy: Unsupported value: "Vague": supported values: "Equivalent", "Exact"`),
	)
	for ref, want := range map[string]string{`null`: "<unset>", `{name: a}`: "*/a", `{name: a, namespace: ns}`: "ns/a", `{selector: {matchLabels: {a: b}}}`: "a=b"} {
		b := good.DeepCopy()
		kindtest.Over[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, `spec: {paramRef: `+ref+`}`)(b)
		kindtest.Row(t, row, b, time.Now(), "x", "p", want, "<unknown>")
	}
	mutating := kindtest.From[*admissionregistrationv1.MutatingAdmissionPolicyBinding](t, MutatingAdmissionPolicyBinding(), `{metadata: {name: x}, spec: {policyName: p}}`)
	kindtest.Create(t, MutatingAdmissionPolicyBinding(), mutating,
		kindtest.YAML[admissionregistrationv1.MutatingAdmissionPolicyBinding](t, "policy name", `spec: {policyName: ""}`, "spec.policyName: Required value"))
	kindtest.Row(t, MutatingAdmissionPolicyBinding(), mutating, time.Now(), "x", "p", "<unset>", "<unknown>")
}
